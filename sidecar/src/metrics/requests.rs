//! What is counted of connections, requests and file operations.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use sidecar_protocol::RpcError;
use sidecar_protocol::method::{Group, Method};

use super::grid::{Grid, Room};
use super::{Counted, counters, gauges, known, labels, opts};
use crate::config::MetricsDetail;

const FS_SECONDS: [f64; 3] = [0.001, 0.025, 1.0];

/// The handles.
#[derive(Debug)]
pub(crate) struct Requests {
    requests: Grid,
    rejected: IntCounterVec,
    fs_duration: Option<HistogramVec>,
    fs_errors: Grid,
    auth_failures: IntCounterVec,
    connections: IntGauge,
    sessions: IntGaugeVec,
}

impl Requests {
    pub(super) fn new(
        registry: &Registry,
        detail: MetricsDetail,
        room: &Room,
    ) -> prometheus::Result<Requests> {
        let by = |name, help, labels: &[&str]| counters(registry, name, help, labels);
        let methods = Method::ALL.iter().map(|method| method.name()).chain(["other"]).collect();
        let requests =
            by("requests_total", "Answered requests by method and response code", &["method", "code"])?;
        let fs_errors = by("fs_errors_total", "Failed file operations by the reason", &["op", "reason"])?;
        let fs_duration = match detail {
            MetricsDetail::Basic => None,
            MetricsDetail::Full => Some(fs_duration(registry)?),
        };
        let handles = Requests {
            requests: Grid::new(requests, methods, labels::CODES, 1, room),
            rejected: by("rejected_total", "What a limit or the state of the server refused", &["reason"])?,
            fs_duration,
            fs_errors: Grid::new(fs_errors, labels::FS_OPERATIONS.to_vec(), labels::FS_REASONS, 0, room),
            auth_failures: by("auth_failures_total", "Refused clients by the reason", &["reason"])?,
            connections: IntGauge::with_opts(opts("connections", "Open connections"))?,
            sessions: gauges(registry, "sessions", "Open sessions", &["state"])?,
        };
        registry.register(Box::new(handles.connections.clone()))?;
        known(&handles.rejected, labels::REJECTIONS);
        known(&handles.auth_failures, labels::AUTH_REASONS);
        for state in ["attached", "detached"] {
            handles.sessions.with_label_values(&[state]);
        }
        Ok(handles)
    }

    /// A request was served.
    pub(crate) fn answered(&self, method: Method, outcome: Result<(), &RpcError>, after: Duration) {
        match outcome {
            Ok(()) => self.requests.inc(method.name(), "ok"),
            Err(error) => self.refused(Some(method), error),
        }
        if method.group() == Group::Filesystem {
            let operation = labels::fs_operation(method);
            if let Some(duration) = &self.fs_duration {
                duration.with_label_values(&[operation]).observe(after.as_secs_f64());
            }
            if let Err(error) = outcome {
                self.fs_errors.inc(operation, labels::fs_reason(error));
            }
        }
    }

    /// A request was answered by an error, or a frame that is none. `None`: no known method.
    pub(crate) fn refused(&self, method: Option<Method>, error: &RpcError) {
        self.requests.inc(method.map_or("other", Method::name), &error.code.to_string());
        if let Some(reason) = labels::rejection(error) {
            self.rejected(reason);
        }
    }

    /// Something was refused, for a reason of the closed set.
    pub(crate) fn rejected(&self, reason: &'static str) {
        self.rejected.with_label_values(&[reason]).inc();
    }

    /// A client was refused.
    pub(crate) fn auth_failed(&self, reason: &'static str) {
        self.auth_failures.with_label_values(&[reason]).inc();
    }

    /// A connection is open for as long as this is held.
    pub(crate) fn connected(&self) -> Counted {
        Counted::new(&self.connections)
    }

    /// A session is attached to a connection for as long as this is held.
    pub(crate) fn attached(&self) -> Counted {
        Counted::new(&self.sessions.with_label_values(&["attached"]))
    }

    /// A session waits for its client to come back for as long as this is held.
    pub(crate) fn detached(&self) -> Counted {
        Counted::new(&self.sessions.with_label_values(&["detached"]))
    }
}

fn fs_duration(registry: &Registry) -> prometheus::Result<HistogramVec> {
    let opts = HistogramOpts {
        common_opts: opts("fs_operation_duration_seconds", "From the request to the answer"),
        buckets: FS_SECONDS.to_vec(),
    };
    let family = HistogramVec::new(opts, &["op"])?;
    registry.register(Box::new(family.clone()))?;
    for operation in labels::FS_OPERATIONS {
        family.with_label_values(&[*operation]);
    }
    Ok(family)
}
