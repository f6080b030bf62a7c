//! One connection to a sidecar: requests and their answers by id, notifications to the process that they are about.
//!
//! It never decides where to connect ([`crate::transport`]) and maps no paths ([`crate::mapping`]).
//!
//! # Back-pressure
//! All processes of a connection share one ordered byte stream. When a process's event queue is full, the reader waits
//! for its consumer: the socket fills, the server stops that process's pump, and the command itself blocks on its
//! pipe. Nothing grows without bound and nothing is dropped. The price is that meanwhile the answers to other requests
//! wait behind that output, so:
//!
//! - receive a process's events in a task of their own, or drop [`Events`]; do not await a request in the task
//!   that should receive them;
//! - a consumer that reads nothing for so long that two of the server's pings go unanswered (a minute, by default) loses
//!   a remote connection, which is told as [`Event::Failed`](crate::Event::Failed).
//!
//! With `process/ack` the server will hold back by itself what is not acknowledged, and the reader will never wait.

mod link;
mod table;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sidecar_protocol::fs::{WatchId, WatchParams};
use sidecar_protocol::process::{StartParams, StartResult};
use sidecar_protocol::session::{InitializeParams, InitializeResult};
use sidecar_protocol::{Method, method};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;

use crate::error::Error;
use crate::events::{self, Events};
use crate::filesystem::watch::Feed;
pub(crate) use wire::Wire;

/// How a client introduces itself, and its limits.
#[derive(Debug, Clone)]
pub struct Options {
    /// How the client calls itself in the server's logs.
    pub client_name: String,
    /// Limit for the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// Output of one process that waits for its consumer, at most, bytes.
    pub queue_bytes: usize,
}

impl Default for Options {
    /// `agent-client`, 10 s, 4 MiB.
    fn default() -> Self {
        Self {
            client_name: "agent-client".to_owned(),
            initialize_timeout: Duration::from_secs(10),
            queue_bytes: 4 << 20,
        }
    }
}

/// A handle of a connection that is past its handshake. Clones share the connection; it closes when the last of them,
/// of the processes started on it and of their [`Events`] is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    wire: Wire,
    server: Arc<InitializeResult>,
    queue_bytes: usize,
}

impl Client {
    /// Does the handshake on a fresh connection. The session is not resumable: the server ends its processes with
    /// the connection.
    ///
    /// # Errors
    /// [`Error::InitializeTimeout`], [`Error::ConnectionLost`], or the server's refusal.
    pub async fn handshake<S>(socket: WebSocketStream<S>, options: &Options) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let wire = Wire::spawn(socket);
        let params = InitializeParams { client_name: options.client_name.clone(), resume_session_id: None };
        let after = options.initialize_timeout;
        let server: InitializeResult = tokio::time::timeout(after, wire.request(Method::Initialize, &params))
            .await
            .unwrap_or(Err(Error::InitializeTimeout { after }))?;
        wire.notify(method::INITIALIZED, &serde_json::Map::new()).await?;
        tracing::debug!(session = server.session_id, "connected");
        Ok(Self { wire, server: Arc::new(server), queue_bytes: options.queue_bytes })
    }

    /// What the server said of itself.
    pub fn server(&self) -> &InitializeResult {
        &self.server
    }

    /// Calls a method and waits for its answer, however long that takes.
    ///
    /// # Errors
    /// [`Error::Rpc`] is the server's; [`Error::Answer`], [`Error::RequestTooLarge`], [`Error::ConnectionLost`].
    pub async fn request<P, R>(&self, method: Method, params: &P) -> Result<R, Error>
    where
        P: Serialize,
        R: DeserializeOwned,
    {
        self.wire.request(method, params).await
    }

    /// Starts a process. Its events are routed before the request is sent, so that none is lost however late the first
    /// is received. Cancelled, it may have started the process, whose events are then discarded.
    ///
    /// # Errors
    /// As [`Client::request`]; [`Error::ProcessExists`] where the id is in use on this connection.
    pub async fn start(&self, params: &StartParams) -> Result<(StartResult, Events), Error> {
        let (sender, events) = events::channel(self.queue_bytes);
        let result = self.wire.start(params, sender).await?;
        Ok((result, events.keeping(self.wire.clone())))
    }

    /// Starts a watch.
    pub(crate) async fn watch(&self, params: &WatchParams) -> Result<Feed, Error> {
        self.wire.watch(params).await
    }

    /// Whatever comes of the watch is ignored from now on.
    pub(crate) fn unwatch(&self, id: &WatchId) {
        self.wire.unwatch(id);
    }

    /// Closes the connection and waits until it is closed. Processes that are still open get
    /// [`Event::Failed`](crate::Event::Failed).
    pub async fn close(self) {
        self.wire.close().await;
    }
}
