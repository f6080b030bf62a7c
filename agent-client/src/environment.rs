//! The one switch: a sidecar at a URL, or one embedded in this process. What comes after does not know which.

use futures_util::future::BoxFuture;
use sidecar_protocol::session::EnvironmentInfo;

use crate::backend::{ExecBackend, Launch, SidecarBackend, Started};
use crate::client::{Client, Options};
use crate::config::Config;
use crate::embedded::Embedded;
use crate::error::Error;
use crate::filesystem::Filesystem;
use crate::mapping::Mapping;
use crate::transport;

/// A place to run commands in.
#[derive(Debug)]
pub struct Environment {
    client: Client,
    backend: SidecarBackend,
    embedded: Option<Embedded>,
}

impl Environment {
    /// Connects to the sidecar at `config.sidecar_url`, or starts an embedded one whose workspace is
    /// `config.local_root`, and does the handshake.
    ///
    /// # Errors
    /// Those of the transport, the handshake, and the embedded sidecar's start.
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let options = Options {
            client_name: config.client_name.clone(),
            initialize_timeout: config.initialize_timeout,
            ..Options::default()
        };
        let (client, embedded) = match &config.sidecar_url {
            Some(url) => {
                let socket =
                    transport::connect(url, config.token_file.as_deref(), config.connect_timeout).await?;
                (Client::handshake(socket, &options).await?, None)
            }
            None => {
                let embedded = Embedded::start(&config.local_root).await?;
                let socket = transport::in_process(embedded.connect()).await;
                (Client::handshake(socket, &options).await?, Some(embedded))
            }
        };
        let backend =
            SidecarBackend::new(client.clone(), mapping(config, client.server().environment_info.as_ref()));
        Ok(Self { client, backend, embedded })
    }

    /// What the server says of itself: its shell, workspace root, profiles, limits. `None` from a v0 server.
    pub fn info(&self) -> Option<&EnvironmentInfo> {
        self.client.server().environment_info.as_ref()
    }

    /// The connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Which path here is which path there.
    pub fn mapping(&self) -> &Mapping {
        self.backend.mapping()
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
    }
}

impl ExecBackend for Environment {
    fn start(&self, launch: Launch) -> BoxFuture<'_, Result<Started, Error>> {
        self.backend.start(launch)
    }
}

/// The config's workspace root, or the one that the server reports. A bare cwd of the server's is no workspace root: it
/// only serves launches from the local root itself.
fn mapping(config: &Config, info: Option<&EnvironmentInfo>) -> Mapping {
    let reported = info.and_then(|i| i.sidecar.as_ref()).map(|s| s.workspace_root.as_path());
    let workspace_root = config.workspace_root.as_deref().or(reported);
    Mapping::new(&config.local_root, workspace_root).with_default_cwd(info.map(|i| i.cwd.as_path()))
}
