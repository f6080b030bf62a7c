//! Which connection a session belongs to: attached, detached, attached again. It decides nothing about who may.

use std::ops::Deref;
use std::sync::Arc;

use super::{Link, Session};
use crate::audit::Event;
use crate::caller::Caller;
use crate::connection::outbox::Outbox;
use crate::metrics::Counted;
use crate::server::Shared;

/// The number of a session's first connection.
pub(super) const FIRST: u64 = 1;

/// Who has the session.
#[derive(Debug)]
pub(super) struct Holder {
    number: u64,
    /// `None` while it is detached.
    outbox: Option<Outbox>,
    pub(super) caller: Arc<Caller>,
    /// Counts among the open ones until it has ended.
    pub(super) open: Option<Counted>,
}

impl Holder {
    pub(super) fn first(shared: &Shared, outbox: &Outbox, caller: &Arc<Caller>) -> Holder {
        Holder {
            number: FIRST,
            outbox: Some(outbox.clone()),
            caller: caller.clone(),
            open: Some(shared.metrics.requests.attached()),
        }
    }
}

/// One connection's hold on a session.
#[derive(Debug)]
pub(crate) struct Attachment {
    session: Arc<Session>,
    number: u64,
}

impl Deref for Attachment {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Attachment {
    pub(super) fn first(session: Arc<Session>) -> Attachment {
        Attachment { session, number: FIRST }
    }

    /// Whether no other connection has taken the session.
    pub(crate) fn is_current(&self) -> bool {
        self.session.holder().number == self.number
    }

    /// The handshake is done: notifications go to this connection from now on.
    pub(crate) fn begin(&self) {
        let holder = self.session.holder();
        if holder.number != self.number {
            return;
        }
        // Before the first request of this connection can read a log: what happens after this is sent, however long a
        // pump takes to hear of it.
        for process in self.session.processes() {
            process.attach();
        }
        let lane = holder.outbox.as_ref().map(|outbox| outbox.notifications().clone());
        self.session.link.send_replace(Link { number: self.number, lane });
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn into_session(self) -> Arc<Session> {
        self.session
    }
}

impl Session {
    /// Whose connection has it; `None` while it is detached.
    pub(super) fn held_by(&self) -> Option<(u64, Outbox)> {
        let holder = self.holder();
        holder.outbox.clone().map(|outbox| (holder.number, outbox))
    }

    /// Whether it has no connection since that one.
    pub(super) fn is_detached_since(&self, number: u64) -> bool {
        let holder = self.holder();
        holder.number == number && holder.outbox.is_none()
    }

    /// Gives the session to another connection. What the one before it still asks for is refused.
    pub(super) fn attach(self: &Arc<Session>, outbox: &Outbox, caller: &Arc<Caller>) -> Attachment {
        let mut holder = self.holder();
        holder.number += 1;
        holder.outbox = Some(outbox.clone());
        holder.caller = caller.clone();
        holder.open = Some(self.shared.metrics.requests.attached());
        self.link.send_replace(Link { number: holder.number, lane: None });
        Attachment { session: self.clone(), number: holder.number }
    }

    /// The connection is gone. `false`: another one has the session, or it has ended.
    pub(super) fn detach(&self, number: u64) -> bool {
        let mut holder = self.holder();
        if holder.number != number || holder.open.is_none() || self.has_ended() {
            return false;
        }
        holder.outbox = None;
        holder.open = Some(self.shared.metrics.requests.detached());
        // Before anybody can take it, so that the trail has the order of what happened.
        let event = Event::by("session.detach", &holder.caller);
        self.shared.audit.record(&Event { session: Some(self.id()), ..event });
        self.link.send_replace(Link { number, lane: None });
        true
    }
}
