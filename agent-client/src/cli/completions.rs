//! `agent-client completions`: made from the same definition as the help.

use clap::CommandFactory as _;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  agent-client completions bash > ~/.local/share/bash-completion/completions/agent-client"
)]
pub(super) struct Args {
    /// Which shell
    shell: clap_complete::Shell,
}

pub(super) fn run(args: Args) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "agent-client", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(0)
}
