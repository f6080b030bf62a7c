//! `agent-client exec`: one command, as if it ran here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_client::config::Config;
use agent_client::protocol::process::Sandbox;
use agent_client::{Environment, ExecBackend, Launch};
use anyhow::{Context as _, anyhow, bail};

use super::connection::Connection;
use super::signals::Signals;
use super::{capture, exit, output, report, session, stdin, terminal};

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
        tar cf - . | agent-client exec -i -- tar tf -\n  \
        agent-client exec --json --timeout 5m -- cargo test\n  \
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
    /// End the command, with all that it started, after that time
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    /// Print nothing but one line of JSON at the end: exitCode, signal, cause, stdout, stderr, truncated, durationMs,
    /// enforcement
    #[arg(long, conflicts_with = "tty")]
    json: bool,
    /// The command and its arguments; no shell is put in between
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
    // Last, for its heading holds for what follows.
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// A positive duration such as `90s` or `5m`.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(limit) if limit.as_millis() > 0 => Ok(limit),
        Ok(_) => Err("must be at least 1ms".to_owned()),
        Err(e) => Err(format!("{e}; expected one like 90s or 5m")),
    }
}

/// Runs the command; the result is the exit code.
pub(super) async fn run(args: Args, verbose: bool) -> anyhow::Result<u8> {
    let as_json = args.json;
    let outcome = run_command(args, verbose).await;
    match outcome {
        Err(error) if as_json => {
            capture::failure(&error)?;
            Ok(exit::code_of(&error))
        }
        outcome => outcome,
    }
}

async fn run_command(args: Args, verbose: bool) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    let launch = Launch {
        tty: args.tty.then(terminal::size),
        pipe_stdin: args.interactive,
        sandbox: args.profile.map(Sandbox::profile),
        env: environment_of(&config, args.tty, args.env),
        timeout: args.timeout,
        ..Launch::new(utf8(args.command)?, cwd(args.cwd)?)
    };
    let how = How { interactive: args.interactive, verbose, json: args.json };
    let work = async |environment: &Environment, signals: &mut Signals| {
        follow(environment, launch, how, signals).await
    };
    session::following_signals(&config, work).await
}

/// How a command is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Pass stdin on.
    pub(super) interactive: bool,
    /// Print the receipt.
    pub(super) verbose: bool,
    /// Print one line of JSON at the end instead of the output.
    pub(super) json: bool,
}

/// Starts a command and follows it to its end.
pub(super) async fn follow(
    environment: &Environment,
    launch: Launch,
    how: How,
    signals: &mut Signals,
) -> anyhow::Result<u8> {
    let How { interactive, verbose, json } = how;
    let at = Instant::now();
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
    let process = &started.process;
    let delivered = async {
        if json {
            return capture::deliver(started.events, process, at).await;
        }
        output::deliver(started.events, process).await
    };
    let ended = tokio::select! {
        ended = delivered => ended,
        () = signals.forward(&started.process, tty) => Err(anyhow!("gave up waiting for the command to end")),
    };
    // Before anything is printed: raw mode does not return the carriage.
    drop(raw);
    let exit = ended?;
    if !json {
        report::notes(&exit);
    }
    Ok(exit::code(exit.exit_code))
}

/// What the command gets on top of the server's core variables; the strongest last.
pub(super) fn environment_of(
    config: &Config,
    tty: bool,
    flags: Vec<(String, String)>,
) -> BTreeMap<String, String> {
    let term = std::env::var("TERM").ok().filter(|term| tty && !term.is_empty());
    let mut env: BTreeMap<_, _> = term.map(|term| ("TERM".to_owned(), term)).into_iter().collect();
    env.extend(config.env.clone());
    env.extend(flags);
    env
}

pub(super) fn cwd(flag: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("the current directory cannot be told")?;
    Ok(flag.map_or_else(|| here.clone(), |dir| here.join(dir)))
}

pub(super) fn utf8(command: Vec<OsString>) -> anyhow::Result<Vec<String>> {
    let mut argv = Vec::with_capacity(command.len());
    for argument in command {
        match argument.into_string() {
            Ok(text) => argv.push(text),
            Err(raw) => bail!("argument {raw:?} is not UTF-8; the protocol carries text only"),
        }
    }
    Ok(argv)
}
