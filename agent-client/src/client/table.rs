//! What is open in a session: requests without an answer, processes without an end. The callers add to it, the reader
//! takes from it, a new connection goes on with it, and the end of the session ends all of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use sidecar_protocol::RpcError;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::replay::Replay;
use super::routes::{Advance, Note, Routes};
use super::watch::Watches;
use crate::error::Error;
use crate::metrics::{Metrics, Outcome};

/// What a request comes to.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The server's answer.
    Answer(Result<Box<RawValue>, RpcError>),
    /// The session is over.
    Lost(Arc<str>),
    /// The connection was lost meanwhile, and it cannot be known whether it was done. The session goes on.
    Interrupted,
}

/// Gets the reply, on the reader's task and in the order in which the answers come. It must not wait.
pub(crate) type Then = Box<dyn FnOnce(Reply) + Send>;

/// A request that has no answer yet.
pub(super) struct Request {
    pub(super) method: Arc<str>,
    pub(super) replay: Replay,
    /// To be sent again; none of what will not be.
    pub(super) text: Option<Utf8Bytes>,
    /// The process that it starts.
    pub(super) starts: Option<Arc<str>>,
    pub(super) state: Sending,
    pub(super) then: Then,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// It waits for the writer.
    Queued,
    /// It may have reached the server.
    Sent,
    /// It was sent on an earlier connection too.
    Repeated,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Shared by the callers and the session's task. The lock is held for map operations only.
#[derive(Debug)]
pub(crate) struct Table {
    state: Mutex<State>,
    metrics: Metrics,
}

#[derive(Debug)]
enum State {
    Open(Open),
    Lost(Arc<str>),
}

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Open {
    requests: BTreeMap<i64, Request>,
    pub(super) routes: Routes,
    pub(super) watches: Watches,
}

impl Open {
    pub(super) fn expect(&mut self, id: i64, request: Request) {
        self.requests.insert(id, request);
    }
}

impl Table {
    /// `adopts`: see [`Routes`].
    pub(super) fn new(metrics: Metrics, adopts: bool) -> Self {
        let open = Open { routes: Routes::new(adopts), ..Open::default() };
        Self { state: Mutex::new(State::Open(open)), metrics }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // Nothing that runs under the lock leaves the maps half changed.
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `f` on what is open.
    ///
    /// # Errors
    /// Those of `f`; [`Error::ConnectionLost`] where nothing can be open any more.
    pub(super) fn open<T>(&self, f: impl FnOnce(&mut Open) -> Result<T, Error>) -> Result<T, Error> {
        self.with(|state| match state {
            State::Open(open) => f(open),
            State::Lost(reason) => Err(Error::ConnectionLost { reason: Arc::clone(reason) }),
        })
    }

    /// Looks something up; `None` too where nothing is open any more.
    pub(super) fn find<T>(&self, f: impl FnOnce(&mut Open) -> Option<T>) -> Option<T> {
        self.with(|state| match state {
            State::Open(open) => f(open),
            State::Lost(_) => None,
        })
    }

    /// The writer is about to send a request.
    pub(super) fn sent(&self, id: i64) {
        self.find(|open| {
            open.requests.get_mut(&id)?.state = Sending::Sent;
            Some(())
        });
    }

    /// Gives a request its answer.
    pub(super) fn answer(&self, id: i64, outcome: Result<Box<RawValue>, RpcError>) {
        let taken = self.find(|open| {
            let request = open.requests.remove(&id)?;
            let outcome = match request.state {
                Sending::Repeated => request.replay.settle(request.starts.as_deref(), outcome),
                Sending::Queued | Sending::Sent => outcome,
            };
            if let Some(process_id) = &request.starts {
                open.routes.started(process_id, outcome.as_ref().err());
            }
            Some((request, outcome))
        });
        let Some((request, outcome)) = taken else {
            tracing::debug!(id, "an answer to no request");
            return;
        };
        let counted = if outcome.is_ok() { Outcome::Ok } else { Outcome::Error };
        self.metrics.request(&request.method, counted);
        (request.then)(Reply::Answer(outcome));
    }

    /// Follows a process.
    pub(super) fn advance(&self, process_id: &str, seq: u64, note: Note) -> Advance {
        self.find(|open| Some(open.routes.advance(process_id, seq, note))).unwrap_or(Advance::Unknown)
    }

    /// Ends a process's events.
    pub(super) fn fail(&self, process_id: &str, reason: String) {
        if let Some(events) = self.find(|open| open.routes.remove(process_id)) {
            events.fail(reason);
        }
    }

    /// The connection is lost and the session goes on: what must be sent again, in the order in which it was sent
    /// first. Requests that cannot be are told so.
    pub(super) fn interrupted(&self) -> Vec<Utf8Bytes> {
        let mut forgotten = Vec::new();
        let again = self.find(|open| {
            let mut again = Vec::new();
            let sent = |r: &Request| r.state != Sending::Queued;
            let ids: Vec<i64> = open.requests.iter().filter(|(_, r)| sent(r)).map(|(id, _)| *id).collect();
            for id in ids {
                let Some(request) = open.requests.get_mut(&id) else { continue };
                match &request.text {
                    Some(text) => {
                        again.push(text.clone());
                        if let Some(process_id) = &request.starts {
                            again.push(super::acks::message(process_id, 0).into());
                        }
                        request.state = Sending::Repeated;
                    }
                    None => forgotten.extend(open.requests.remove(&id)),
                }
            }
            Some(again)
        });
        for request in forgotten {
            self.metrics.request(&request.method, Outcome::Lost);
            (request.then)(Reply::Interrupted);
        }
        again.unwrap_or_default()
    }

    /// Ends everything that is open, and whatever would be opened later. The first reason stays.
    pub(super) fn lose(&self, reason: &str) {
        let (open, reason) = self.with(|state| match state {
            State::Open(open) => {
                let open = std::mem::take(open);
                let reason: Arc<str> = reason.into();
                *state = State::Lost(Arc::clone(&reason));
                (open, reason)
            }
            State::Lost(reason) => (Open::default(), Arc::clone(reason)),
        });
        for request in open.requests.into_values() {
            self.metrics.request(&request.method, Outcome::Lost);
            (request.then)(Reply::Lost(Arc::clone(&reason)));
        }
        open.routes.fail(&format!("the connection to the sidecar is lost: {reason}"));
    }

    /// The error of a caller whose request will have no answer.
    pub(super) fn lost(&self) -> Error {
        let reason = self.with(|state| match state {
            State::Lost(reason) => Arc::clone(reason),
            State::Open(_) => "the session's task ended".into(),
        });
        Error::ConnectionLost { reason }
    }
}
