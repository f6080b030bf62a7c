//! `agent-client push` and `pull`: the workspace out and back.

use std::path::PathBuf;

use agent_client::config::Config;
use agent_client::transfer::{self, Direction, Options, Pair};
use anyhow::bail;

use super::connection::Connection;
use super::place;
use super::progress::{self, Progress};
use super::session;

/// Make the workspace on the sidecar's side what the local root is.
///
/// Left out are `.git` and what `.gitignore` files say. Only what differs in size, time or mode is sent, so a push that
/// was interrupted goes on where it was when it is repeated. What cannot be sent is skipped and told; the exit code is 1
/// then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agent-client push\n  agent-client push --delete -n src")]
pub(super) struct PushArgs {
    #[command(flatten)]
    what: What,
}

/// Make the local root what the workspace on the sidecar's side is.
///
/// Left out are `.git`, for git here would run the hooks in it, and what the `.gitignore` files over there say. Only what
/// differs in size, time or mode is fetched, so a pull that was interrupted goes on where it was when it is repeated. What
/// cannot be fetched is skipped and told; the exit code is 1 then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agent-client pull\n  agent-client pull --delete -n src")]
pub(super) struct PullArgs {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, clap::Args)]
struct What {
    /// Directory here, below the local root [default: the local root]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Leave nothing out: .git and ignored files too
    #[arg(long)]
    all: bool,
    /// Remove from the destination what the source does not have; what is left out stays
    #[arg(long)]
    delete: bool,
    /// Change nothing; print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn push(args: PushArgs) -> anyhow::Result<u8> {
    run(args.what, Direction::Push).await
}

pub(super) async fn pull(args: PullArgs) -> anyhow::Result<u8> {
    run(args.what, Direction::Pull).await
}

async fn run(what: What, direction: Direction) -> anyhow::Result<u8> {
    let config = what.connection.config()?;
    if config.elsewhere().is_none() {
        bail!(
            "the embedded sidecar's workspace is the local root itself; set sidecar_url or kube to a sidecar elsewhere"
        );
    }
    let local = match what.directory {
        Some(directory) => place::here()?.join(directory),
        None => config.local_root.clone(),
    };
    let options = Options { ignore: !what.all, delete: what.delete, dry_run: what.dry_run };
    session::with(&config, async |environment| {
        let remote = environment.mapping().to_workspace(&local)?;
        let pair = Pair { above: above(&config, &local), local, remote };
        let progress = Progress::new();
        let outcome = transfer::transfer(&environment.files(), &pair, direction, options, &progress).await?;
        drop(progress);
        progress::tell(&outcome, what.json, true)
    })
    .await
}

/// The directories from the local root down to the one that holds `local`: what their rules leave out stays out.
fn above(config: &Config, local: &std::path::Path) -> Vec<PathBuf> {
    let ancestors = local.ancestors().skip(1).take_while(|dir| dir.starts_with(&config.local_root));
    let mut above: Vec<PathBuf> = ancestors.map(PathBuf::from).collect();
    above.reverse();
    above
}
