//! Whether the sidecar is ready, and the answers of its health endpoints. They say the state and nothing else.

use std::sync::atomic::{AtomicU8, Ordering};

/// What the sidecar is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The proof that the sandbox holds has not come in yet.
    Starting = 0,
    /// Launches work, and are confined.
    Ready = 1,
    /// The sandbox does not hold here; launches are refused.
    Unconfined = 2,
    /// On the way out; no new sessions.
    Draining = 3,
}

/// The state, shared.
#[derive(Debug)]
pub(crate) struct Health(AtomicU8);

impl Health {
    pub(crate) fn new() -> Health {
        Health(AtomicU8::new(State::Starting as u8))
    }

    pub(crate) fn get(&self) -> State {
        match self.0.load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Ready,
            2 => State::Unconfined,
            _ => State::Draining,
        }
    }

    /// Nothing leads back from draining.
    pub(crate) fn set(&self, state: State) {
        self.0.fetch_max(state as u8, Ordering::AcqRel);
    }
}

/// Status and body for a health path; `None` for any other path.
pub(crate) fn answer(path: &str, state: State) -> Option<(u16, &'static str)> {
    match (path, state) {
        ("/livez", _) => Some((200, "ok\n")),
        ("/readyz" | "/healthz", State::Ready) => Some((200, "ok\n")),
        ("/readyz" | "/healthz", State::Starting) => Some((503, "starting\n")),
        ("/readyz" | "/healthz", State::Unconfined) => Some((503, "sandbox unavailable\n")),
        ("/readyz" | "/healthz", State::Draining) => Some((503, "draining\n")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_is_final() {
        let health = Health::new();
        assert_eq!(answer("/readyz", health.get()).map(|a| a.0), Some(503));
        health.set(State::Ready);
        assert_eq!(answer("/readyz", health.get()).map(|a| a.0), Some(200));
        health.set(State::Draining);
        health.set(State::Ready);
        assert_eq!(health.get(), State::Draining);
        assert_eq!(answer("/readyz", health.get()).map(|a| a.0), Some(503));
        assert_eq!(answer("/livez", health.get()).map(|a| a.0), Some(200));
        assert_eq!(answer("/", health.get()), None);
    }
}
