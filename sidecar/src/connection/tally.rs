//! What is counted and recorded of one request, whatever it is about.

use std::sync::Arc;

use sidecar_protocol::RpcError;
use sidecar_protocol::method::{Group, Method};
use tokio::time::Instant;

use crate::audit::Event;
use crate::audit::files::FileRecord;
use crate::caller::Caller;
use crate::metrics::labels;
use crate::rpc::Params;
use crate::server::Shared;
use crate::session::Session;

/// One request, until it is answered.
#[derive(Debug)]
pub(super) struct Tally {
    shared: Arc<Shared>,
    method: Method,
    at: Instant,
    file: Option<(Arc<Session>, Arc<Caller>, FileRecord)>,
}

impl Tally {
    /// Of a request that belongs to no session yet.
    pub(super) fn new(shared: &Arc<Shared>, method: Method) -> Tally {
        Tally { shared: shared.clone(), method, at: Instant::now(), file: None }
    }

    /// Of a request of a session.
    pub(super) fn of(session: &Arc<Session>, method: Method, params: Params<'_>) -> Tally {
        let shared = session.shared();
        let record = (method.group() == Group::Filesystem && shared.audit.is_on())
            .then(|| FileRecord::of(method, params, shared.audit.config().reads))
            .flatten();
        let mut tally = Tally::new(shared, method);
        tally.file = record.map(|record| (session.clone(), session.caller(), record));
        tally
    }

    /// It is answered.
    pub(super) fn answered(mut self, outcome: Result<(), &RpcError>) {
        self.shared.metrics.requests.answered(self.method, outcome, self.at.elapsed());
        self.record(outcome.err().map(labels::fs_reason));
    }

    fn record(&mut self, reason: Option<&'static str>) {
        let Some((session, caller, record)) = self.file.take() else { return };
        self.shared.audit.record(&Event {
            session: Some(session.id()),
            path: Some(&record.path),
            destination: record.destination.as_deref(),
            bytes: record.bytes,
            reason,
            ..Event::by(record.event, &caller)
        });
    }
}

impl Drop for Tally {
    /// The client went away before the answer. What it asked for may have been done.
    fn drop(&mut self) {
        self.record(Some("unanswered"));
    }
}
