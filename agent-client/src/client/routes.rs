//! Where the notifications of each process go, what was the last one, and what is counted of it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use sidecar_protocol::RpcError;
use sidecar_protocol::process::Cause;

use super::acks::{Acks, Progress};
use crate::error::Error;
use crate::events::EventSender;
use crate::metrics::{Attempt, Run};

/// Processes that have closed and are remembered, at most: the server may tell their ends again after a lost connection.
const CLOSED: usize = 1024;

/// The processes that are followed.
#[derive(Debug, Default)]
pub(super) struct Routes {
    processes: HashMap<Arc<str>, Route>,
    /// Processes that others have started are followed too: notifications are passed on as they are.
    adopts: bool,
    /// Of those that are passed on, the ones that have closed, the oldest first.
    closed: VecDeque<Arc<str>>,
}

/// One of them.
#[derive(Debug)]
struct Route {
    /// `None` where its notifications are passed on as they are.
    events: Option<EventSender>,
    progress: Arc<Progress>,
    count: Count,
    closed: bool,
    /// Passed on since the last acknowledgement.
    bytes: u64,
    notes: u64,
}

/// What is counted of a process.
#[derive(Debug, Default)]
enum Count {
    /// It is being started.
    Attempt(Attempt),
    /// It has started.
    Run(Run),
    /// Nothing: it was started by an earlier client of the session.
    #[default]
    Nothing,
}

/// What a notification says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Note {
    /// Output of so many bytes.
    Output(usize),
    Exited(Option<Cause>),
    Closed,
}

/// Where a notification goes.
#[derive(Debug)]
pub(super) enum Advance {
    /// To its consumer.
    Deliver(EventSender),
    /// Wherever all of them go.
    PassOn,
    /// Nowhere: it came before, on an earlier connection.
    Seen,
    /// Nowhere: the one before it is missing.
    Gap { expected: u64 },
    /// Nobody follows the process.
    Unknown,
}

impl Routes {
    pub(super) fn new(adopts: bool) -> Self {
        Self { adopts, ..Self::default() }
    }

    /// Follows a process that is about to be started, and counts the attempt.
    pub(super) fn add(
        &mut self,
        process_id: Arc<str>,
        events: Option<EventSender>,
        progress: Arc<Progress>,
        attempt: impl FnOnce() -> Attempt,
    ) -> Result<(), Error> {
        if self.processes.get(&process_id).is_some_and(|route| !route.closed) {
            return Err(Error::ProcessExists { process_id: process_id.to_string() });
        }
        self.closed.retain(|closed| *closed != process_id);
        self.processes.insert(process_id, Route::new(events, progress, Count::Attempt(attempt())));
        Ok(())
    }

    /// Follows a process no further; where its events went.
    pub(super) fn remove(&mut self, process_id: &str) -> Option<EventSender> {
        self.processes.remove(process_id)?.events
    }

    /// The answer to its start has come.
    pub(super) fn started(&mut self, process_id: &str, error: Option<&RpcError>) {
        let Some(route) = self.processes.get_mut(process_id) else { return };
        let count = std::mem::take(&mut route.count);
        match (count, error) {
            (Count::Attempt(attempt), None) => route.count = Count::Run(attempt.started()),
            (Count::Attempt(attempt), Some(error)) => {
                attempt.refused(error);
                self.processes.remove(process_id);
            }
            (count, _) => route.count = count,
        }
    }

    /// Takes the notification number `seq` of a process.
    pub(super) fn advance(&mut self, process_id: &str, seq: u64, note: Note) -> Advance {
        let route = match self.processes.get_mut(process_id) {
            Some(route) => route,
            None if self.adopts => {
                let route = Route::new(None, Arc::default(), Count::Nothing);
                self.processes.entry(process_id.into()).or_insert(route)
            }
            None => return Advance::Unknown,
        };
        let expected = route.progress.arrived() + 1;
        if seq < expected {
            return Advance::Seen;
        }
        // Whoever gets them as they are sees the gap too.
        if seq > expected && route.events.is_some() {
            return Advance::Gap { expected };
        }
        route.progress.arrive(seq);
        match (&mut route.count, note) {
            (Count::Run(run), Note::Output(bytes)) => run.output(bytes),
            (Count::Run(run), Note::Exited(cause)) => run.exited(cause),
            _ => {}
        }
        let events = route.events.clone();
        if matches!(note, Note::Closed) {
            route.closed = true;
            match &events {
                Some(_) => drop(self.processes.remove(process_id)),
                None => self.remember(process_id),
            }
        }
        events.map_or(Advance::PassOn, Advance::Deliver)
    }

    /// One that has closed, and is passed on.
    fn remember(&mut self, process_id: &str) {
        self.closed.push_back(process_id.into());
        if self.closed.len() > CLOSED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.processes.remove(&oldest);
        }
    }

    /// A notification was passed on to where it is going.
    pub(super) fn passed_on(&mut self, acks: &Acks, process_id: &Arc<str>, seq: u64, bytes: usize) {
        let Some(route) = self.processes.get_mut(process_id) else {
            // It has closed long ago.
            acks.acknowledge(process_id, seq);
            return;
        };
        route.progress.consume(seq);
        route.bytes += bytes as u64;
        route.notes += 1;
        let is_last = route.closed && seq == route.progress.arrived();
        if is_last || acks.pace().is_some_and(|pace| pace.is_due(route.bytes, route.notes)) {
            (route.bytes, route.notes) = (0, 0);
            acks.acknowledge(process_id, seq);
        }
    }

    /// Whoever gets the notifications has them up to `seq`.
    pub(super) fn consumed(&mut self, process_id: &str, seq: u64) {
        if let Some(route) = self.processes.get(process_id) {
            route.progress.consume(seq);
        }
    }

    /// What the server need not send again, of each process.
    pub(super) fn positions(&self) -> Vec<(Arc<str>, u64)> {
        let position = |(id, route): (&Arc<str>, &Route)| (Arc::clone(id), route.progress.acknowledged());
        self.processes.iter().map(position).collect()
    }

    /// Ends the events of all of them.
    pub(super) fn fail(self, reason: &str) {
        for events in self.processes.into_values().filter_map(|route| route.events) {
            events.fail(reason.to_owned());
        }
    }
}

impl Route {
    fn new(events: Option<EventSender>, progress: Arc<Progress>, count: Count) -> Self {
        Self { events, progress, count, closed: false, bytes: 0, notes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_on_is_passed_on_once() {
        let mut routes = Routes::new(true);
        let passed = |routes: &mut Routes, id: &str, seq, note| {
            matches!(routes.advance(id, seq, note), Advance::PassOn)
        };
        // Started by an earlier client of the session: wherever it is, from there on.
        assert!(passed(&mut routes, "p", 7, Note::Output(1)));
        assert!(!passed(&mut routes, "p", 7, Note::Output(1)), "once");
        assert!(passed(&mut routes, "p", 8, Note::Exited(None)));
        assert!(passed(&mut routes, "p", 9, Note::Closed));
        assert!(!passed(&mut routes, "p", 8, Note::Exited(None)), "also after its end");
        for n in 0..=CLOSED {
            assert!(passed(&mut routes, &n.to_string(), 1, Note::Closed));
        }
        assert_eq!(routes.processes.len(), CLOSED);
    }

    #[test]
    fn an_id_is_free_again_after_the_end() {
        let metrics = crate::Metrics::new();
        let mut routes = Routes::new(true);
        let add =
            |routes: &mut Routes| routes.add("p".into(), None, Arc::default(), || metrics.launch(false));
        add(&mut routes).unwrap();
        assert!(matches!(add(&mut routes), Err(Error::ProcessExists { .. })));
        routes.advance("p", 1, Note::Closed);
        add(&mut routes).unwrap();
        assert!(matches!(routes.advance("p", 1, Note::Output(0)), Advance::PassOn));
    }
}
