//! For what tells nobody when it happens: looks again at an interval, until it is so.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::GIVE_UP;

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns what `look` finds, once it finds something.
///
/// # Panics
/// It finds nothing for [`GIVE_UP`].
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    // Nobody sends: a receive that times out is an interval.
    let (_keep, never) = mpsc::channel::<()>();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(begun.elapsed() < GIVE_UP, "{what}: not in {GIVE_UP:?}");
        let _ = never.recv_timeout(INTERVAL);
    }
}
