//! `mcp`: the sandbox as a server of the Model Context Protocol.

use agent_client::mcp::{self, Options};
use anyhow::Context as _;

use super::connection::Connection;
use super::session;

/// Serve the sandbox to an MCP client over stdin and stdout
///
/// The tools are exec_command, write_stdin, read_file, write_file, apply_patch, list_dir and search. Commands that still run
/// when the client goes are ended. What a client tells of its own sandbox (codex/sandbox-state) is kept to as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, for a client with an mcpServers file:\n  \
    {\"mcpServers\": {\"sandbox\": {\"command\": \"agent-client\", \"args\": [\"mcp\", \"--kube\", \"default/workspace\"]}}}\n\n\
    Example, for Claude Code:\n  claude mcp add sandbox -- agent-client mcp --sidecar-url ws://127.0.0.1:8790 --token-file ./token")]
pub(super) struct Args {
    /// Profile of every call that names none [default: the sidecar's]
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// A profile that a call may name; repeatable. Without it, calls cannot name any
    #[arg(long, value_name = "PROFILE")]
    allow_profile: Vec<String>,
    // Last, for its heading holds for what follows.
    #[command(flatten)]
    connection: Connection,
}

/// Serves until the client goes or a signal comes; the result is the exit code.
pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    let options =
        Options { profile: args.profile, allowed_profiles: args.allow_profile, env: config.env.clone() };
    session::following_signals(&config, async |environment, signals| {
        let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
        let stop = async {
            signals.end().await;
        };
        mcp::serve(environment, options, stdin, stdout, stop).await.context("cannot serve MCP")?;
        Ok(0)
    })
    .await
}
