//! The `sandbox-sidecar` binary: flags in, exit codes out. What it does is in the library.

mod cli;
mod protect;

use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use sandbox_sidecar::config::{Config, Inputs, keys};
use sandbox_sidecar::{Server, StartError, State, check, telemetry};
use sidecar_sandbox::Sandbox;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{Cli, Command, ConfigFlags};

/// Tokio's worker threads: they move bytes; what computes or blocks runs elsewhere.
const WORKERS: usize = 2;

/// Bad usage or config.
const USAGE: u8 = 64;
/// Cannot listen.
const UNAVAILABLE: u8 = 69;
/// Anything else of ours.
const SOFTWARE: u8 = 70;
/// The ceiling cannot be enforced here.
const CONFIG: u8 = 78;

/// An error with the code to exit with.
struct Failure(u8, anyhow::Error);

impl Failure {
    fn new(code: u8) -> impl Fn(anyhow::Error) -> Failure {
        move |error| Failure(code, error)
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // --help and --version come as errors too, to be printed to stdout.
            let code = if e.use_stderr() { USAGE } else { 0 };
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    let result = match cli.command {
        None => serve(cli.serve),
        Some(Command::Serve(flags)) => serve(flags),
        Some(Command::Check { json, config }) => run_check(config, json),
        Some(Command::Probe { act, path }) => check::probe(&act, &path).map_err(|e| Failure(1, e.into())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, error)) => {
            complain(&format_args!("{error:#}"));
            ExitCode::from(code)
        }
    }
}

fn load(flags: ConfigFlags) -> anyhow::Result<Config> {
    let env = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        Some((name, value))
    });
    let env: std::collections::BTreeMap<_, _> = env.collect();
    let path = flags.config.clone().or_else(|| env.get(keys::CONFIG_ENV).map(PathBuf::from));
    let file = match path {
        Some(path) => {
            let text = std::fs::read_to_string(&path);
            Some((path.clone(), text.with_context(|| format!("config file {}", path.display()))?))
        }
        None => None,
    };
    let cwd = std::env::current_dir().context("the current directory")?;
    Ok(Config::load(&Inputs { file, env, flags: flags.into_values(), cwd })?)
}

fn serve(flags: ConfigFlags) -> Result<(), Failure> {
    let config = load(flags).map_err(Failure::new(USAGE))?;
    telemetry::init(&config.log).map_err(|e| Failure(USAGE, e.into()))?;
    protect::protect_process().context("cannot protect the process").map_err(Failure::new(SOFTWARE))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.context("the runtime").map_err(Failure::new(SOFTWARE))?;
    runtime.block_on(run(config))
}

async fn run(config: Config) -> Result<(), Failure> {
    let software = Failure::new(SOFTWARE);
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM").map_err(&software)?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT").map_err(&software)?;
    let server = Server::start(config).await.map_err(|e| Failure(start_code(&e), e.into()))?;
    for addr in server.local_addrs() {
        announce(&format_args!("ws://{addr}")).context("stdout").map_err(&software)?;
    }
    let proof = tokio::task::spawn_blocking({
        let sandbox = server.sandbox().clone();
        move || check::run(&sandbox, std::env::current_exe().ok())
    });
    let report = proof.await.context("the proof that the sandbox holds").map_err(&software)?;
    if report.verdict.holds {
        tracing::info!(abi = report.kernel.abi, ceiling = report.ceiling, "ready");
        server.set_state(State::Ready);
    } else {
        tracing::error!(
            reason = report.verdict.reason,
            "NOT READY: the sandbox does not hold here; see check"
        );
        server.set_state(State::Unconfined);
    }
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("shutting down; a second signal hurries");
    tokio::select! {
        () = server.shutdown() => {}
        () = either(&mut terminate, &mut interrupt) => {
            tracing::info!("hurrying");
            server.kill().await;
        }
    }
    Ok(())
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn start_code(error: &StartError) -> u8 {
    match error {
        StartError::Listen { .. } => UNAVAILABLE,
        StartError::Auth(_) | StartError::Sandbox(sidecar_sandbox::Error::Root { .. }) => USAGE,
        StartError::Sandbox(_) => CONFIG,
        StartError::Internal(_) => SOFTWARE,
    }
}

fn run_check(flags: ConfigFlags, json: bool) -> Result<(), Failure> {
    let config = load(flags).map_err(Failure::new(USAGE))?;
    let sandbox = Sandbox::start(config.sandbox).map_err(StartError::from);
    let sandbox = sandbox.map_err(|e| Failure(start_code(&e), e.into()))?;
    let report = check::run(&sandbox, std::env::current_exe().ok());
    let printed = if json {
        announce(&format_args!("{:#}", report.to_json()))
    } else {
        announce(&format_args!("{report}"))
    };
    printed.context("stdout").map_err(Failure::new(SOFTWARE))?;
    if report.verdict.holds {
        Ok(())
    } else {
        Err(Failure(CONFIG, anyhow::anyhow!("{}", report.verdict.reason)))
    }
}

/// To stdout, at once: whoever started the sidecar waits for the line.
fn announce(text: &dyn Display) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

fn complain(text: &dyn Display) {
    // Where stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "sandbox-sidecar: {text}");
}
