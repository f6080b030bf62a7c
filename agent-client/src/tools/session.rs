//! One command that runs on between windows: a task keeps its output, and whoever waits is woken by what comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Tap;
use super::head_tail::HeadTail;
use crate::backend::{ExecProcess, Started};
use crate::error::Error;
use crate::events::{Event, Events};

/// Output that is kept between two windows, bytes; beyond, its middle is left out.
const KEPT: usize = 1 << 20;

/// How long the output of a command that has exited is waited for. The server gives it up after a shorter time, unless
/// it is configured to wait longer.
const DRAIN: Duration = Duration::from_secs(10);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    Exited(i32),
    /// It is not known; why.
    Failed(String),
}

/// How far it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Progress {
    exit_code: Option<i32>,
    notes: Vec<String>,
    /// All of its output has come, or will not.
    ended: Option<Ended>,
}

/// A command that was started.
#[derive(Clone)]
pub(super) struct Session {
    process: Arc<dyn ExecProcess>,
    tty: bool,
    output: Arc<Mutex<Output>>,
    progress: watch::Receiver<Progress>,
}

/// What it has written.
struct Output {
    kept: HeadTail,
    tap: Option<Tap>,
}

impl Session {
    /// Starts to keep its output.
    pub(super) fn follow(started: Started, tty: bool, tap: Option<Tap>) -> Self {
        let output = Arc::new(Mutex::new(Output { kept: HeadTail::new(KEPT), tap }));
        let (sender, progress) = watch::channel(Progress::default());
        tokio::spawn(keep(started.events, Arc::clone(&output), sender));
        Self { process: started.process, tty, output, progress }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.progress.borrow().exit_code.is_some() || self.progress.borrow().ended.is_some()
    }

    /// Waits until it has ended and all of its output is there, or the time has come.
    pub(super) async fn wait(&self, until: Instant) -> Option<Ended> {
        let mut progress = self.progress.clone();
        let has_exited = |progress: &Progress| progress.exit_code.is_some() || progress.ended.is_some();
        let exit_code = match tokio::time::timeout_at(until, progress.wait_for(has_exited)).await {
            Ok(Ok(progress)) => match &progress.ended {
                Some(ended) => return Some(ended.clone()),
                None => progress.exit_code,
            },
            // The task that keeps the output has gone, which it does after the end alone.
            Ok(Err(_)) => return Some(lost()),
            Err(_) => return None,
        };
        // What it wrote before it exited is on its way.
        let drained =
            tokio::time::timeout(DRAIN, progress.wait_for(|progress| progress.ended.is_some())).await;
        match (drained, exit_code) {
            (Ok(Ok(progress)), _) => progress.ended.clone(),
            (Ok(Err(_)), _) | (Err(_), None) => Some(lost()),
            // What it left in the background still writes.
            (Err(_), Some(code)) => Some(Ended::Exited(code)),
        }
    }

    /// Types into its terminal. What it has not taken when the time has come goes on being written.
    pub(super) async fn write(&self, chars: String, until: Instant) -> Result<(), Error> {
        if !self.tty {
            return Err(Error::StdinClosed { process_id: self.process.process_id().to_owned() });
        }
        if self.has_ended() {
            // The window tells how.
            return Ok(());
        }
        let process = Arc::clone(&self.process);
        let writing = tokio::spawn(async move { process.write(chars.as_bytes()).await });
        match tokio::time::timeout_at(until, writing).await {
            // It has ended meanwhile.
            Ok(Ok(Err(Error::StdinClosed { .. } | Error::UnknownProcess { .. }))) => Ok(()),
            Ok(Ok(written)) => written,
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// What is to be told of its end.
    pub(super) fn notes(&self) -> Vec<String> {
        self.progress.borrow().notes.clone()
    }

    /// The output since it was last taken.
    pub(super) fn take_output(&self, is_end: bool) -> HeadTail {
        lock(&self.output).kept.take(is_end)
    }

    /// Lets `tap` hear what comes, in place of whoever heard it so far.
    pub(super) fn tap(&self, tap: Option<Tap>) {
        lock(&self.output).tap = tap;
    }

    /// Ends it, with all that it started.
    pub(super) fn terminate(&self) {
        let process = Arc::clone(&self.process);
        tokio::spawn(async move {
            if let Err(error) = process.terminate().await {
                tracing::warn!("a command cannot be ended: {error}");
            }
        });
    }
}

fn lost() -> Ended {
    Ended::Failed("the command is not followed any more".to_owned())
}

async fn keep(mut events: Events, output: Arc<Mutex<Output>>, progress: watch::Sender<Progress>) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Output { bytes, .. } => lock(&output).push(&bytes),
            Event::Exited(exit) => {
                progress.send_modify(|progress| {
                    progress.exit_code = Some(exit.exit_code);
                    progress.notes = exit.notes();
                });
            }
            Event::Closed => progress.send_modify(|progress| {
                progress.ended = Some(match progress.exit_code {
                    Some(code) => Ended::Exited(code),
                    None => Ended::Failed("the server closed the command without an exit code".to_owned()),
                });
            }),
            Event::Failed { reason } => {
                progress.send_modify(|progress| progress.ended = Some(Ended::Failed(reason)));
            }
        }
    }
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        self.kept.push(bytes);
        if let Some(tap) = &self.tap {
            // Whoever hears it is too slow, or has gone; the window has it.
            let _ = tap.try_send(bytes.to_vec());
        }
    }
}

fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}
