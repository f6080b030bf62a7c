//! One session with a sidecar: requests and their answers by id, notifications to the process that they are about.
//!
//! It never decides where to connect ([`crate::transport`]) and maps no paths ([`crate::mapping`]).
//!
//! # Lost connections
//! Where the server keeps a session that has lost its connection, [`Client::connect`] makes the next one, for as long
//! as the server says it keeps it, and goes on: output continues without a gap or a repetition, requests that were on
//! their way are sent again where twice is the same as once, and fail with [`Error::Interrupted`] where it is not.
//! Meanwhile requests and events wait. What cannot go on ends with [`Event::Failed`](crate::Event::Failed) and
//! [`Error::ConnectionLost`], which say why: the session had expired, the sidecar was restarted, or it could not be
//! reached.
//!
//! # Back-pressure
//! What a consumer has received is acknowledged, and the server holds back what is not, so a slow consumer slows its
//! own process and nothing else. A server that takes no acknowledgements is held back by not reading on: meanwhile the
//! answers to other requests wait behind that output. There, receive a process's events in a task of their own, or drop
//! [`Events`]; a consumer that reads nothing for about a minute loses the connection.

mod acks;
mod backoff;
mod dispatch;
mod farewell;
mod handshake;
mod link;
mod replay;
mod routes;
mod session;
mod table;
mod tap;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use sidecar_protocol::fs::{self, ChangedNotification, WatchParams, WatchResult};
use sidecar_protocol::process::{StartParams, StartResult};
use sidecar_protocol::session::{InitializeResult, Limits};
use sidecar_protocol::{Method, WirePath};

use self::acks::Pace;
use self::handshake::{Greeting, shake};
use self::session::Resume;
use self::watch::{Changes, Watched};
use self::wire::Routed;
use crate::error::Error;
use crate::events::{self, EVENT_BYTES, Events, Receipt};
use crate::metrics::Metrics;
use crate::transport::{Connect, Connection};

pub(crate) use self::acks::{Acks, Progress};
pub(crate) use self::replay::Replay;
pub(crate) use self::table::Reply;
pub(crate) use self::tap::{Tap, Tapped, channel as tap};
pub(crate) use self::wire::{Call, Watching, Wire};

/// How a client introduces itself, its limits, and where it is counted.
#[derive(Debug, Clone)]
pub struct Options {
    /// How the client calls itself in the server's logs.
    pub client_name: String,
    /// Limit for the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// Output of one process that waits for its consumer, at most, bytes. A server that takes acknowledgements has a
    /// limit of its own, which counts instead.
    pub queue_bytes: usize,
    /// What the client counts in.
    pub metrics: Metrics,
    /// Leave the session's processes to the server at the end, which keeps them for as long as it keeps the session.
    pub leave_processes: bool,
}

impl Default for Options {
    /// `agent-client`, 10 s, 4 MiB, metrics of its own, processes are ended.
    fn default() -> Self {
        Self {
            client_name: "agent-client".to_owned(),
            initialize_timeout: Duration::from_secs(10),
            queue_bytes: 4 << 20,
            metrics: Metrics::default(),
            leave_processes: false,
        }
    }
}

/// A handle of a session that is past its handshake. Clones share the session; it ends, and its processes with it, when
/// the last of them, of the processes started on it and of their [`Events`] is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    wire: Wire,
    server: Arc<InitializeResult>,
    queue_bytes: usize,
    next_watch: Arc<std::sync::atomic::AtomicU64>,
}

impl Client {
    /// Does the handshake on a fresh connection. The session ends with the connection.
    ///
    /// # Errors
    /// [`Error::InitializeTimeout`], [`Error::ConnectionLost`], or the server's refusal.
    pub async fn handshake(mut connection: Connection, options: &Options) -> Result<Self, Error> {
        let greeting =
            shake(&mut connection, &options.client_name, None, Vec::new(), options.initialize_timeout)
                .await?;
        let (wire, lanes, messages) = Wire::new(options.metrics.clone(), None);
        tokio::spawn(session::run(connection, lanes, messages, None));
        Ok(Self::new(wire, greeting.server, options.queue_bytes))
    }

    /// Connects, and again where the connection is lost, if the server keeps the session meanwhile.
    ///
    /// # Errors
    /// Those of the connection, and as [`Client::handshake`].
    pub async fn connect(connector: Arc<dyn Connect>, options: &Options) -> Result<Self, Error> {
        let (wire, greeting) = resumable(connector, options, None, None).await?;
        let kept = limits(&greeting.server).map_or(0, |limits| {
            // The server holds back by itself beyond that, so the reader never waits.
            let events =
                usize::try_from(limits.retained_chunks).unwrap_or(usize::MAX).saturating_mul(EVENT_BYTES);
            usize::try_from(limits.retained_bytes).unwrap_or(usize::MAX).saturating_add(events)
        });
        Ok(Self::new(wire, greeting.server, options.queue_bytes.max(kept)))
    }

    fn new(wire: Wire, server: InitializeResult, queue_bytes: usize) -> Self {
        tracing::debug!(session = server.session_id, "connected");
        Self { wire, server: Arc::new(server), queue_bytes, next_watch: Arc::default() }
    }

    /// What the server said of itself.
    pub fn server(&self) -> &InitializeResult {
        &self.server
    }

    /// Calls a method and waits for its answer, however long that takes.
    ///
    /// # Errors
    /// [`Error::Rpc`] is the server's; [`Error::Answer`], [`Error::RequestTooLarge`], [`Error::Interrupted`],
    /// [`Error::ConnectionLost`].
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
    /// As [`Client::request`]; [`Error::ProcessExists`] where the id is in use in this session.
    pub async fn start(&self, params: &StartParams) -> Result<(StartResult, Events), Error> {
        let process_id: Arc<str> = params.process_id.as_str().into();
        let progress = Arc::<Progress>::default();
        let receipt = Receipt {
            process_id: Arc::clone(&process_id),
            acks: Arc::clone(self.wire.acks()),
            progress: Arc::clone(&progress),
            bytes: 0,
            events: 0,
        };
        let (sender, events) = events::channel(self.queue_bytes, receipt);
        let route = Routed { process_id, events: Some(sender), progress };
        let result = self.wire.start(params, route).await?;
        Ok((result, events.keeping(self.wire.clone())))
    }

    /// Watches a directory, whose path is the server's. After a lost connection the watch goes on, and tells an overflow.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn watch(&self, path: &WirePath) -> Result<Watch, Error> {
        let number = self.next_watch.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let method = Method::FsWatch.name();
        let watch_id = fs::WatchId::Number(number);
        let params = WatchParams { watch_id, path: path.clone(), sandbox: None };
        let raw = to_raw_value(&params).map_err(|cause| Error::Answer { method, cause })?;
        let changes = Changes::default();
        let watched = Watched { method, params: raw, changes: Some(changes.clone()) };
        self.wire.table().open(|open| {
            open.watches.add(params.watch_id.clone(), watched);
            Ok(())
        })?;
        // From here on the entry goes with the handle.
        let watch = Watch { client: self.clone(), watch_id: params.watch_id.clone(), changes };
        let _: WatchResult = self.request(Method::FsWatch, &params).await?;
        Ok(watch)
    }

    /// Ends the session and waits until it has ended. Processes that are still open get
    /// [`Event::Failed`](crate::Event::Failed).
    pub async fn close(self) {
        self.wire.close().await;
    }
}

/// A watch of a directory; ended on drop.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    watch_id: fs::WatchId,
    changes: Changes,
}

impl Watch {
    /// What has changed since the last call; waits where nothing has. `None` once the session is lost. Cancel safe.
    pub async fn recv(&mut self) -> Option<ChangedNotification> {
        self.changes.next().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let known = self.client.wire.table().find(|open| open.watches.remove(&self.watch_id));
        if known.is_none() {
            return;
        }
        let (client, watch_id) = (self.client.clone(), self.watch_id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let ended: Result<fs::Empty, Error> =
                    client.request(Method::FsUnwatch, &fs::Watch { watch_id }).await;
                if let Err(e) = ended {
                    tracing::debug!(error = %e, "a watch could not be ended");
                }
            });
        }
    }
}

/// A session that outlives its connections where the server allows that. `resume` takes over one of before.
pub(crate) async fn resumable(
    connector: Arc<dyn Connect>,
    options: &Options,
    resume: Option<String>,
    tap: Option<Tap>,
) -> Result<(Wire, Greeting), Error> {
    let mut connection = connector.connect().await?;
    let after = options.initialize_timeout;
    let greeting = shake(&mut connection, &options.client_name, Some(resume), Vec::new(), after).await?;
    let (wire, lanes, messages) = Wire::new(options.metrics.clone(), tap);
    // A server of which nothing is said here keeps no sessions, or not in a way that is known.
    let keeps = limits(&greeting.server).filter(|limits| limits.detached_ttl_seconds > 0).map(|limits| {
        lanes.acks.enable(Pace::of(limits));
        Resume {
            connector,
            session_id: greeting.server.session_id.clone(),
            ttl: Duration::from_secs(limits.detached_ttl_seconds),
            options: options.clone(),
        }
    });
    tokio::spawn(session::run(connection, lanes, messages, keeps));
    Ok((wire, greeting))
}

fn limits(server: &InitializeResult) -> Option<&Limits> {
    Some(&server.environment_info.as_ref()?.sidecar.as_ref()?.limits)
}
