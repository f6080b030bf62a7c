//! The flags that say which sidecar and which roots; each is a key of the config file too.

use std::path::PathBuf;

use agent_client::config::{Config, Layer};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// Config file [default: $AGENT_CLIENT_CONFIG, ./agent-client.toml, ~/.config/agent-client/config.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// ws://HOST:PORT of the sidecar; without it an embedded one is used
    #[arg(long, value_name = "URL")]
    sidecar_url: Option<String>,
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
            token_file: self.token_file,
            local_root: self.local_root,
            workspace_root: self.workspace_root,
            client_name: self.client_name,
            connect_timeout: self.connect_timeout,
            initialize_timeout: self.initialize_timeout,
            ..Layer::default()
        };
        (self.config, flags)
    }
}
