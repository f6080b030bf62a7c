//! The command line: flags, logging, exit codes. A command's work is in its own module, and what an agent could want
//! too is in the library.

mod capture;
mod cat;
mod completions;
mod config;
mod connection;
mod cp;
mod doctor;
mod exec;
mod exit;
mod gateway;
mod kill;
mod ls;
mod mcp;
mod output;
mod place;
mod progress;
mod ps;
mod report;
mod session;
mod sh;
mod shell;
mod signals;
mod status;
mod stdin;
mod sync;
mod table;
mod terminal;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Runs commands in a sandbox sidecar: one at a URL, or one embedded in this process.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  agent-client exec -- cargo test\n\n\
        Without --sidecar-url (or sidecar_url in agent-client.toml) an embedded sidecar runs the command under the \
        same sandbox."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print the sandbox's receipt, and log, to stderr; RUST_LOG chooses what is logged.
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Exec(exec::Args),
    Gateway(gateway::Args),
    Mcp(mcp::Args),
    Shell(shell::Args),
    Sh(sh::Args),
    Cp(cp::Args),
    Push(sync::PushArgs),
    Pull(sync::PullArgs),
    Ls(ls::Args),
    Cat(cat::Args),
    Watch(watch::Args),
    Ps(ps::Args),
    Kill(kill::Args),
    Status(status::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Completions(completions::Args),
}

/// Parses the arguments, runs the command, and tells a failure.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are asked for; anything else is a failure of ours, not the code 2 of a command.
            let code = if e.use_stderr() { exit::OWN_FAILURE } else { 0 };
            return if e.print().is_ok() { code.into() } else { exit::OWN_FAILURE.into() };
        }
    };
    init_logging(cli.verbose);
    let code = run(cli).unwrap_or_else(|e| {
        report::failure(&e);
        exit::code_of(&e)
    });
    code.into()
}

fn run(cli: Cli) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Exec(args) => exec::run(args, cli.verbose).await,
            Command::Gateway(args) => gateway::run(args).await,
            Command::Mcp(args) => mcp::run(args).await,
            Command::Sh(args) => sh::run(args).await,
            Command::Shell(args) => shell::run(args, cli.verbose).await,
            Command::Cp(args) => cp::run(args).await,
            Command::Push(args) => sync::push(args).await,
            Command::Pull(args) => sync::pull(args).await,
            Command::Ls(args) => ls::run(args).await,
            Command::Cat(args) => cat::run(args).await,
            Command::Watch(args) => watch::run(args).await,
            Command::Ps(args) => ps::run(args).await,
            Command::Kill(args) => kill::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Config(args) => config::run(args),
            Command::Completions(args) => completions::run(args),
        }
    });
    // A write to a stdout that nobody reads must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// To stderr, and only where asked for: stderr is the command's.
fn init_logging(verbose: bool) {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(filter) if !filter.is_empty() => EnvFilter::new(filter),
        _ if verbose => EnvFilter::new("warn,agent_client=info"),
        _ => return,
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
