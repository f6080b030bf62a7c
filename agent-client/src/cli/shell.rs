//! `agent-client shell`: the sandbox from within.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use agent_client::protocol::process::Sandbox;
use agent_client::{Environment, Launch};

use super::connection::Connection;
use super::exec::{self, How};
use super::signals::Signals;
use super::{session, terminal};

/// Open a shell in the sandbox.
///
/// It is the server's own, or the one that --shell names. It gets a terminal where this one is one; else it reads its
/// commands from stdin.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        agent-client shell\n  \
        agent-client shell --shell /bin/sh --profile readOnly\n  \
        echo 'make check' | agent-client shell")]
pub(super) struct Args {
    /// The shell, by its path there
    #[arg(long, value_name = "PATH")]
    shell: Option<String>,
    /// Local directory to start in, below the local root [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable; repeatable
    #[arg(long = "env", short = 'e', value_name = "K=V", value_parser = exec::variable)]
    env: Vec<(String, String)>,
    /// Sandbox profile, as for exec
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args, verbose: bool) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    let tty = io::stdin().is_terminal();
    let env = exec::environment_of(&config, tty, args.env);
    let cwd = exec::cwd(args.cwd)?;
    session::following_signals(&config, async |environment: &Environment, signals: &mut Signals| {
        let shell = args.shell.unwrap_or_else(|| environment.shell().to_owned());
        let launch = Launch {
            tty: tty.then(terminal::size),
            pipe_stdin: true,
            sandbox: args.profile.map(Sandbox::profile),
            env,
            ..Launch::new([shell], cwd)
        };
        exec::follow(environment, launch, How { interactive: true, verbose, json: false }, signals).await
    })
    .await
}
