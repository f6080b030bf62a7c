//! What is open on a connection: requests without an answer, processes without an end. The callers add to it, the
//! reader takes from it, and the end of the connection ends all of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use sidecar_protocol::RpcError;
use sidecar_protocol::fs::{ChangedNotification, WatchId};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::events::EventSender;
use crate::filesystem::watch::FeedSender;

/// The answer to a request.
pub(super) type Outcome = Result<Box<RawValue>, RpcError>;

/// Shared by the callers and the connection's task. The lock is held for map operations only.
#[derive(Debug, Default)]
pub(super) struct Table {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Open),
    Lost(Arc<str>),
}

impl Default for State {
    fn default() -> Self {
        State::Open(Open::default())
    }
}

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Open {
    answers: HashMap<i64, oneshot::Sender<Outcome>>,
    processes: HashMap<String, Route>,
    watches: HashMap<WatchId, FeedSender>,
}

#[derive(Debug)]
struct Route {
    events: EventSender,
    next_seq: u64,
}

impl Open {
    pub(super) fn expect(&mut self, id: i64, answer: oneshot::Sender<Outcome>) {
        self.answers.insert(id, answer);
    }

    pub(super) fn watch(&mut self, id: WatchId, feed: FeedSender) {
        self.watches.insert(id, feed);
    }

    pub(super) fn route(&mut self, process_id: &str, events: EventSender) -> Result<(), Error> {
        match self.processes.entry(process_id.to_owned()) {
            Entry::Occupied(_) => Err(Error::ProcessExists { process_id: process_id.to_owned() }),
            Entry::Vacant(free) => {
                free.insert(Route { events, next_seq: 1 });
                Ok(())
            }
        }
    }
}

impl Table {
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
    fn find<T>(&self, f: impl FnOnce(&mut Open) -> Option<T>) -> Option<T> {
        self.with(|state| match state {
            State::Open(open) => f(open),
            State::Lost(_) => None,
        })
    }

    /// Gives a request its answer. One that nobody waits for any more is dropped.
    pub(super) fn answer(&self, id: i64, outcome: Outcome) {
        match self.find(|open| open.answers.remove(&id)) {
            Some(caller) => drop(caller.send(outcome)),
            None => tracing::debug!(id, "an answer to no request"),
        }
    }

    /// Hands changes to whoever watches for them.
    pub(super) fn changed(&self, changed: ChangedNotification) {
        self.find(|open| open.watches.get(&changed.watch_id).map(|feed| feed.send(changed)));
    }

    /// Takes the watch out; its later notifications are ignored.
    pub(super) fn unwatch(&self, id: &WatchId) {
        self.find(|open| open.watches.remove(id));
    }

    /// Takes the process out; its later notifications are ignored.
    pub(super) fn unroute(&self, process_id: &str) -> Option<EventSender> {
        self.find(|open| open.processes.remove(process_id)).map(|route| route.events)
    }

    /// Where the notification number `seq` of a process goes; `None` for a process that nobody follows. A gap means
    /// that output was lost, and ends the process's events.
    pub(super) fn advance(&self, process_id: &str, seq: u64) -> Option<EventSender> {
        let (expected, events) = self.find(|open| {
            let route = open.processes.get_mut(process_id)?;
            let expected = route.next_seq;
            route.next_seq += 1;
            Some((expected, route.events.clone()))
        })?;
        if seq == expected {
            return Some(events);
        }
        self.fail(process_id, format!("output was lost: notification {expected} was due and {seq} came"));
        None
    }

    /// Ends a process's events.
    pub(super) fn fail(&self, process_id: &str, reason: String) {
        if let Some(events) = self.unroute(process_id) {
            events.fail(reason);
        }
    }

    /// Ends everything that is open, and whatever would be opened later. The first reason stays.
    pub(super) fn lose(&self, reason: String) {
        let open = self.with(|state| match state {
            State::Open(open) => {
                let open = std::mem::take(open);
                *state = State::Lost(reason.as_str().into());
                open
            }
            State::Lost(_) => Open::default(),
        });
        for route in open.processes.into_values() {
            route.events.fail(format!("the connection to the sidecar is lost: {reason}"));
        }
        // Dropping the senders of `open.answers` wakes their callers, who then ask for the reason.
    }

    /// The error of a caller whose request will have no answer.
    pub(super) fn lost(&self) -> Error {
        let reason = self.with(|state| match state {
            State::Lost(reason) => Arc::clone(reason),
            State::Open(_) => "the connection's task ended".into(),
        });
        Error::ConnectionLost { reason }
    }
}
