//! Where the notifications of each process go, what was the last one, and what is counted of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use sidecar_protocol::RpcError;
use sidecar_protocol::process::Cause;

use super::acks::{Acks, Progress};
use crate::error::Error;
use crate::events::EventSender;
use crate::metrics::{Attempt, Run};

/// The processes that are followed.
#[derive(Debug, Default)]
pub(super) struct Routes {
    processes: HashMap<Arc<str>, Route>,
}

/// One of them.
#[derive(Debug)]
struct Route {
    /// `None` where its notifications are passed on as they are.
    events: Option<EventSender>,
    progress: Arc<Progress>,
    count: Count,
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
    /// Follows a process that is about to be started, and counts the attempt.
    pub(super) fn add(
        &mut self,
        process_id: Arc<str>,
        events: Option<EventSender>,
        progress: Arc<Progress>,
        attempt: impl FnOnce() -> Attempt,
    ) -> Result<(), Error> {
        match self.processes.entry(process_id) {
            Entry::Occupied(taken) => Err(Error::ProcessExists { process_id: taken.key().to_string() }),
            Entry::Vacant(free) => {
                free.insert(Route { events, progress, count: Count::Attempt(attempt()), bytes: 0, notes: 0 });
                Ok(())
            }
        }
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
        let Some(route) = self.processes.get_mut(process_id) else { return Advance::Unknown };
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
            self.processes.remove(process_id);
        }
        events.map_or(Advance::PassOn, Advance::Deliver)
    }

    /// A notification was passed on to where it is going.
    pub(super) fn passed_on(&mut self, acks: &Acks, process_id: &Arc<str>, seq: u64, bytes: usize) {
        let Some(route) = self.processes.get_mut(process_id) else {
            // It has closed, or belongs to an earlier client of the session.
            acks.acknowledge(process_id, seq);
            return;
        };
        route.progress.consume(seq);
        route.bytes += bytes as u64;
        route.notes += 1;
        if acks.pace().is_some_and(|pace| pace.is_due(route.bytes, route.notes)) {
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
