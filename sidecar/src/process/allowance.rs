//! The bounds that a launch asked for itself: wall time, silence, resources. Says when one is reached; ends nothing.

use std::time::Duration;

use nix::sys::signal::Signal;
use sidecar_protocol::RpcError;
use sidecar_protocol::process::{Cause, ResourceLimits, StartParams};
use sidecar_sandbox::{Exit, Limits};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    wall: Option<Duration>,
    idle: Option<Duration>,
    limits: ResourceLimits,
}

impl Allowance {
    /// Refuses what no command could live with.
    pub(super) fn new(params: &StartParams) -> Result<Allowance, RpcError> {
        let limits = params.limits.unwrap_or_default();
        let asked = [
            ("timeoutMs", params.timeout_ms),
            ("idleTimeoutMs", params.idle_timeout_ms),
            ("limits.memoryBytes", limits.memory_bytes),
            ("limits.processes", limits.processes),
            ("limits.openFiles", limits.open_files),
            ("limits.fileBytes", limits.file_bytes),
            ("limits.cpuSeconds", limits.cpu_seconds),
        ];
        if let Some((name, _)) = asked.iter().find(|(_, value)| *value == Some(0)) {
            return Err(RpcError::invalid_params(format!("{name} must be at least 1")));
        }
        Ok(Allowance {
            wall: params.timeout_ms.map(Duration::from_millis),
            idle: params.idle_timeout_ms.map(Duration::from_millis),
            limits,
        })
    }

    /// What the kernel is to enforce, on each process of the tree.
    pub(super) fn rlimits(&self) -> Limits {
        Limits {
            memory_bytes: self.limits.memory_bytes,
            open_files: self.limits.open_files,
            file_bytes: self.limits.file_bytes,
            cpu_seconds: self.limits.cpu_seconds,
        }
    }

    /// How many processes the tree may have.
    pub(super) fn processes(&self) -> Option<u64> {
        self.limits.processes
    }

    /// When the command is to be ended, and why. `active` is when it last read or wrote; `None` while it is kept from it.
    pub(super) fn deadline(&self, started: Instant, active: Option<Instant>) -> Option<(Instant, Cause)> {
        // A bound beyond what the clock can tell is none.
        let wall = self.wall.and_then(|wall| started.checked_add(wall)).map(|at| (at, Cause::Timeout));
        let idle = self.idle.zip(active).and_then(|(idle, active)| active.checked_add(idle));
        let idle = idle.map(|at| (at, Cause::IdleTimeout));
        [wall, idle].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Whether it was a limit that ended the command: the kernel says so by a signal.
    pub(super) fn reached(&self, exit: Exit) -> bool {
        let signal = exit.signal.and_then(|signal| Signal::try_from(signal).ok());
        (signal == Some(Signal::SIGXCPU) && self.limits.cpu_seconds.is_some())
            || (signal == Some(Signal::SIGXFSZ) && self.limits.file_bytes.is_some())
    }
}
