//! What requests ask of a process beside reading and writing: its end, its size, its summary, a snapshot.

use std::io;
use std::time::Duration;

use sidecar_protocol::process::{ProcessState, ProcessSummary, Size, SnapshotResult, WaitResult};
use sidecar_protocol::{ErrorData, ErrorKind, RpcError};
use sidecar_sandbox::Tree;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Order, Phase, Process, unknown};

impl Process {
    pub(crate) fn is_terminal(&self) -> bool {
        self.about.tty
    }

    /// When its id was taken.
    pub(crate) fn started(&self) -> Instant {
        self.about.started
    }

    /// Its tree, while there is one.
    pub(crate) fn tree(&self) -> Option<Tree> {
        let gone = self.progress.borrow().tree_gone;
        self.about.running.get().filter(|_| !gone).map(|(_, tree)| *tree)
    }

    /// Returns once nothing of the tree is left.
    pub(crate) async fn tree_gone(&self) {
        self.when(|progress| progress.tree_gone).await;
    }

    /// Returns when the terminal has the size. A process that is gone needs none.
    pub(crate) async fn resize(&self, size: Size) -> Result<(), RpcError> {
        if self.launched().await == Phase::Failed {
            return Err(unknown(&self.id));
        }
        let (done, resized) = oneshot::channel();
        self.order(Order::Resize(size, done));
        match resized.await {
            Ok(Err(e)) => Err(refused(&e)),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    /// Waits for the end of its output, as long as that takes where no bound is given.
    pub(crate) async fn wait(&self, timeout: Option<Duration>) -> Result<WaitResult, RpcError> {
        let closed = self.when(|progress| progress.phase >= Phase::Closed);
        match timeout {
            // Out of time is an answer too: what the log says now.
            Some(timeout) => drop(tokio::time::timeout(timeout, closed).await),
            None => drop(closed.await),
        }
        self.ran().await?;
        Ok(self.log().end())
    }

    /// `None` for one that never ran.
    pub(crate) fn summary(&self) -> Option<ProcessSummary> {
        let progress = *self.progress.borrow();
        let state = match progress.phase {
            Phase::Starting => ProcessState::Starting,
            Phase::Running => ProcessState::Running,
            Phase::Exited => ProcessState::Exited,
            Phase::Closed => ProcessState::Closed,
            Phase::Failed => return None,
        };
        Some(ProcessSummary {
            process_id: self.id.clone(),
            state,
            argv: self.about.argv.clone(),
            tty: self.about.tty,
            pid: self.about.running.get().map(|(pid, _)| *pid),
            started_at_ms: self.about.started_at_ms(),
            exit_code: self.log().end().exit_code,
            background: progress.phase >= Phase::Exited && !progress.tree_gone,
        })
    }

    /// Waits for its launch. One that failed is not known.
    pub(crate) async fn ran(&self) -> Result<(), RpcError> {
        match self.launched().await {
            Phase::Failed => Err(unknown(&self.id)),
            _ => Ok(()),
        }
    }

    /// What is retained of its output.
    pub(crate) fn snapshot(&self) -> SnapshotResult {
        self.log().snapshot()
    }
}

fn refused(error: &io::Error) -> RpcError {
    RpcError::internal(format!("the terminal cannot be resized: {error}")).with_data(&ErrorData {
        kind: Some(ErrorKind::Os),
        errno: error.raw_os_error(),
        ..ErrorData::default()
    })
}
