//! Where the events of one process go: into the lane of the connection that its session is attached to, one at a time, in
//! the order of their numbers. A part of its pump.
//!
//! Whatever a connection has been given may be lost with it. The log keeps it; a later connection starts behind what its
//! client has acknowledged, or, of a client that does not acknowledge, with what happens from then on.

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use super::Process;
use crate::session::Link;

/// The way to the connection.
#[derive(Debug)]
pub(super) struct Delivery {
    link: watch::Receiver<Link>,
    acked: watch::Receiver<Option<u64>>,
    /// `None` while the session is detached.
    lane: Option<mpsc::Sender<Vec<u8>>>,
    /// What the lane has no room for yet.
    unsent: Option<Vec<u8>>,
    /// The newest event that this connection was given.
    sent: u64,
}

/// What a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The connection took an event, or is gone.
    Sent,
    /// The session has another connection, or none.
    Relinked,
    /// The client acknowledged.
    Acked,
}

impl Delivery {
    pub(super) fn new(mut link: watch::Receiver<Link>, mut acked: watch::Receiver<Option<u64>>) -> Delivery {
        let lane = link.borrow_and_update().lane.clone();
        // What was acknowledged before is yet to be noted in the log.
        acked.mark_changed();
        Delivery { link, acked, lane, unsent: None, sent: 0 }
    }

    /// The next step. Cancel safe; pending for ever while there is nothing to wait for.
    pub(super) async fn step(&mut self) -> Step {
        let Delivery { link, acked, lane, unsent, .. } = self;
        tokio::select! {
            biased;
            Ok(()) = link.changed() => Step::Relinked,
            Ok(()) = acked.changed() => Step::Acked,
            () = send(lane.as_ref(), unsent), if unsent.is_some() => Step::Sent,
            else => std::future::pending().await,
        }
    }

    /// Goes on with the connection that there is now, behind what it need not be told.
    pub(super) fn relink(&mut self, process: &Process) {
        self.lane = self.link.borrow_and_update().lane.clone();
        self.unsent = None;
        self.note_acked(process);
        self.sent = match *self.acked.borrow() {
            Some(acked) => acked,
            None => process.log().live_from() - 1,
        };
    }

    /// Takes note of what the client has acknowledged.
    pub(super) fn note_acked(&mut self, process: &Process) {
        if let Some(seq) = *self.acked.borrow_and_update() {
            process.log().acknowledge(seq);
        }
    }

    /// The newest event of all. While nobody is attached it waits in the log.
    pub(super) fn push(&mut self, seq: u64, text: Vec<u8>) {
        self.sent = seq;
        self.unsent = self.lane.as_ref().and_then(|lane| match lane.try_send(text) {
            Err(TrySendError::Full(text)) => Some(text),
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        });
    }

    /// Takes the events that the connection is behind with out of the log, as many as there is room for.
    pub(super) fn refill(&mut self, process: &Process) {
        while self.unsent.is_none()
            && self.is_attached()
            && let Some((seq, text)) = process.log().event_after(self.sent, process.id())
        {
            self.push(seq, text);
        }
    }

    /// Whether there is somebody to tell.
    pub(super) fn is_attached(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| !lane.is_closed())
    }

    /// Whether whoever is attached has been given everything, up to this event.
    pub(super) fn is_clear(&self, last: u64) -> bool {
        self.unsent.is_none() && (self.sent >= last || !self.is_attached())
    }

    /// Whether the client need not be told again, up to this event, should the connection be lost.
    pub(super) fn is_settled(&self, last: u64) -> bool {
        self.acked.borrow().is_none_or(|acked| acked >= last)
    }
}

/// Waits for room, then sends. Where the connection is gone there is nobody to send to: the event is in the log.
async fn send(lane: Option<&mpsc::Sender<Vec<u8>>>, unsent: &mut Option<Vec<u8>>) {
    if let Some(lane) = lane
        && let Ok(room) = lane.reserve().await
        && let Some(text) = unsent.take()
    {
        room.send(text);
    }
    *unsent = None;
}
