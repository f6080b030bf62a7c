//! The server: what all connections share, accepting, and the way out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sidecar_intake::{Intake, Place};
use sidecar_protocol::session::EnvironmentInfo;
use sidecar_sandbox::{Request, Sandbox};
use tokio::io::DuplexStream;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::VERSION;
use crate::admin;
use crate::audit::{Audit, Event};
use crate::auth::throttle::Throttle;
use crate::auth::{Auth, AuthError};
use crate::caller::Caller;
use crate::config::{Config, ListenUrl};
use crate::connection::spare::Spare;
use crate::environment;
use crate::fs::Files;
use crate::health::{Health, State};
use crate::memory;
use crate::metrics::Metrics;
use crate::relay::Relay;
use crate::session::{Ending, Registry};
use crate::transport;
use crate::transport::listener::Listener;
use crate::transport::tls::{Tls, TlsError};

/// How often a thread for blocking work is given something to do: one leaves after 10 s without (tokio's `thread_keep_alive`).
const BLOCKING_BEAT: Duration = Duration::from_secs(3);

/// What the pipe of an in-process connection holds, bytes.
const IN_PROCESS_BUFFER: usize = 256 << 10;

/// How long the last frames may take to reach their clients on the way out.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long killed trees may take to be gone; one may hang in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Before the next accept where the process is out of descriptors.
pub(crate) const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken, or not this host's.
    #[error("cannot listen on {url}: {source}")]
    Listen {
        /// Where.
        url: ListenUrl,
        /// What the OS said.
        source: io::Error,
    },
    /// The admin address is taken, or not this host's.
    #[error("cannot listen on the admin address {addr} (adminListen): {source}")]
    Admin {
        /// Where.
        addr: SocketAddr,
        /// What the OS said.
        source: io::Error,
    },
    /// The audit trail cannot be written.
    #[error("audit.sink cannot be opened: {0}")]
    Audit(#[source] io::Error),
    /// There is no token to check against.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// There is no certificate to show.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The sandbox cannot be started: a root is missing, or the kernel refuses a filter.
    #[error("the sandbox cannot be started: {0}")]
    Sandbox(#[from] sidecar_sandbox::Error),
    /// A task of the start died.
    #[error("internal: {0}")]
    Internal(String),
}

/// A running server. It must be shut down, for launches to be ended in an orderly way.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    urls: Vec<ListenUrl>,
    addrs: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    /// Whether nobody can connect any more.
    finished: CancellationToken,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sandbox: Sandbox,
    pub(crate) files: Files,
    pub(crate) auth: Auth,
    pub(crate) failures: Throttle,
    pub(crate) health: Health,
    pub(crate) sessions: Registry,
    pub(crate) info: EnvironmentInfo,
    pub(crate) metrics: Metrics,
    pub(crate) audit: Audit,
    /// Connections that were let in.
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) spare: Spare,
    pub(crate) relay: Relay,
    /// Every task that serves a connection.
    pub(crate) tasks: TaskTracker,
    /// The order to those tasks to end.
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// Waits for a connection that is to be let in.
    pub(crate) async fn accept<T>(
        &self,
        intake: &Arc<Intake>,
        next: impl Future<Output = io::Result<T>>,
    ) -> io::Result<(T, Place)> {
        let (accepted, place) = intake.accept(next).await?;
        if place.displaced() {
            // No log line: a flood would write one per connection.
            self.metrics.requests.rejected("handshakes");
        }
        Ok((accepted, place))
    }
}

impl Server {
    /// Starts the sandbox, listens, and accepts connections from then on.
    ///
    /// # Errors
    /// [`StartError`]. A kernel without Landlock is none: the server starts, is not ready, and refuses launches with
    /// the reason.
    pub async fn start(config: Config) -> Result<Server, StartError> {
        let internal = |e: &dyn std::fmt::Display| StartError::Internal(e.to_string());
        let metrics = Metrics::new(&config).map_err(|e| internal(&e))?;
        // Before the sandbox, which must see the file to keep launches from it.
        let audit = Audit::start(&config.audit, metrics.audit_events.clone()).map_err(StartError::Audit)?;
        let options = config.sandbox.clone();
        let started = tokio::task::spawn_blocking(move || {
            let sandbox = Sandbox::start(options)?;
            let default = sandbox.prepare(&Request::Default).ok();
            Ok::<_, sidecar_sandbox::Error>((sandbox, default))
        });
        let (sandbox, default) = started.await.map_err(|e| internal(&e))??;
        let receipt = default.as_ref().map(|prepared| prepared.receipt());
        metrics.describe(sandbox.kernel(), config.sandbox.default.name(), receipt);
        let auth = Auth::start(&config.auth)?;
        let tls = config.tls.clone().map(Tls::start).transpose()?;
        let mut listeners = Vec::new();
        for url in &config.listen {
            let failed = |source| StartError::Listen { url: url.clone(), source };
            listeners.extend(Listener::bind(url, tls.as_ref()).map_err(failed)?);
        }
        let admin = admin::bind(config.admin_listen)?;
        let urls: Vec<ListenUrl> = listeners.iter().filter_map(Listener::url).collect();
        let addrs = urls.iter().filter_map(ListenUrl::tcp).collect();
        let relay = Relay::start().map_err(|e| internal(&e))?;
        let shared = Arc::new(Shared {
            files: Files::new(sandbox.clone(), relay.clone()),
            relay,
            info: environment::info(&config, &sandbox),
            connections: Arc::new(Semaphore::new(config.limits.connections)),
            spare: Spare::default(),
            failures: Throttle::new(config.limits.auth_failures, config.limits.auth_failures_in_all),
            config,
            sandbox,
            auth,
            metrics,
            audit,
            health: Health::new(),
            sessions: Registry::new().map_err(|e| internal(&e))?,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let finished = CancellationToken::new();
        if shared.config.listen.contains(&ListenUrl::Stdio) {
            let alone = listeners.is_empty().then(|| finished.clone().drop_guard());
            let serving = transport::stdio::serve(shared.clone());
            shared.tasks.spawn(async move {
                serving.await;
                drop(alone);
            });
        }
        for listener in listeners {
            shared.tasks.spawn(accept(shared.clone(), listener));
        }
        tokio::spawn(keep_a_blocking_thread());
        shared.tasks.spawn(memory::watch(shared.clone()));
        let admin_addr = admin.as_ref().and_then(|listener| listener.local_addr().ok());
        if let Some(listener) = admin {
            shared.tasks.spawn(admin::accept(shared.clone(), listener));
        }
        shared.audit.record(&Event { version: Some(VERSION), ..Event::new("sidecar.start") });
        Ok(Server { shared, urls, addrs, admin: admin_addr, finished })
    }

    /// Where it listens, in the config's order, with the ports that the kernel picked.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// The same, as clients write it.
    pub fn local_urls(&self) -> &[ListenUrl] {
        &self.urls
    }

    /// Returns once stdio, the only listener, has come to its end; never where there is another one.
    pub async fn finished(&self) {
        self.finished.cancelled().await;
    }

    /// Where metrics and health are served, with the port that the kernel picked.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Looks at the tokens again, which every handshake does anyway, to tell whether they can be used; and opens the
    /// audit file anew.
    pub async fn reload(&self) {
        let outcome = self.shared.auth.recheck().await;
        if let Err(error) = &outcome {
            tracing::error!(%error, "reload: nobody can connect");
        }
        self.shared.audit.reopen();
        self.shared.metrics.reloaded(outcome.is_ok());
        let outcome = Some(if outcome.is_ok() { "ok" } else { "failed" });
        self.shared.audit.record(&Event { outcome, ..Event::new("config.reload") });
    }

    /// What launches are confined by.
    pub fn sandbox(&self) -> &Sandbox {
        &self.shared.sandbox
    }

    /// Tells the health endpoints.
    pub fn set_state(&self, state: State) {
        self.shared.health.set(state);
    }

    /// A connection without a socket: raw WebSocket frames, no HTTP, no auth. Must be called within the runtime.
    pub fn connect_in_process(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(IN_PROCESS_BUFFER);
        self.shared.tasks.spawn(transport::ws::serve_raw(self.shared.clone(), far, Caller::in_process()));
        near
    }

    /// No new sessions; SIGTERM to all launches, SIGKILL after the grace; then closes the connections. Returns when
    /// everything has ended.
    pub async fn shutdown(&self) {
        self.shared.health.set(State::Draining);
        let grace = self.shared.config.limits.terminate_grace;
        let ended = self.shared.sessions.end_all(Ending::Terminate(grace));
        if tokio::time::timeout(grace + KILL_LIMIT, ended).await.is_err() {
            tracing::error!("a killed launch is still there; leaving it");
        }
        self.farewell().await;
    }

    /// As [`Server::shutdown`], with SIGKILL at once.
    pub async fn kill(&self) {
        self.shared.health.set(State::Draining);
        if tokio::time::timeout(KILL_LIMIT, self.shared.sessions.end_all(Ending::Kill)).await.is_err() {
            tracing::error!("a killed launch is still there; leaving it");
        }
        self.farewell().await;
    }

    async fn farewell(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(FAREWELL, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("a client does not take its last frames; leaving it");
        }
        let shared = self.shared.clone();
        let last = tokio::task::spawn_blocking(move || shared.audit.finish(&Event::new("sidecar.stop")));
        let _ = last.await;
    }
}

/// Has a thread for blocking work at hand for as long as the runtime lives. Where there is none, and the kernel gives none
/// either, the runtime ends the process (tokio's `spawn_blocking`): a fork bomb in the container would be enough for that.
/// While there is one, the work waits for it.
async fn keep_a_blocking_thread() {
    let mut beats = tokio::time::interval(BLOCKING_BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let _ = tokio::task::spawn_blocking(|| ()).await;
    }
}

async fn accept(shared: Arc<Shared>, listener: Listener) {
    let intake = Intake::new(shared.config.limits.handshakes);
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept(&shared, &intake) => accepted,
        };
        match accepted {
            Ok(serving) => drop(shared.tasks.spawn(serving)),
            Err(e) => {
                // Most likely out of descriptors: the connection stays queued, and accept would fail again at once.
                tracing::warn!(error = %e, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}
