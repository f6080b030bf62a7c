//! What is counted of one launch: an [`Attempt`] becomes a [`Run`] or a refusal, a run ends with the exit. Each is told
//! exactly once, also where nobody follows it to its end.

use std::time::Instant;

use sidecar_protocol::RpcError;
use sidecar_protocol::process::Cause;

use super::{Metrics, labels};

/// A command that is being started.
#[derive(Debug)]
pub(crate) struct Attempt {
    metrics: Metrics,
    tty: bool,
    at: Instant,
    told: bool,
}

/// A command that has started.
#[derive(Debug)]
pub(crate) struct Run {
    metrics: Metrics,
    tty: bool,
    at: Instant,
    told: bool,
}

impl Attempt {
    pub(super) fn new(metrics: Metrics, tty: bool) -> Self {
        Self { metrics, tty, at: Instant::now(), told: false }
    }

    /// It has started.
    pub(crate) fn started(mut self) -> Run {
        self.told = true;
        self.metrics.handles.started(self.tty, self.at.elapsed());
        Run { metrics: self.metrics.clone(), tty: self.tty, at: Instant::now(), told: false }
    }

    /// The server refused it.
    pub(crate) fn refused(mut self, error: &RpcError) {
        self.told = true;
        self.metrics.handles.refused(self.tty, labels::refusal(error));
    }
}

impl Drop for Attempt {
    /// No answer came.
    fn drop(&mut self) {
        if !self.told {
            self.metrics.handles.refused(self.tty, labels::SERVER_ERROR);
        }
    }
}

impl Run {
    /// It wrote.
    pub(crate) fn output(&self, bytes: usize) {
        self.metrics.handles.output(self.tty, bytes);
    }

    /// It ended; `None` from a server that tells no cause.
    pub(crate) fn exited(&mut self, cause: Option<Cause>) {
        self.end(cause.map_or(labels::UNKNOWN, Cause::name));
    }

    fn end(&mut self, cause: &'static str) {
        if !std::mem::replace(&mut self.told, true) {
            self.metrics.handles.exited(self.tty, cause, self.at.elapsed());
        }
    }
}

impl Drop for Run {
    /// Nobody follows it any further.
    fn drop(&mut self) {
        self.end(labels::LOST);
    }
}
