//! Whether the sidecar is ready, and the answers of its health endpoints. They say the state and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Mutex;

use crate::server::Shared;

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
pub(crate) struct Health {
    state: AtomicU8,
    /// Held by the one look that is under way: it may hang with a file system.
    look: Arc<Mutex<()>>,
}

impl Health {
    pub(crate) fn new() -> Health {
        Health { state: AtomicU8::new(State::Starting as u8), look: Arc::default() }
    }

    pub(crate) fn get(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Starting,
            1 => State::Ready,
            2 => State::Unconfined,
            _ => State::Draining,
        }
    }

    /// Nothing leads back from draining.
    pub(crate) fn set(&self, state: State) {
        self.state.fetch_max(state as u8, Ordering::AcqRel);
    }
}

/// Status and body for a health path; `None` for any other path. Whoever is to be ready is looked at now.
pub(crate) async fn answer(shared: &Arc<Shared>, path: &str) -> Option<(u16, &'static str)> {
    match answer_of(path, shared.health.get()) {
        // The workspace may have gone since the start, and may come back.
        Some((200, _)) if path != LIVE && !can_launch(shared.clone()).await => {
            Some((503, "launches are blocked\n"))
        }
        answer => answer,
    }
}

async fn can_launch(shared: Arc<Shared>) -> bool {
    let alone = shared.health.look.clone().lock_owned().await;
    let looked = tokio::task::spawn_blocking(move || {
        let _alone = alone;
        let workspace = &shared.config.sandbox.roots.workspace;
        let there = std::fs::metadata(workspace).is_ok_and(|place| place.is_dir());
        let checked = shared.sandbox.check();
        if let Err(error) = &checked {
            tracing::warn!(%error, "not ready");
        }
        there && checked.is_ok()
    });
    looked.await.unwrap_or(false)
}

const LIVE: &str = "/livez";

fn answer_of(path: &str, state: State) -> Option<(u16, &'static str)> {
    match (path, state) {
        (LIVE, _) => Some((200, "ok\n")),
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
        assert_eq!(answer_of("/readyz", health.get()).map(|a| a.0), Some(503));
        health.set(State::Ready);
        assert_eq!(answer_of("/readyz", health.get()).map(|a| a.0), Some(200));
        health.set(State::Draining);
        health.set(State::Ready);
        assert_eq!(health.get(), State::Draining);
        assert_eq!(answer_of("/readyz", health.get()).map(|a| a.0), Some(503));
        assert_eq!(answer_of("/livez", health.get()).map(|a| a.0), Some(200));
        assert_eq!(answer_of("/", health.get()), None);
    }
}
