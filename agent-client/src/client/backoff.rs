//! How long to wait before the next attempt to connect.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5);

/// Twice as long each time, less a random part, so that many clients of one server do not come at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.attempts.min(16)).min(LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        // The standard library's keys are random, and nothing here needs a better source.
        let random = RandomState::new().hash_one(self.attempts) % 256;
        full - full * u32::try_from(random).unwrap_or(0) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next()).collect();
        for (n, wait) in waits.iter().enumerate() {
            let full = FIRST.saturating_mul(1 << n.min(16)).min(LONGEST);
            assert!(*wait <= full && *wait * 4 >= full * 3, "{n}: {wait:?} of {full:?}");
        }
    }
}
