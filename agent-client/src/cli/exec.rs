//! `agent-client exec`: one command, as if it ran here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use agent_client::config::Config;
use agent_client::{Environment, ExecBackend, Launch};
use anyhow::{Context as _, anyhow, bail};

use super::connection::Connection;
use super::signals::Signals;
use super::{exit, output, report, stdin, terminal};

/// Run a command in the sandbox, as if it ran here.
///
/// Its stdout and stderr come out as they are written, and apart (with -t they are one). Its exit code becomes this
/// program's, 128+n by signal n; 127 is a command that was not found, 126 one that cannot be executed, 125 a failure of
/// agent-client itself.
///
/// Ctrl-C interrupts the command, a second one ends it with all that it started, a third one stops waiting for that.
/// Where an exit looks like the sandbox's doing, a note with the rule goes to stderr.
///
/// The command gets the server's PATH, HOME, LANG and the like, [env] of the config file, --env, and with -t TERM;
/// nothing else of the environment here is sent.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "agent-client exec [OPTIONS] [--] CMD [ARG]...",
    after_help = "Examples:\n  \
        agent-client exec -- sh -c 'make && ./run | tail'\n  \
        agent-client exec -it -- bash\n  \
        agent-client exec -v --profile readOnly --env CI=1 --cwd src -- git status"
)]
pub(super) struct Args {
    /// Give the command a terminal, of this one's size
    #[arg(short = 't', long)]
    tty: bool,
    /// Pass stdin on, and its end
    #[arg(short = 'i', long)]
    interactive: bool,
    /// Local directory to run in, below the local root [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Set a variable; repeatable
    #[arg(long = "env", short = 'e', value_name = "K=V", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Sandbox profile: readOnly, workspaceWriteNoNetwork, workspaceWrite, or none for all that the operator allows
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// The command and its arguments; no shell is put in between
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
    // Last, for its heading holds for what follows.
    #[command(flatten)]
    connection: Connection,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Runs the command; the result is the exit code.
pub(super) async fn run(args: Args, verbose: bool) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    let launch = Launch {
        tty: args.tty.then(terminal::size),
        pipe_stdin: args.interactive,
        profile: args.profile,
        env: environment_of(&config, args.tty, args.env),
        ..Launch::new(utf8(args.command)?, cwd(args.cwd)?)
    };
    // Listened to from here on: an embedded sidecar must end its launches, whenever the signal comes.
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let environment = tokio::select! {
        connected = Environment::connect(&config) => connected?,
        signal = signals.end() => return Ok(signal.exit_code()),
    };
    let outcome = follow(&environment, launch, args.interactive, verbose, &mut signals).await;
    tokio::select! {
        () = environment.close() => {}
        _ = signals.end() => {}
    }
    outcome
}

async fn follow(
    environment: &Environment,
    launch: Launch,
    interactive: bool,
    verbose: bool,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    let tty = launch.tty.is_some();
    let started = tokio::select! {
        started = environment.start(launch) => started?,
        signal = signals.end() => return Ok(signal.exit_code()),
    };
    if verbose {
        report::receipt(started.process.enforcement());
    }
    let raw = if tty && interactive {
        terminal::RawMode::enter().context("cannot set up the terminal")?
    } else {
        None
    };
    if interactive {
        stdin::forward(Arc::clone(&started.process)).context("cannot read stdin")?;
    }
    let ended = tokio::select! {
        ended = output::deliver(started.events, &started.process) => ended,
        () = signals.forward(&started.process, tty) => Err(anyhow!("gave up waiting for the command to end")),
    };
    // Before anything is printed: raw mode does not return the carriage.
    drop(raw);
    let exit = ended?;
    report::notes(&exit);
    Ok(exit::code(exit.exit_code))
}

/// What the command gets on top of the server's core variables; the strongest last.
fn environment_of(config: &Config, tty: bool, flags: Vec<(String, String)>) -> BTreeMap<String, String> {
    let term = std::env::var("TERM").ok().filter(|term| tty && !term.is_empty());
    let mut env: BTreeMap<_, _> = term.map(|term| ("TERM".to_owned(), term)).into_iter().collect();
    env.extend(config.env.clone());
    env.extend(flags);
    env
}

fn cwd(flag: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("the current directory cannot be told")?;
    Ok(flag.map_or_else(|| here.clone(), |dir| here.join(dir)))
}

fn utf8(command: Vec<OsString>) -> anyhow::Result<Vec<String>> {
    let mut argv = Vec::with_capacity(command.len());
    for argument in command {
        match argument.into_string() {
            Ok(text) => argv.push(text),
            Err(raw) => bail!("argument {raw:?} is not UTF-8; the protocol carries text only"),
        }
    }
    Ok(argv)
}
