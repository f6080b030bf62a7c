//! The flags that say which sidecar and which roots; each is a key of the config file too.

use std::path::PathBuf;

use agent_client::config::{Config, Layer};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// Config file [default: $AGENT_CLIENT_CONFIG, ./agent-client.toml, ~/.config/agent-client/config.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// ws://HOST:PORT or unix:///PATH of the sidecar; without it an embedded one is used
    #[arg(long, value_name = "URL")]
    sidecar_url: Option<String>,
    /// Reach the sidecar of this pod by kubectl exec: NAMESPACE/POD or NAMESPACE/POD/CONTAINER
    #[arg(long, value_name = "POD", conflicts_with = "sidecar_url")]
    kube: Option<String>,
    /// The kubectl program [default: kubectl]
    #[arg(long, value_name = "PROGRAM")]
    kubectl: Option<PathBuf>,
    /// The sandbox-sidecar program in its container [default: sandbox-sidecar]
    #[arg(long, value_name = "PROGRAM")]
    kube_program: Option<String>,
    /// Where the sidecar listens in its container: ws://HOST:PORT or unix:PATH [default: as its config file says]
    #[arg(long, value_name = "TARGET")]
    kube_target: Option<String>,
    /// File that holds the sidecar's token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Directory here that the workspace root stands for [default: current directory]
    #[arg(long, value_name = "DIR")]
    local_root: Option<PathBuf>,
    /// Its counterpart on the sidecar's side [default: what the server reports]
    #[arg(long, value_name = "DIR")]
    workspace_root: Option<PathBuf>,
    /// How this client calls itself in the server's logs
    #[arg(long, value_name = "NAME")]
    client_name: Option<String>,
    /// Limit for connecting [default: 10s]
    #[arg(long, value_name = "DURATION")]
    connect_timeout: Option<String>,
    /// Limit for the server's first answer [default: 10s]
    #[arg(long, value_name = "DURATION")]
    initialize_timeout: Option<String>,
    /// Serve metrics at http://IP:PORT/metrics
    #[arg(long, value_name = "IP:PORT")]
    metrics_listen: Option<String>,
    /// Leave metrics in this file at the end, for a textfile collector
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
}

impl Connection {
    /// These flags over the environment and the config file.
    pub(super) fn config(self) -> Result<Config, agent_client::Error> {
        let (file, flags) = self.into_flags();
        Config::load(file.as_deref(), flags)
    }

    /// The same, not merged yet, the strongest first.
    pub(super) fn layers(self) -> Result<Vec<Layer>, agent_client::Error> {
        let (file, flags) = self.into_flags();
        Config::layers(file.as_deref(), flags)
    }

    fn into_flags(self) -> (Option<PathBuf>, Layer) {
        let flags = Layer {
            sidecar_url: self.sidecar_url,
            kube: self.kube,
            kubectl: self.kubectl,
            kube_program: self.kube_program,
            kube_target: self.kube_target,
            token_file: self.token_file,
            local_root: self.local_root,
            workspace_root: self.workspace_root,
            client_name: self.client_name,
            connect_timeout: self.connect_timeout,
            initialize_timeout: self.initialize_timeout,
            metrics_listen: self.metrics_listen,
            metrics_file: self.metrics_file,
            ..Layer::default()
        };
        (self.config, flags)
    }
}
