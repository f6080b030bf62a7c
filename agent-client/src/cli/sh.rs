//! `sh`: what an agent is given for a shell.

use std::ffi::OsString;

use agent_client::config::{Config, Layer};
use agent_client::{Environment, Launch};

use super::exec::{self, How};
use super::session;
use super::signals::Signals;

/// Stand in for a shell: run the server's one, with these arguments
///
/// For agents that run each command as `SHELL -c LINE`. It runs in the counterpart of the current directory, with stdin passed
/// on; stdout, stderr and the exit code are the command's. All arguments are the shell's, so settings come from
/// agent-client.toml and AGENT_CLIENT_… variables.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "agent-client sh [ARG]...",
    disable_help_flag = true,
    after_help = "Example:\n  agent-client sh -c 'make check'\n\n\
        Example, as one file that SHELL can name:\n  \
        printf '#!/bin/sh\\nexec agent-client sh \"$@\"\\n' > sandbox-sh && chmod +x sandbox-sh"
)]
pub(super) struct Args {
    /// The shell's arguments, such as -c LINE; without any it reads commands from stdin
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
    arguments: Vec<OsString>,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = Config::load(None, Layer::default())?;
    let env = exec::environment_of(&config, false, Vec::new());
    let arguments = exec::utf8(args.arguments)?;
    let cwd = exec::cwd(None)?;
    session::following_signals(&config, async |environment: &Environment, signals: &mut Signals| {
        let shell = environment.shell().to_owned();
        let launch =
            Launch { pipe_stdin: true, env, ..Launch::new([shell].into_iter().chain(arguments), cwd) };
        exec::follow(environment, launch, How { interactive: true, verbose: false, json: false }, signals)
            .await
    })
    .await
}
