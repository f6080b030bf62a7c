//! The one switch: a sidecar at a URL, or one embedded in this process. What comes after does not know which.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sidecar_protocol::session::EnvironmentInfo;

use crate::backend::{ExecBackend, Launch, SidecarBackend, Started};
use crate::client::{Client, Options};
use crate::config::Config;
use crate::embedded::Embedded;
use crate::error::Error;
use crate::filesystem::Filesystem;
use crate::mapping::Mapping;
use crate::metrics::{Metrics, Report};
use crate::transport::{self, Remote};

/// A place to run commands in.
#[derive(Debug)]
pub struct Environment {
    client: Client,
    backend: Arc<SidecarBackend>,
    mapping: Mapping,
    report: Report,
    embedded: Option<Embedded>,
}

impl Environment {
    /// Connects to the sidecar that the config names, or starts an embedded one whose workspace is
    /// `config.local_root`, and does the handshake. It counts in metrics of its own, which are told as the
    /// config says.
    ///
    /// # Errors
    /// Those of the transport, the handshake, and the embedded sidecar's start.
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        Self::connect_counting(config, Metrics::new()).await
    }

    /// The same, counting in these metrics.
    ///
    /// # Errors
    /// As [`Environment::connect`].
    pub async fn connect_counting(config: &Config, metrics: Metrics) -> Result<Self, Error> {
        let options = Options {
            client_name: config.client_name.clone(),
            initialize_timeout: config.initialize_timeout,
            metrics,
            ..Options::default()
        };
        let report = Report::start(config, options.metrics.clone()).await?;
        let (client, embedded) = match Remote::of(config) {
            Some(remote) => (Client::connect(remote, &options).await?, None),
            None => {
                let embedded = Embedded::start(&config.local_root).await?;
                let connection = transport::in_process(embedded.connect()).await;
                (Client::handshake(connection, &options).await?, Some(embedded))
            }
        };
        let info = client.server().environment_info.as_ref();
        let mapping = mapping(&config.local_root, config.workspace_root.as_deref(), info);
        let backend = Arc::new(SidecarBackend::new(client.clone(), mapping.clone()));
        Ok(Self { client, backend, mapping, report, embedded })
    }

    /// The session with the sidecar.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What starts commands there, to be shared.
    pub fn backend(&self) -> Arc<dyn ExecBackend> {
        self.backend.clone()
    }

    /// Which path here is which path there.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// What it counts in, and where that is told.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What the server says of itself: its shell, workspace root, profiles, limits. `None` from a v0 server.
    pub fn info(&self) -> Option<&EnvironmentInfo> {
        self.client.server().environment_info.as_ref()
    }

    /// The server's shell, by its path there.
    pub fn shell(&self) -> &str {
        self.info().map_or("/bin/sh", |info| info.shell.path.as_str())
    }

    /// The files there, named by local paths.
    pub fn files(&self) -> Filesystem {
        Filesystem::new(self.client.clone(), self.mapping().clone())
    }

    /// Whether the sidecar runs in this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Ends the connection, the commands on it, and the embedded sidecar.
    pub async fn close(self) {
        drop(self.backend);
        self.client.close().await;
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
        if let Err(e) = self.report.finish().await {
            tracing::error!(error = %e, "the metrics are lost");
        }
    }
}

impl ExecBackend for Environment {
    fn start(&self, launch: Launch) -> BoxFuture<'_, Result<Started, Error>> {
        self.backend.start(launch)
    }
}

/// The configured workspace root, or the one that the server reports. A bare cwd of the server's is no workspace root: it
/// only serves launches from the local root itself.
pub(crate) fn mapping(
    local_root: &Path,
    workspace_root: Option<&Path>,
    info: Option<&EnvironmentInfo>,
) -> Mapping {
    let reported = info.and_then(|i| i.sidecar.as_ref()).map(|s| s.workspace_root.as_path());
    Mapping::new(local_root, workspace_root.or(reported))
        .with_reported_root(reported)
        .with_default_cwd(info.map(|i| i.cwd.as_path()))
}
