//! One connection: handshake, dispatch, and what is in flight. Knows messages, not how they travel.
//!
//! Its reader calls [`Connection::receive`] for each message in turn. What must keep the order of arrival is done in
//! that call; everything that waits runs as a task of its own, so no request delays another.

pub(crate) mod call;
pub(crate) mod outbox;
mod tally;

use std::sync::Arc;

use serde_json::value::RawValue;
use sidecar_protocol::envelope::{self, Incoming};
use sidecar_protocol::method::{self, Group, Method};
use sidecar_protocol::session::InitializeParams;
use sidecar_protocol::{RequestId, RpcError};
use tokio::task::JoinSet;

use self::call::{Call, InFlight};
use self::outbox::{Close, Outbox};
use self::tally::Tally;
use crate::caller::Caller;
use crate::fs::Attached;
use crate::metrics::Counted;
use crate::rpc;
use crate::server::Shared;
use crate::session::{Ending, Session};

/// One client.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    outbox: Outbox,
    caller: Arc<Caller>,
    handshake: Handshake,
    /// Handles and watches: unlike processes they never outlive the connection.
    attached: Attached,
    in_flight: InFlight,
    tasks: JoinSet<()>,
    _open: Counted,
}

enum Handshake {
    /// Nothing has come yet.
    New,
    /// `initialize` was answered; `initialized` is to come.
    Answered(Arc<Session>),
    /// Open for requests.
    Done(Arc<Session>),
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, outbox: Outbox, caller: Caller) -> Connection {
        let in_flight = InFlight::new(&shared.config.limits);
        let attached = Attached::new(&shared, outbox.notifications());
        Connection {
            _open: shared.metrics.requests.connected(),
            shared,
            outbox,
            caller: Arc::new(caller),
            handshake: Handshake::New,
            attached,
            in_flight,
            tasks: JoinSet::new(),
        }
    }

    /// Takes one message. Everything that depends on the order of arrival has happened when it returns.
    pub(crate) async fn receive(&mut self, text: &str) -> Result<(), Close> {
        while self.tasks.try_join_next().is_some() {}
        match envelope::decode(text) {
            Ok(Incoming::Request { id, method, params }) => {
                if let Err(error) = self.request(&id, &method, params, text.len()) {
                    // An unknown method, a call before its time, one too many.
                    self.shared.metrics.requests.refused(Method::from_name(&method), &error);
                    self.outbox.respond(envelope::error_response(&id, &error)).await;
                }
                Ok(())
            }
            Ok(Incoming::Notification { method, .. }) => self.notification(&method),
            Ok(Incoming::Response { id, .. }) => {
                Err(Close::protocol(format!("a response to no request of this server (id {id})")))
            }
            Err(error) => {
                self.invalid_frame(error.to_string()).await;
                Ok(())
            }
        }
    }

    /// Answers a frame that is no message.
    pub(crate) async fn invalid_frame(&self, why: String) {
        let error = RpcError::invalid_request(why);
        self.shared.metrics.requests.refused(None, &error);
        self.outbox.respond(envelope::error_response(&RequestId::NONE, &error)).await;
    }

    /// Ends what is in flight and the session; returns when its last process is gone.
    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
        self.attached.end().await;
        if let Handshake::Answered(session) | Handshake::Done(session) = self.handshake {
            self.shared.sessions.end(&session, Ending::Kill).await;
        }
    }

    fn notification(&mut self, method: &str) -> Result<(), Close> {
        if method == method::PROCESS_ACK {
            return Ok(());
        }
        if method != method::INITIALIZED {
            return Err(Close::protocol(format!("unexpected notification {method:?}")));
        }
        match std::mem::replace(&mut self.handshake, Handshake::New) {
            Handshake::New => Err(Close::protocol("initialized came before initialize")),
            Handshake::Answered(session) | Handshake::Done(session) => {
                self.handshake = Handshake::Done(session);
                Ok(())
            }
        }
    }

    /// Starts to serve a request; an error is what it is answered with.
    fn request(
        &mut self,
        id: &RequestId,
        name: &str,
        params: Option<&RawValue>,
        bytes: usize,
    ) -> Result<(), RpcError> {
        let method = Method::from_name(name).ok_or_else(|| RpcError::method_not_found(name))?;
        let group = match method.group() {
            Group::Session => return self.initialize(id, params, bytes),
            Group::Exec => "exec",
            Group::Filesystem => "filesystem",
        };
        let early =
            |first| RpcError::invalid_request(format!("client must {first} before using {group} methods"));
        let session = match &self.handshake {
            Handshake::New => return Err(early("call initialize")),
            Handshake::Answered(_) => return Err(early("send initialized")),
            Handshake::Done(session) => session,
        };
        let slot = self.in_flight.admit(bytes)?;
        let call = Call::new(id.clone(), self.outbox.clone(), Tally::of(session, method, params), slot);
        rpc::dispatch(session, method, params, call, &mut self.attached, &mut self.tasks);
        Ok(())
    }

    fn initialize(
        &mut self,
        id: &RequestId,
        params: Option<&RawValue>,
        bytes: usize,
    ) -> Result<(), RpcError> {
        if !matches!(self.handshake, Handshake::New) {
            return Err(RpcError::invalid_request("initialize may be sent only once per connection"));
        }
        let params: InitializeParams = envelope::params(params)?;
        let tally = Tally::new(&self.shared, Method::Initialize);
        let slot = self.in_flight.admit(bytes)?;
        let session =
            rpc::session::initialize(&self.shared, &params, self.outbox.notifications(), &self.caller)?;
        let result = rpc::session::initialize_result(&session);
        self.handshake = Handshake::Answered(session);
        let call = Call::new(id.clone(), self.outbox.clone(), tally, slot);
        self.tasks.spawn(call.answer(Ok(result)));
        Ok(())
    }
}
