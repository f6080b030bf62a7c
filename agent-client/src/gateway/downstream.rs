//! One client: its handshake, its requests in the order in which they come, its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::value::RawValue;
use sidecar_protocol::method::{self, Group, Method};
use sidecar_protocol::{Incoming, RequestId, RpcError, envelope};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::outlet::{self, Outlet, Permit};
use super::upstream::{Asked, Upstream};
use crate::error::Error;
use crate::transport::{Connection, Incoming as Messages, Received};

/// Requests that wait for an answer, at most; the next one is not read before.
const IN_FLIGHT: usize = 1024;

/// How long the last words to a client may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the service of a client ended.
enum End {
    /// It has gone.
    Gone,
    /// The gateway is asked to end.
    Stopped,
    /// It broke the protocol.
    Violation(String),
    /// Its session has ended.
    Lost(Error),
}

/// How far the handshake is.
enum Phase {
    New,
    Answered(Upstream),
    Ready(Upstream),
}

struct Downstream<'a> {
    shared: &'a Shared,
    outlet: Outlet,
    phase: Phase,
    slots: Arc<Semaphore>,
}

/// Serves a client until its end.
pub(super) async fn serve(
    shared: &Shared,
    connection: Connection,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let Connection { mut incoming, outgoing, .. } = connection;
    let (outlet, writer) = outlet::channel(outgoing);
    let mut client =
        Downstream { shared, outlet, phase: Phase::New, slots: Arc::new(Semaphore::new(IN_FLIGHT)) };
    let mut writing = std::pin::pin!(writer.run());
    let end = tokio::select! {
        end = client.read(&mut incoming) => end,
        _ = &mut writing => End::Gone,
        () = stop.cancelled() => End::Stopped,
    };
    let (code, reason, outcome) = match end {
        End::Gone => {
            client.leave().await;
            return Ok(());
        }
        End::Stopped => (1001, "the gateway ends".to_owned(), Ok(())),
        End::Violation(reason) => (1002, reason.clone(), Err(Error::ClientProtocol(reason))),
        End::Lost(error) => (1011, error.to_string(), Err(error)),
    };
    client.outlet.close(code, close_reason(&reason));
    let _ = tokio::time::timeout(PATIENCE, writing).await;
    client.leave().await;
    outcome
}

/// A WebSocket takes 123 bytes.
fn close_reason(reason: &str) -> &str {
    let end = (0..=reason.len().min(123)).rev().find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}

impl Downstream<'_> {
    async fn read(&mut self, incoming: &mut Messages) -> End {
        loop {
            let received = tokio::select! {
                received = incoming.next() => received,
                lost = self.lost() => return End::Lost(lost),
            };
            let text = match received {
                Some(Ok(Received::Text(text))) => text,
                Some(Ok(Received::Alive)) => continue,
                Some(Ok(Received::Close { .. })) | None => return End::Gone,
                Some(Err(reason)) => {
                    tracing::debug!(reason, "the client is gone");
                    return End::Gone;
                }
            };
            if let Err(end) = self.take(&text).await {
                return end;
            }
        }
    }

    /// The end of the session; never, where there is none.
    async fn lost(&self) -> Error {
        match &self.phase {
            Phase::New => std::future::pending().await,
            Phase::Answered(upstream) | Phase::Ready(upstream) => upstream.ended().await,
        }
    }

    async fn take(&mut self, text: &str) -> Result<(), End> {
        let message = envelope::decode(text);
        let answered = matches!(message, Err(_) | Ok(Incoming::Request { .. }));
        // Whoever reads no answers is not read either.
        let permit = if answered { Arc::clone(&self.slots).acquire_owned().await.ok() } else { None };
        match message {
            Err(e) => {
                self.outlet.error(&RequestId::NONE, &RpcError::invalid_request(e.to_string()), permit);
                Ok(())
            }
            Ok(Incoming::Request { id, method, params }) => {
                self.request(id, &method, params, permit).await;
                Ok(())
            }
            Ok(Incoming::Notification { method, params }) => self.notification(&method, params),
            Ok(Incoming::Response { .. }) => Err(End::Violation("a response to no request".to_owned())),
        }
    }

    async fn request(&mut self, id: RequestId, method: &str, params: Option<&RawValue>, permit: Permit) {
        if method == Method::Initialize.name() {
            return self.initialize(&id, params, permit).await;
        }
        let first = match &self.phase {
            Phase::New => "call initialize",
            Phase::Answered(_) => "send initialized",
            Phase::Ready(upstream) => {
                return upstream.pass_on(Asked { id, method, params, permit }, &self.outlet).await;
            }
        };
        let filesystem = Method::from_name(method).is_some_and(|m| m.group() == Group::Filesystem);
        let group = if filesystem { "filesystem" } else { "exec" };
        let error = RpcError::invalid_request(format!("client must {first} before using {group} methods"));
        self.outlet.error(&id, &error, permit);
    }

    async fn initialize(&mut self, id: &RequestId, params: Option<&RawValue>, permit: Permit) {
        let opened = match &self.phase {
            Phase::New => match envelope::params(params) {
                Ok(params) => Upstream::open(self.shared, params).await,
                Err(error) => Err(error),
            },
            Phase::Answered(_) | Phase::Ready(_) => {
                Err(RpcError::invalid_request("initialize may be sent only once per connection"))
            }
        };
        match opened {
            Ok((upstream, notes, result)) => {
                self.outlet.session(notes);
                self.outlet.result(id, &result, permit);
                self.phase = Phase::Answered(upstream);
            }
            Err(error) => self.outlet.error(id, &error, permit),
        }
    }

    fn notification(&mut self, name: &str, params: Option<&RawValue>) -> Result<(), End> {
        match (name, std::mem::replace(&mut self.phase, Phase::New)) {
            (method::INITIALIZED, Phase::Answered(upstream) | Phase::Ready(upstream)) => {
                self.outlet.initialized();
                self.phase = Phase::Ready(upstream);
                Ok(())
            }
            // Between the two messages of a handshake too, from a client that comes back.
            (method::PROCESS_ACK, phase @ (Phase::Answered(_) | Phase::Ready(_))) => {
                let ack = envelope::params(params);
                if let (Ok(ack), Phase::Answered(upstream) | Phase::Ready(upstream)) = (&ack, &phase) {
                    upstream.acknowledge(ack);
                }
                self.phase = phase;
                ack.map(|_| ()).map_err(|error| End::Violation(format!("{name}: {}", error.message)))
            }
            (name, phase) => {
                self.phase = phase;
                Err(End::Violation(format!("the notification {name} is not known, or comes too early")))
            }
        }
    }

    async fn leave(self) {
        let Self { outlet, phase, .. } = self;
        drop(outlet);
        match phase {
            Phase::New => {}
            Phase::Answered(upstream) | Phase::Ready(upstream) => upstream.close().await,
        }
    }
}
