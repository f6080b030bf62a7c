//! The commands that run on between windows, at most 64. Room is made by forgetting the one that was used least recently:
//! one that has ended, and only where all of them run, one that runs, which is ended then.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::session::Session;

/// Commands at the same time.
const SESSIONS: usize = 64;

/// The most recently used ones, which are not ended to make room.
const SPARED: usize = 8;

#[derive(Default)]
pub(super) struct Store {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<u64, Entry>,
    next_id: u64,
    /// Grows with each use.
    clock: u64,
}

struct Entry {
    session: Session,
    used: u64,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.lock().sessions.len()
    }

    pub(super) fn insert(&self, session: Session) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        let (id, used) = (state.next_id, state.tick());
        state.sessions.insert(id, Entry { session, used });
        id
    }

    /// Finds it, which counts as a use.
    pub(super) fn find(&self, id: u64) -> Option<Session> {
        let mut state = self.lock();
        let used = state.tick();
        let entry = state.sessions.get_mut(&id)?;
        entry.used = used;
        Some(entry.session.clone())
    }

    pub(super) fn remove(&self, id: u64) {
        self.lock().sessions.remove(&id);
    }

    /// Makes room for one more.
    pub(super) fn make_room(&self) {
        let mut state = self.lock();
        while state.sessions.len() >= SESSIONS {
            let known = state.sessions.iter().map(|(id, entry)| (*id, entry.used, entry.session.has_ended()));
            let Some(victim) = victim(known.collect()) else { return };
            if let Some(entry) = state.sessions.remove(&victim)
                && !entry.session.has_ended()
            {
                entry.session.terminate();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// Which one is to go, of (id, last use, has ended).
fn victim(mut sessions: Vec<(u64, u64, bool)>) -> Option<u64> {
    sessions.sort_by_key(|(_, used, _)| *used);
    sessions.truncate(sessions.len().saturating_sub(SPARED));
    let ended = sessions.iter().find(|(_, _, has_ended)| *has_ended);
    ended.or(sessions.first()).map(|(id, _, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_ones_go_first_and_recent_ones_never() {
        let sessions =
            |ended: &[u64]| (1..=64).map(|id| (id, 100 - id, ended.contains(&id))).collect::<Vec<_>>();
        assert_eq!(victim(sessions(&[])), Some(64), "the least recently used");
        assert_eq!(victim(sessions(&[20, 30])), Some(30), "of those that have ended");
        assert_eq!(victim(sessions(&[1, 8])), Some(64), "the eight used last are spared");
        assert_eq!(victim(sessions(&[9])), Some(9));
    }
}
