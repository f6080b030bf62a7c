//! Connections that were not let in yet: at most so many. A new one takes the place of the oldest, so that those who only
//! hold on to theirs keep nobody out who comes to the point.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Intake {
    places: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order of arrival.
    by_number: BTreeMap<u64, CancellationToken>,
}

/// The place of a connection that waits to be let in.
#[derive(Debug)]
pub(crate) struct Place {
    intake: Arc<Intake>,
    number: u64,
    lost: CancellationToken,
}

impl Intake {
    pub(crate) fn new(places: usize) -> Arc<Intake> {
        Arc::new(Intake { places, waiting: Mutex::default() })
    }

    /// A place for a new connection, and whether the oldest one has lost its own.
    pub(crate) fn enter(self: &Arc<Self>) -> (Place, bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest =
            if waiting.by_number.len() >= self.places { waiting.by_number.pop_first() } else { None };
        if let Some((_, oldest)) = &oldest {
            oldest.cancel();
        }
        let (number, lost) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_number.insert(number, lost.clone());
        (Place { intake: self.clone(), number, lost }, oldest.is_some())
    }
}

impl Place {
    /// Waits until a newer connection has it.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// The connection is let in: it does not lose its place any more.
    pub(crate) fn leave(&self) {
        let mut waiting = self.intake.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.by_number.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_for_a_new_one() {
        let intake = Intake::new(2);
        let (first, _) = intake.enter();
        let (second, full) = intake.enter();
        assert!(!full);
        drop(first);
        let (third, full) = intake.enter();
        assert!(!full, "whoever is let in makes room");
        let (fourth, full) = intake.enter();
        assert!(full);
        assert_eq!([&second, &third, &fourth].map(|place| place.lost.is_cancelled()), [true, false, false]);
        drop(second);
        assert!(intake.enter().1, "what has lost its place gives none back");
        drop((third, fourth));
        assert!(intake.waiting.lock().expect("not poisoned").by_number.is_empty());
    }
}
