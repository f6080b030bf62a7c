//! The `sandbox-sidecar` binary: flags in, exit codes out. What it does is in the library.

mod cli;
mod commands;
mod protect;

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use sandbox_sidecar::config::source::Raw;
use sandbox_sidecar::config::{AuditSink, Config, Inputs, ListenUrl, keys};
use sandbox_sidecar::{Server, StartError, State, check, orphans, telemetry};
use sidecar_sandbox::Sandbox;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{Cli, Command, ConfigFlags};
use crate::commands::run::{FAILED, Run};

/// Tokio's worker threads: they move bytes; what computes or blocks runs elsewhere. With one alone, requests beside a flood
/// take three times as long, also where there are but two processors.
const WORKERS: usize = 2;

/// How many tasks a worker polls until it looks for what has come meanwhile: requests, and answers of other threads. Tokio's own
/// number, 61, is for tasks that are done at once; one that has a frame of a flood in hand takes 50 to 100 µs.
const LOOK_EVERY: u32 = 4;

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
        Some(Command::Probe { act, target }) => {
            check::probe(&act, &target).map(|()| 0).map_err(|e| Failure(1, e.into()))
        }
        Some(Command::Connect { target, token_file, config }) => connect(target, token_file, config),
        Some(Command::Run { config, tty, verbose, argv }) => run_command(config, Run { argv, tty, verbose }),
        Some(Command::Config { json, config }) => print_config(config, json),
        Some(Command::Explain { json, config, paths }) => explain(config, paths, json),
        Some(Command::Install { destination }) => install(&destination),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Failure(code, error)) => {
            complain(&with_causes(&error));
            ExitCode::from(code)
        }
    }
}

/// The config of a command that serves nobody: it listens nowhere, and needs no token.
fn load_unserved(flags: ConfigFlags) -> anyhow::Result<Config> {
    let mut config = load_with(flags, vec![("listen", Raw::List(vec![ListenUrl::Stdio.to_string()]))])?;
    config.listen = Vec::new();
    config.admin_listen = None;
    if config.audit.sink == AuditSink::Stderr {
        config.audit.sink = AuditSink::None;
    }
    if config.settings.get("logFilter").is_none() {
        config.log.filter = String::from("warn");
    }
    Ok(config)
}

fn load(flags: ConfigFlags) -> anyhow::Result<Config> {
    load_with(flags, Vec::new())
}

fn load_with(flags: ConfigFlags, more: Vec<(&'static str, Raw)>) -> anyhow::Result<Config> {
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
    let flags = flags.into_values().into_iter().chain(more).collect();
    Ok(Config::load(&Inputs { file, env, flags, cwd })?)
}

fn serve(flags: ConfigFlags) -> Result<u8, Failure> {
    let config = load(flags).map_err(Failure::new(USAGE))?;
    telemetry::init(&config.log).map_err(|e| Failure(USAGE, e.into()))?;
    if let Some(mask) = config.umask {
        // Before any thread is started: it is the process's, and launches inherit it.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
    }
    protect::protect_process().context("cannot protect the process").map_err(Failure::new(SOFTWARE))?;
    if let Ok(program) = std::env::current_exe()
        && let Some(root) = config.write_root_of(&program)
    {
        // Not refused: a build is tried where it was made.
        tracing::warn!(
            program = %program.display(),
            root = %root.display(),
            "launches can replace this program, and what they put there is run without a sandbox at the next start; move it \
             out of what they write to"
        );
    }
    block_on(run(config)).map_err(Failure::new(SOFTWARE))??;
    Ok(0)
}

fn block_on<T>(task: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .event_interval(LOOK_EVERY)
        .global_queue_interval(LOOK_EVERY)
        .enable_all()
        .build();
    let runtime = runtime.context("the runtime")?;
    let result = runtime.block_on(task);
    // A read of stdin cannot be called off, and must not hold the exit up.
    runtime.shutdown_background();
    Ok(result)
}

async fn run(config: Config) -> Result<(), Failure> {
    let software = Failure::new(SOFTWARE);
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM").map_err(&software)?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT").map_err(&software)?;
    let mut hangup = signal(SignalKind::hangup()).context("SIGHUP").map_err(&software)?;
    let speaks_on_stdout = config.listen.contains(&ListenUrl::Stdio);
    let server = Server::start(config).await.map_err(|e| Failure(start_code(&e), e.into()))?;
    if orphans::are_ours() {
        orphans::reap(server.sandbox().clone()).context("SIGCHLD").map_err(&software)?;
    }
    for url in server.local_urls() {
        if speaks_on_stdout {
            tracing::info!("listening on {url}");
        } else {
            announce(url).context("stdout").map_err(&software)?;
        }
    }
    let proof = tokio::task::spawn_blocking({
        let sandbox = server.sandbox().clone();
        move || check::run(&sandbox, std::env::current_exe().ok())
    });
    let report = proof.await.context("the proof that the sandbox holds").map_err(&software)?;
    if report.verdict.holds {
        server.set_state(State::Ready);
        tracing::info!(abi = report.kernel.abi, ceiling = report.ceiling, "ready");
    } else {
        tracing::error!(
            reason = report.verdict.reason,
            "NOT READY: the sandbox does not hold here; see check"
        );
        server.set_state(State::Unconfined);
    }
    tokio::select! {
        () = either(&mut terminate, &mut interrupt) => {}
        () = reload_on(&mut hangup, &server) => {}
        () = server.finished() => {}
    }
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

/// Never returns: the streams of signals do not end.
async fn reload_on(hangup: &mut Signal, server: &Server) {
    while hangup.recv().await.is_some() {
        server.reload().await;
    }
}

fn start_code(error: &StartError) -> u8 {
    match error {
        StartError::Listen { .. } | StartError::Admin { .. } => UNAVAILABLE,
        StartError::Audit(_)
        | StartError::Auth(_)
        | StartError::Tls(_)
        | StartError::Sandbox(sidecar_sandbox::Error::Root { .. }) => USAGE,
        StartError::Sandbox(_) => CONFIG,
        StartError::Internal(_) => SOFTWARE,
    }
}

fn connect(
    target: Option<String>,
    token_file: Option<PathBuf>,
    config: Option<PathBuf>,
) -> Result<u8, Failure> {
    let (target, token_file) = if let Some(target) = target {
        (target, token_file)
    } else {
        let config = load(ConfigFlags::of_file(config));
        config.and_then(|config| commands::connect::own(&config)).map_err(Failure::new(USAGE))?
    };
    let joined = block_on(commands::connect::connect(&target, token_file.as_deref()));
    joined.and_then(|joined| joined).map(|()| 0).map_err(Failure::new(SOFTWARE))
}

/// Every failure of ours has the one code that is no command's.
fn run_command(flags: ConfigFlags, what: Run) -> Result<u8, Failure> {
    let ran = || -> anyhow::Result<u8> {
        let config = load_unserved(flags)?;
        telemetry::init(&config.log)?;
        protect::protect_process().context("cannot protect the process")?;
        block_on(commands::run::run(config, what))?
    };
    ran().map_err(Failure::new(FAILED))
}

fn print_config(flags: ConfigFlags, json: bool) -> Result<u8, Failure> {
    let config = load(flags).map_err(Failure::new(USAGE))?;
    let printed = if json {
        announce(&format_args!("{:#}", commands::config::to_json(&config)))
    } else {
        announce(&commands::config::text(&config).trim_end())
    };
    printed.map(|()| 0).context("stdout").map_err(Failure::new(SOFTWARE))
}

fn explain(flags: ConfigFlags, paths: Vec<PathBuf>, json: bool) -> Result<u8, Failure> {
    let config = load_unserved(flags).map_err(Failure::new(USAGE))?;
    let answer = commands::explain::explain(config, paths).map_err(Failure::new(CONFIG))?;
    let printed = if json {
        announce(&format_args!("{:#}", answer.to_json()))
    } else {
        announce(&answer.to_string().trim_end())
    };
    printed.map(|()| 0).context("stdout").map_err(Failure::new(SOFTWARE))
}

fn install(destination: &Path) -> Result<u8, Failure> {
    for file in commands::install::install(destination).map_err(Failure::new(SOFTWARE))? {
        announce(&file.display()).context("stdout").map_err(Failure::new(SOFTWARE))?;
    }
    Ok(0)
}

fn run_check(flags: ConfigFlags, json: bool) -> Result<u8, Failure> {
    let config = load_unserved(flags).map_err(Failure::new(USAGE))?;
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
        Ok(0)
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

/// The error and its causes. Errors of ours tell their cause themselves; what was said is not said again.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn complain(text: &dyn Display) {
    // Where stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "sandbox-sidecar: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Outer(#[from] std::io::Error);
        let inner = std::io::Error::other("inner");
        let error = anyhow::Error::from(Outer(inner)).context("top");
        assert_eq!(with_causes(&error), "top: outer: inner");
    }
}
