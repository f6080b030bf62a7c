//! One connection: handshake, dispatch, and what is in flight. Knows messages, not how they travel.
//!
//! Its reader calls [`Connection::receive`] for each message in turn. What must keep the order of arrival is done in
//! that call; everything that waits runs as a task of its own, so no request delays another.

pub(crate) mod call;
pub(crate) mod outbox;
pub(crate) mod spare;
mod tally;

use std::sync::Arc;

use serde_json::value::RawValue;
use sidecar_protocol::bulk::Bulk;
use sidecar_protocol::envelope::{self, Incoming};
use sidecar_protocol::method::{self, Group, Method};
use sidecar_protocol::process::AckNotification;
use sidecar_protocol::session::InitializeParams;
use sidecar_protocol::{RequestId, RpcError};
use tokio::task::JoinSet;

use self::call::{Call, InFlight};
use self::outbox::{Close, Outbox};
use self::tally::Tally;
use crate::caller::Caller;
use crate::fs::Attached;
use crate::metrics::Counted;
use crate::rpc::{self, Params};
use crate::server::Shared;
use crate::session::Attachment;

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
    Answered(Attachment),
    /// Open for requests.
    Done(Attachment),
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
        let taken = Bulk::split(text);
        let (rest, bulk) =
            taken.as_ref().map_or((text, None), |taken| (taken.rest.as_str(), Some(taken.text)));
        match envelope::decode(rest) {
            Ok(Incoming::Request { id, method, params: raw }) => {
                self.is_current()?;
                if let Err(error) = self.request(&id, &method, Params { raw, bulk }, text.len()).await {
                    // An unknown method, a call before its time, one too many.
                    self.shared.metrics.requests.refused(Method::from_name(&method), &error);
                    self.outbox.respond(envelope::error_response(&id, &error)).await;
                }
                Ok(())
            }
            Ok(Incoming::Notification { method, params }) => {
                self.is_current()?;
                self.notification(&method, params)
            }
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

    /// Ends what is in flight, and lets go of the session; where that ends too, returns when its last process is gone.
    pub(crate) async fn end(mut self) {
        let ended = async {
            self.tasks.shutdown().await;
            self.attached.end().await;
        };
        match self.handshake {
            // At once: its client may be back before everything here has ended.
            Handshake::Answered(attachment) | Handshake::Done(attachment) => {
                tokio::join!(self.shared.sessions.leave(attachment), ended);
            }
            Handshake::New => ended.await,
        }
    }

    /// Whether the handshake is done.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.handshake, Handshake::Done(_))
    }

    /// A connection that has lost its session to another one has nothing to say any more.
    fn is_current(&self) -> Result<(), Close> {
        match &self.handshake {
            Handshake::Answered(attachment) | Handshake::Done(attachment) if !attachment.is_current() => {
                Err(Close::resumed_elsewhere())
            }
            _ => Ok(()),
        }
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) -> Result<(), Close> {
        match method {
            method::INITIALIZED => self.initialized(),
            method::PROCESS_ACK => self.acknowledged(params),
            _ => Err(Close::protocol(format!("unexpected notification {method:?}"))),
        }
    }

    fn initialized(&mut self) -> Result<(), Close> {
        self.handshake = match std::mem::replace(&mut self.handshake, Handshake::New) {
            Handshake::New => return Err(Close::protocol("initialized came before initialize")),
            Handshake::Answered(attachment) => {
                attachment.begin();
                Handshake::Done(attachment)
            }
            done @ Handshake::Done(_) => done,
        };
        Ok(())
    }

    /// Between the two messages of a handshake too: so a client spares itself what it has already.
    fn acknowledged(&self, params: Option<&RawValue>) -> Result<(), Close> {
        let (Handshake::Answered(session) | Handshake::Done(session)) = &self.handshake else {
            return Err(Close::protocol("process/ack came before initialize"));
        };
        let ack: AckNotification =
            envelope::params(params).map_err(|e| Close::protocol(format!("process/ack: {}", e.message)))?;
        session.acknowledge(&ack);
        Ok(())
    }

    /// Starts to serve a request; an error is what it is answered with.
    async fn request(
        &mut self,
        id: &RequestId,
        name: &str,
        params: Params<'_>,
        bytes: usize,
    ) -> Result<(), RpcError> {
        let method = Method::from_name(name).ok_or_else(|| RpcError::method_not_found(name))?;
        let group = match method.group() {
            Group::Session => return self.initialize(id, params.raw, bytes).await,
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

    /// Nothing else of this connection is served meanwhile: there is nothing that it could be served by.
    async fn initialize(
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
        let session = rpc::session::initialize(&self.shared, &params, &self.outbox, &self.caller).await?;
        let result = rpc::session::initialize_result(&session);
        self.handshake = Handshake::Answered(session);
        let call = Call::new(id.clone(), self.outbox.clone(), tally, slot);
        self.tasks.spawn(call.answer(Ok(result)));
        Ok(())
    }
}
