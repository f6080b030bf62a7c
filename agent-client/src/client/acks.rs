//! What is acknowledged to the server, process by process. An acknowledgement is cumulative, so the latest one of a
//! process replaces those that were not sent yet: what waits is bounded by the number of processes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;
use sidecar_protocol::session::Limits;
use sidecar_protocol::{envelope, method};
use tokio::sync::Notify;

/// Shared by the consumers, who acknowledge, and the writer, who sends it.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    /// Set where the server takes them; other servers end the connection of whoever sends one.
    pace: OnceLock<Pace>,
    latest: Mutex<HashMap<Arc<str>, u64>>,
    ready: Notify,
}

/// How much is consumed before it is acknowledged: a part of what the server keeps, so that it never has to wait for
/// an acknowledgement that is not due yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

impl Pace {
    /// For a server that keeps that much of each process.
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            bytes: (limits.retained_bytes / 4).min(256 << 10),
            events: (limits.retained_chunks / 4).min(64),
        }
    }

    /// Whether so much must be acknowledged.
    pub(crate) fn is_due(self, bytes: u64, events: u64) -> bool {
        bytes >= self.bytes || events >= self.events
    }
}

impl Acks {
    pub(super) fn enable(&self, pace: Pace) {
        // Set once: the first answer of the server stands.
        let _ = self.pace.set(pace);
    }

    /// `None` where nothing is acknowledged.
    pub(crate) fn pace(&self) -> Option<Pace> {
        self.pace.get().copied()
    }

    /// Everything of the process up to `seq` has arrived where it is going.
    pub(crate) fn acknowledge(&self, process_id: &Arc<str>, seq: u64) {
        if self.pace().is_none() {
            return;
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let acked = latest.entry(Arc::clone(process_id)).or_default();
        *acked = seq.max(*acked);
        self.ready.notify_one();
    }

    /// Waits until there is something to send. Cancel safe.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// The messages to send.
    pub(super) fn take(&self) -> impl Iterator<Item = String> {
        let latest = std::mem::take(&mut *self.latest.lock().unwrap_or_else(PoisonError::into_inner));
        latest.into_iter().map(|(process_id, seq)| message(&process_id, seq))
    }
}

/// The notification.
pub(super) fn message(process_id: &str, seq: u64) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        process_id: &'a str,
        seq: u64,
    }
    envelope::notification(method::PROCESS_ACK, &Params { process_id, seq })
}

/// How far one process has come here: what has arrived, and what of it was consumed.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    arrived: AtomicU64,
    consumed: AtomicU64,
    abandoned: AtomicBool,
}

impl Progress {
    /// The seq of the last notification that has arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    pub(super) fn arrive(&self, seq: u64) {
        self.arrived.store(seq, Ordering::Release);
    }

    pub(crate) fn consume(&self, seq: u64) {
        self.consumed.fetch_max(seq, Ordering::AcqRel);
    }

    /// Nobody will consume anything any more; the result is what is to be acknowledged in its stead.
    pub(crate) fn abandon(&self) -> u64 {
        self.abandoned.store(true, Ordering::Release);
        self.arrived()
    }

    /// What the server need not send again.
    pub(super) fn acknowledged(&self) -> u64 {
        if self.abandoned.load(Ordering::Acquire) {
            self.arrived()
        } else {
            self.consumed.load(Ordering::Acquire)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_replaces_the_earlier_and_nothing_goes_to_who_takes_none() {
        let acks = Acks::default();
        let process: Arc<str> = "p".into();
        acks.acknowledge(&process, 1);
        assert_eq!(acks.take().count(), 0);
        acks.enable(Pace { bytes: 1, events: 1 });
        for seq in [3, 7, 5] {
            acks.acknowledge(&process, seq);
        }
        let sent: Vec<String> = acks.take().collect();
        assert_eq!(sent, [r#"{"method":"process/ack","params":{"processId":"p","seq":7}}"#]);
        assert_eq!(acks.take().count(), 0);
    }

    #[test]
    fn what_nobody_reads_any_more_counts_as_read() {
        let progress = Progress::default();
        progress.arrive(9);
        progress.consume(4);
        assert_eq!(progress.acknowledged(), 4);
        assert_eq!(progress.abandon(), 9);
        progress.arrive(10);
        assert_eq!(progress.acknowledged(), 10);
    }
}
