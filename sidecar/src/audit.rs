//! The audit trail: who ran what, one line of JSON per event.
//!
//! An event is put in writing where it happens and queued; one thread owns the sink. The queue is bounded and nobody
//! waits for it, except a launch that may not go on without its record. What is lost is counted.

pub(crate) mod argv;
pub(crate) mod event;
pub(crate) mod files;
mod rotate;
mod sink;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use prometheus::IntCounterVec;

pub(crate) use self::event::Event;
use self::sink::Sink;
use crate::config::{AuditConfig, AuditSink, OnFailure};

/// Records that may wait to be written.
const QUEUE: usize = 4096;

/// How long a launch waits for its record, and the server's end for the last one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a record is not known to be written.
#[derive(Debug, thiserror::Error)]
#[error("the audit record cannot be written")]
pub(crate) struct Unrecorded;

/// The way to the writer. Does nothing where there is no trail.
#[derive(Debug)]
pub(crate) struct Audit {
    config: AuditConfig,
    events: IntCounterVec,
    queue: Option<SyncSender<Job>>,
    /// Whether the last record was lost; so that a log line is written once, not per record.
    losing: AtomicBool,
    /// Whether the writer failed to write the last one.
    failing: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Job {
    Write(String, Option<SyncSender<bool>>),
    Reopen,
}

impl Audit {
    /// Opens the sink, so that a path that cannot be written to is known at start.
    pub(crate) fn start(config: &AuditConfig, events: IntCounterVec) -> io::Result<Audit> {
        let failing = Arc::new(AtomicBool::new(false));
        let queue = match config.sink {
            AuditSink::None => None,
            _ => {
                let sink = Sink::open(config)?;
                let (queue, jobs) = mpsc::sync_channel(QUEUE);
                let (events, failing) = (events.clone(), failing.clone());
                let writer = std::thread::Builder::new().name("audit".into());
                writer.spawn(move || write(sink, &jobs, &events, &failing))?;
                Some(queue)
            }
        };
        Ok(Audit { config: config.clone(), events, queue, losing: AtomicBool::new(false), failing })
    }

    pub(crate) fn config(&self) -> &AuditConfig {
        &self.config
    }

    /// Whether there is a trail.
    pub(crate) fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether a launch need not even be tried: its record would be lost like the last one. What is refused is recorded
    /// too, so the sink is tried again with each refusal.
    pub(crate) fn must_refuse(&self) -> bool {
        self.config.on_failure == OnFailure::Refuse && self.failing.load(Ordering::Relaxed)
    }

    /// Queues a record. Never waits.
    pub(crate) fn record(&self, event: &Event<'_>) {
        self.submit(event, None);
    }

    /// Queues the record of a launch. An error: it may not go on. Blocking where the launch must wait for its record.
    pub(crate) fn record_launch(&self, event: &Event<'_>) -> Result<(), Unrecorded> {
        match self.config.on_failure {
            OnFailure::Drop => {
                self.record(event);
                Ok(())
            }
            OnFailure::Refuse => self.record_and_wait(event),
        }
    }

    /// Opens a file anew: somebody may have moved it away.
    pub(crate) fn reopen(&self) {
        if let Some(queue) = &self.queue {
            // A full queue is written to the old file; the next SIGHUP comes.
            let _ = queue.try_send(Job::Reopen);
        }
    }

    /// Records the last event, and waits for what is queued. Blocking.
    pub(crate) fn finish(&self, event: &Event<'_>) {
        if self.record_and_wait(event).is_err() {
            tracing::error!("the end of the audit trail is lost");
        }
    }

    fn record_and_wait(&self, event: &Event<'_>) -> Result<(), Unrecorded> {
        if !self.is_on() {
            return Ok(());
        }
        let (written, answer) = mpsc::sync_channel(1);
        self.submit(event, Some(written));
        match answer.recv_timeout(PATIENCE) {
            Ok(true) => Ok(()),
            _ => Err(Unrecorded),
        }
    }

    fn submit(&self, event: &Event<'_>, written: Option<SyncSender<bool>>) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(Job::Write(event.line(), written)) {
            Ok(()) => self.losing.store(false, Ordering::Relaxed),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.events.with_label_values(&["dropped"]).inc();
                if !self.losing.swap(true, Ordering::Relaxed) {
                    tracing::error!("audit records are lost: the sink does not keep up (audit.sink)");
                }
            }
        }
    }
}

/// Ends when the server is gone and the queue is empty.
fn write(mut sink: Sink, jobs: &Receiver<Job>, events: &IntCounterVec, failing: &AtomicBool) {
    for job in jobs {
        let (line, answer) = match job {
            Job::Write(line, answer) => (line, answer),
            Job::Reopen => {
                sink.reopen();
                continue;
            }
        };
        let outcome = sink.write(line.as_bytes());
        let written = outcome.is_ok();
        let before = failing.swap(!written, Ordering::Relaxed);
        // Only then: who sees the count knows what becomes of a launch.
        events.with_label_values(&[if written { "written" } else { "failed" }]).inc();
        match outcome {
            Err(e) if !before => tracing::error!(error = %e, "audit records are lost (audit.sink)"),
            Ok(()) if before => tracing::warn!("the audit trail goes on"),
            _ => {}
        }
        if let Some(answer) = answer {
            // Whoever asked may have given up.
            let _ = answer.try_send(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use prometheus::Opts;

    use super::*;

    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        // Connections are made, and never read from.
        let _listener = UnixListener::bind(&path).expect("bound");
        let config = AuditConfig {
            sink: AuditSink::Unix(path),
            on_failure: OnFailure::Drop,
            redact: Vec::new(),
            reads: false,
            rotate_bytes: 4096,
            keep_files: 1,
        };
        let events = IntCounterVec::new(Opts::new("x", "x"), &["outcome"]).expect("valid");
        let audit = Audit::start(&config, events.clone()).expect("started");
        let long = "x".repeat(4096);
        let event = Event { path: Some(&long), ..Event::new("fs.write") };
        for _ in 0..2 * QUEUE {
            audit.record(&event);
        }
        assert!(events.with_label_values(&["dropped"]).get() > 0);
        assert!(audit.record_launch(&event).is_ok(), "a launch goes on without its record");
    }
}
