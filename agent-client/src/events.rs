//! What a process reports: one ordered queue per process, made before its start request is sent.
//!
//! The queue is bounded by bytes, not by events: output can come in chunks of one byte as of 64 KiB. What is received
//! is acknowledged to the server, which holds back what is not, so the queue does not fill; see [`crate::client`] for
//! servers that take no acknowledgements. The end (`Closed` or `Failed`) needs no room, so that it can always be told.

use std::sync::Arc;

use sidecar_protocol::process::{Cause, Stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::client::{Acks, Progress, Wire};

/// About what an event weighs beside its payload.
pub(crate) const EVENT_BYTES: usize = 128;

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Output.
    Output {
        /// Where it came from.
        stream: Stream,
        /// What, at most 64 KiB.
        bytes: Vec<u8>,
        /// Its number among the process's notifications.
        seq: u64,
    },
    /// The process itself has ended. Output can still follow.
    Exited(Exit),
    /// The last event: all output was delivered.
    Closed,
    /// The last event: the process cannot be followed any further. It is not known how, or whether, it ended.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// 128+n by signal n.
    pub exit_code: i32,
    /// The signal's name, where one ended it.
    pub signal: Option<String>,
    /// Why it ended; `None` from a server that does not tell.
    pub cause: Option<Cause>,
    /// A guess of the server's: the sandbox may have been in the way.
    pub sandbox_denied: bool,
    /// What would have been in the way, and what would grant it.
    pub hint: Option<String>,
}

impl Exit {
    /// What is to be told of it beside its code, to people and models: who ended it, and whether the sandbox was in the way.
    pub fn notes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.cause {
            Some(Cause::Oom) => {
                lines.push("the server ended the command: the container was short of memory".to_owned())
            }
            Some(Cause::Limit) => lines.push("the server ended the command: it reached a limit".to_owned()),
            Some(Cause::Timeout) => lines.push("the server ended the command: its time was over".to_owned()),
            Some(Cause::IdleTimeout) => {
                lines.push("the server ended the command: it was silent for too long".to_owned())
            }
            Some(Cause::Disconnect) => {
                lines.push("the server ended the command: its session ended".to_owned())
            }
            Some(Cause::Exit | Cause::Signal | Cause::Terminated) | None => {}
        }
        if self.sandbox_denied {
            lines.push(
                "the sandbox may have been in the way (a guess, by the exit code and the output)".to_owned(),
            );
            lines.extend(self.hint.iter().map(|hint| format!("hint: {hint}")));
        }
        lines
    }
}

impl Event {
    fn is_last(&self) -> bool {
        matches!(self, Event::Closed | Event::Failed { .. })
    }

    /// The room that it takes in the queue: its payload, and about what the event itself weighs.
    fn cost(&self) -> usize {
        match self {
            Event::Output { bytes, .. } => bytes.len() + EVENT_BYTES,
            Event::Exited(_) => EVENT_BYTES,
            Event::Closed | Event::Failed { .. } => 0,
        }
    }
}

/// An event, its number, and the room that it takes until it is received.
#[derive(Debug)]
struct Queued {
    event: Event,
    /// `None` of a failure, which the server does not know of.
    seq: Option<u64>,
    _room: Option<OwnedSemaphorePermit>,
}

/// A process's events, in order. Dropping it discards what follows; the process goes on.
#[derive(Debug)]
pub struct Events {
    queue: mpsc::UnboundedReceiver<Queued>,
    room: Arc<Semaphore>,
    receipt: Receipt,
    /// Keeps the connection open for as long as somebody listens.
    _connection: Option<Wire>,
    finished: bool,
}

/// What is acknowledged of a process, as its events are received.
#[derive(Debug)]
pub(crate) struct Receipt {
    pub(crate) process_id: Arc<str>,
    pub(crate) acks: Arc<Acks>,
    pub(crate) progress: Arc<Progress>,
    /// Received since the last acknowledgement.
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

impl Receipt {
    fn received(&mut self, event: &Event, seq: u64) {
        self.progress.consume(seq);
        let Some(pace) = self.acks.pace() else { return };
        self.events += 1;
        let is_end = match event {
            Event::Output { bytes, .. } => {
                self.bytes += bytes.len() as u64;
                false
            }
            _ => true,
        };
        if is_end || pace.is_due(self.bytes, self.events) {
            (self.bytes, self.events) = (0, 0);
            self.acks.acknowledge(&self.process_id, seq);
        }
    }
}

impl Events {
    /// The next event; `None` after [`Event::Closed`] or [`Event::Failed`], one of which always comes. Cancel safe.
    pub async fn recv(&mut self) -> Option<Event> {
        if self.finished {
            return None;
        }
        let event = match self.queue.recv().await {
            Some(Queued { event, seq, .. }) => {
                if let Some(seq) = seq {
                    self.receipt.received(&event, seq);
                }
                event
            }
            None => Event::Failed { reason: "the client was shut down".to_owned() },
        };
        self.finished = event.is_last();
        Some(event)
    }

    pub(crate) fn keeping(mut self, connection: Wire) -> Self {
        self._connection = Some(connection);
        self
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Neither the reader nor the server must wait for a consumer that is gone.
        self.room.close();
        let seq = self.receipt.progress.abandon();
        if !self.finished {
            self.receipt.acks.acknowledge(&self.receipt.process_id, seq);
        }
    }
}

/// The reader's end of the queue.
#[derive(Debug, Clone)]
pub(crate) struct EventSender {
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    capacity: usize,
}

/// A queue with room for `capacity` bytes.
pub(crate) fn channel(capacity: usize, receipt: Receipt) -> (EventSender, Events) {
    let capacity = capacity.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
    let room = Arc::new(Semaphore::new(capacity));
    let (sender, queue) = mpsc::unbounded_channel();
    let events = Events { queue, room: Arc::clone(&room), receipt, _connection: None, finished: false };
    (EventSender { queue: sender, room, capacity }, events)
}

impl EventSender {
    /// Queues an event, once there is room for it; whether anybody listens.
    pub(crate) async fn send(&self, seq: u64, event: Event) -> bool {
        // An event larger than the queue gets the whole of it.
        let cost = event.cost().min(self.capacity) as u32;
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(cost).await else { return false };
        self.queue.send(Queued { event, seq: Some(seq), _room: Some(room) }).is_ok()
    }

    /// Queues the last event at once.
    pub(crate) fn fail(&self, reason: String) {
        let _ = self.queue.send(Queued { event: Event::Failed { reason }, seq: None, _room: None });
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn exit(cause: Cause, sandbox_denied: bool, hint: Option<&str>) -> Exit {
        Exit { exit_code: 1, signal: None, cause: Some(cause), sandbox_denied, hint: hint.map(str::to_owned) }
    }

    #[test]
    fn an_ordinary_end_needs_no_words() {
        assert!(exit(Cause::Exit, false, None).notes().is_empty());
        assert!(exit(Cause::Oom, false, None).notes()[0].contains("memory"));
        let denied = exit(Cause::Exit, true, Some("writeRoots += \"/x\"")).notes();
        assert!(denied[0].contains("a guess"));
        assert_eq!(denied[1], "hint: writeRoots += \"/x\"");
    }

    fn channel(capacity: usize) -> (EventSender, Events) {
        let (acks, progress) = Default::default();
        super::channel(capacity, Receipt { process_id: "p".into(), acks, progress, bytes: 0, events: 0 })
    }

    fn output(len: usize) -> Event {
        Event::Output { stream: Stream::Stdout, bytes: vec![0; len], seq: 1 }
    }

    #[tokio::test]
    async fn a_full_queue_makes_the_sender_wait_until_it_is_read() {
        let (sender, mut events) = channel(1000);
        sender.send(1, output(800)).await;
        let mut second = pin!(sender.send(1, output(800)));
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(events.recv().await, Some(output(800)));
        second.await;
        assert_eq!(events.recv().await, Some(output(800)));
    }

    #[tokio::test]
    async fn an_event_larger_than_the_queue_passes() {
        let (sender, mut events) = channel(10);
        sender.send(1, output(5000)).await;
        assert_eq!(events.recv().await, Some(output(5000)));
    }

    #[tokio::test]
    async fn nobody_listening_stops_nobody() {
        let (sender, events) = channel(10);
        sender.send(1, output(5000)).await;
        drop(events);
        sender.send(1, output(5000)).await;
    }

    #[tokio::test]
    async fn a_failure_needs_no_room_and_is_the_end() {
        let (sender, mut events) = channel(10);
        sender.send(1, output(5000)).await;
        sender.fail("cut".to_owned());
        sender.fail("cut again".to_owned());
        assert_eq!(events.recv().await, Some(output(5000)));
        assert_eq!(events.recv().await, Some(Event::Failed { reason: "cut".to_owned() }));
        assert_eq!(events.recv().await, None);
    }

    #[tokio::test]
    async fn a_client_that_vanishes_is_a_failure() {
        let (sender, mut events) = channel(10);
        drop(sender);
        assert!(matches!(events.recv().await, Some(Event::Failed { .. })));
        assert_eq!(events.recv().await, None);
    }
}
