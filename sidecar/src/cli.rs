//! The command line: thin flags over the config's keys.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sandbox_sidecar::config::source::Raw;

/// Runs commands and file operations for agents, each under Landlock and seccomp.
#[derive(Debug, Parser)]
#[command(name = "sandbox-sidecar", version, args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Example: sandbox-sidecar serve --workspace-root /workspace --listen ws://127.0.0.1:8790"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ConfigFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the exec and fs protocol (the default).
    #[command(after_help = "Example: sandbox-sidecar serve --listen ws://127.0.0.1:0 --profile readOnly")]
    Serve(ConfigFlags),
    /// Tell what this kernel and container can enforce, and whether the configured ceiling holds; exit 78 if not.
    #[command(after_help = "Example: sandbox-sidecar check --json | jq .verdict")]
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigFlags,
    },
    /// Join stdin and stdout, one JSON message per line, to a listener; for `kubectl exec -i` and ssh.
    #[command(after_help = "Example: sandbox-sidecar connect unix:/run/sandbox-sidecar/api.sock")]
    Connect {
        /// ws://HOST:PORT or unix:PATH [default: where the config file listens]
        target: Option<String>,
        /// File with the token to show to a ws listener
        #[arg(long, value_name = "FILE", requires = "target")]
        token_file: Option<PathBuf>,
        /// Config file of the server to find [env: SANDBOX_SIDECAR_CONFIG]
        #[arg(long, value_name = "FILE", conflicts_with = "target")]
        config: Option<PathBuf>,
    },
    /// Run one command under the sandbox, without a server; the exit code is the command's.
    #[command(after_help = "Example: sandbox-sidecar run --profile readOnly -v -- ls -l /etc")]
    Run {
        #[command(flatten)]
        config: ConfigFlags,
        /// Give the command a terminal
        #[arg(long)]
        tty: bool,
        /// Show on stderr what was enforced, and how the command ended
        #[arg(short, long)]
        verbose: bool,
        /// The program and its arguments
        #[arg(last = true, required = true, value_name = "CMD")]
        argv: Vec<String>,
    },
    /// Print the effective config, and where each value came from.
    #[command(after_help = "Example: SANDBOX_SIDECAR_PROFILE=readOnly sandbox-sidecar config")]
    Config {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigFlags,
    },
    /// Tell which rights each path gets under a profile, and from which rules.
    #[command(after_help = "Example: sandbox-sidecar explain --profile readOnly /etc/passwd ~/.ssh")]
    Explain {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigFlags,
        /// Paths; without any, the places that the config names and the usual ones
        paths: Vec<PathBuf>,
    },
    /// Copy this binary, and agent-client where it lies beside it, to DEST; needs no shell and no cp.
    #[command(after_help = "Example: sandbox-sidecar install /tools/")]
    Install {
        /// A file, or a directory
        #[arg(value_name = "DEST")]
        destination: PathBuf,
    },
    /// Tries one forbidden or allowed act; what `check` launches under each profile.
    #[command(name = sandbox_sidecar::check::PROBE, hide = true)]
    Probe { act: String, target: PathBuf },
}

/// Flags that set config keys. `sandbox-sidecar` has more keys than flags: the rest are in the file and environment.
#[derive(Debug, Default, Args)]
pub(crate) struct ConfigFlags {
    /// Config file (TOML) [env: SANDBOX_SIDECAR_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen here: ws://IP:PORT, unix:///PATH or stdio://; may be repeated [default: ws://127.0.0.1:8790]
    #[arg(long, value_name = "URL")]
    listen: Vec<String>,
    /// Serve /metrics, /livez and /readyz here; empty: nowhere [default: 127.0.0.1:9464; nowhere on stdio:// alone]
    #[arg(long, value_name = "IP:PORT")]
    admin_listen: Option<String>,
    /// Directory that launches work in [default: the current one]
    #[arg(long, value_name = "DIR")]
    workspace_root: Option<String>,
    /// File of tokens, one per line: name:token, or a bare token
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Directory for the generated token [env: SANDBOX_SIDECAR_STATE]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// Ask for no token; loopback only
    #[arg(long)]
    insecure_no_auth: bool,
    /// Let requests with this Origin header through; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Profile of a launch that asks for none [default: workspaceWriteNoNetwork]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Profile that no launch gets beyond [default: workspaceWrite]
    #[arg(long, value_name = "NAME")]
    ceiling: Option<String>,
    /// One more tree to read and execute from; may be repeated
    #[arg(long, value_name = "DIR")]
    read_root: Vec<String>,
    /// One more tree to write to; may be repeated
    #[arg(long, value_name = "DIR")]
    write_root: Vec<String>,
    /// Use no Landlock ABI above this one
    #[arg(long, value_name = "N")]
    max_abi: Option<u64>,
    /// stderr, file:PATH, unix:PATH or none [default: stderr]
    #[arg(long, value_name = "SINK")]
    audit_sink: Option<String>,
    /// auto, text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What to log, such as info or sandbox_sidecar=debug
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
}

impl ConfigFlags {
    /// No flag but that of the file.
    pub(crate) fn of_file(config: Option<PathBuf>) -> Self {
        Self { config, ..Self::default() }
    }

    /// The flags that were given, by key.
    pub(crate) fn into_values(self) -> Vec<(&'static str, Raw)> {
        let text = |key, value: Option<String>| value.map(|value| (key, Raw::Text(value)));
        let list = |key, items: Vec<String>| (!items.is_empty()).then_some((key, Raw::List(items)));
        [
            list("listen", self.listen),
            text("adminListen", self.admin_listen),
            text("workspaceRoot", self.workspace_root),
            text("tokenFile", self.token_file),
            text("stateDir", self.state_dir),
            self.insecure_no_auth.then_some(("insecureNoAuth", Raw::Bool(true))),
            list("allowedOrigins", self.allow_origin),
            text("profile", self.profile),
            text("ceiling", self.ceiling),
            list("readRoots", self.read_root),
            list("writeRoots", self.write_root),
            self.max_abi.map(|abi| ("landlock.maxAbi", Raw::Number(abi))),
            text("audit.sink", self.audit_sink),
            text("logFormat", self.log_format),
            text("logFilter", self.log_filter),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
