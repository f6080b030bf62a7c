//! The embedded sidecar, on Linux.

use std::path::Path;

use sandbox_sidecar::Server;
use sandbox_sidecar::config::Config;
use tokio::io::DuplexStream;

use crate::error::Error;

/// A running embedded sidecar.
#[derive(Debug)]
pub(crate) struct Embedded {
    server: Server,
}

impl Embedded {
    /// Starts one whose workspace is that directory, with the defaults of `sandbox-sidecar serve`: whoever asks for
    /// less confinement than those gets them nevertheless.
    pub(crate) async fn start(workspace_root: &Path) -> Result<Self, Error> {
        let root = workspace_root.to_owned();
        let config = Config::embedded(root.clone())
            .map_err(|cause| Error::EmbeddedConfig { root, cause: Box::new(cause) })?;
        let server =
            Server::start(config).await.map_err(|cause| Error::EmbeddedStart { cause: Box::new(cause) })?;
        Ok(Self { server })
    }

    /// A connection to it: WebSocket frames without the HTTP upgrade.
    pub(crate) fn connect(&self) -> DuplexStream {
        self.server.connect_in_process()
    }

    /// Ends its sessions and all that was launched.
    pub(crate) async fn shutdown(self) {
        self.server.shutdown().await;
    }
}
