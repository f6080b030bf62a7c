//! The gateway: stock clients connect here, and reach a sidecar elsewhere as if their directory were there.
//!
//! It adds the token, maps paths both ways ([`translate`]), and goes on over a new connection where the one to the
//! sidecar is lost, of which a client sees only a pause. Each client has a session of its own at the sidecar, under the
//! id that the sidecar gave it: a client that comes back resumes it there, whichever gateway it comes through.
//!
//! What it does not know it passes on as it came. It starts nothing, keeps no output and decides nothing about what a
//! command may do. The embedded sidecar is not for it.

mod downstream;
mod listener;
mod outlet;
mod raw;
mod translate;
mod upstream;

use std::path::PathBuf;
use std::sync::Arc;

use sidecar_protocol::session::EnvironmentInfo;
use tokio_util::sync::CancellationToken;

pub use listener::{Access, Listener};

use crate::client::Options;
use crate::config::Config;
use crate::environment;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::transport::{self, Connect, Connection, Remote};
pub(crate) use translate::Translator;

/// What all clients of a gateway share.
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connector: Arc<dyn Connect>,
    options: Options,
    local_root: PathBuf,
    workspace_root: Option<PathBuf>,
}

impl Gateway {
    /// A gateway to the sidecar that the config names. Nothing is connected to before a client comes.
    ///
    /// # Errors
    /// [`Error::GatewayNeedsSidecar`] where it names none.
    pub fn new(config: &Config, metrics: Metrics) -> Result<Self, Error> {
        let connector = Remote::of(config).ok_or(Error::GatewayNeedsSidecar)?;
        Ok(Self::over(connector, config, metrics))
    }

    /// The same over connections of the caller's making.
    pub fn over(connector: Arc<dyn Connect>, config: &Config, metrics: Metrics) -> Self {
        let options = Options {
            client_name: config.client_name.clone(),
            initialize_timeout: config.initialize_timeout,
            metrics,
            ..Options::default()
        };
        let shared = Shared {
            connector,
            options,
            local_root: config.local_root.clone(),
            workspace_root: config.workspace_root.clone(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves the one client that started this program, over stdin and stdout, until it, its session or `stop` ends.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] where the session ended before the client did; [`Error::ClientProtocol`].
    pub async fn serve_stdio(&self, stop: &CancellationToken) -> Result<(), Error> {
        self.serve(transport::over_stdio(), stop).await
    }

    /// Serves whoever connects, until `stop`.
    pub async fn serve_listener(&self, listener: Listener, stop: &CancellationToken) {
        listener.serve(self, stop).await;
    }

    /// Serves one client.
    async fn serve(&self, connection: Connection, stop: &CancellationToken) -> Result<(), Error> {
        downstream::serve(&self.shared, connection, stop).await
    }
}

impl Shared {
    /// For a sidecar that says this of itself.
    fn translator(&self, info: Option<&EnvironmentInfo>) -> Translator {
        Translator::new(environment::mapping(&self.local_root, self.workspace_root.as_deref(), info))
    }
}
