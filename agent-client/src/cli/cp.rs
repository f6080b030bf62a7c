//! `agent-client cp`: a file or a tree, from one side to the other.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use agent_client::protocol::error::NOT_FOUND;
use agent_client::transfer::{self, Direction, Options, Pair};
use agent_client::{Environment, Error, Filesystem};
use anyhow::{Context as _, bail};

use super::connection::Connection;
use super::place::{self, Place};
use super::progress::{self, Progress};
use super::session;

/// Copy a file or a tree to the sidecar's side, from there, or within it.
///
/// A path with a `:` in front is on the sidecar's side; a relative one starts from the counterpart of the current
/// directory. Where DST is a directory, SRC is copied into it. With a `/` at its end, SRC means what is in the directory,
/// so that the same command again leads to the same place.
///
/// Symlinks and modes are kept. A file takes its name when all of it is there. Files of the same size, time and mode are
/// passed over: a copy that was interrupted goes on where it was when it is repeated. FIFOs, sockets, devices and what
/// cannot be read are skipped and told; the exit code is 1 then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        agent-client cp notes.txt :notes.txt\n  \
        agent-client cp :target/release/app /usr/local/bin/\n  \
        agent-client cp -n fixtures/ :tests/fixtures")]
pub(super) struct Args {
    /// What to copy
    #[arg(value_name = "SRC")]
    source: OsString,
    /// Where to
    #[arg(value_name = "DST")]
    destination: OsString,
    /// Change nothing; print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    let (source, destination) = (Place::parse(&args.source), Place::parse(&args.destination));
    if let (Place::Local(_), Place::Local(_)) = (&source, &destination) {
        bail!("both paths are here; put a `:` in front of the one on the sidecar's side");
    }
    let options = Options { dry_run: args.dry_run, ..Options::default() };
    session::with(&config, async |environment| {
        let files = environment.files().unmapped();
        let (pair, direction) = match (&source, &destination) {
            (Place::Local(from), destination) => {
                let Place::Remote(to) = destination else { bail!("both paths are here") };
                let local = place::here()?.join(from);
                let remote = into(&files, place::absolute(environment, to)?, ends_in_slash(to), from).await?;
                (Pair { local, remote, above: Vec::new() }, Direction::Push)
            }
            (Place::Remote(from), Place::Local(to)) => {
                let remote = place::absolute(environment, from)?;
                let local = into_local(place::here()?.join(to), ends_in_slash(to), from)?;
                (Pair { local, remote, above: Vec::new() }, Direction::Pull)
            }
            (Place::Remote(from), Place::Remote(to)) => {
                return within(environment, &files, from, to, args.dry_run).await;
            }
        };
        let progress = Progress::new();
        let outcome = transfer::transfer(&files, &pair, direction, options, &progress).await?;
        drop(progress);
        progress::tell(&outcome, args.json, args.dry_run)
    })
    .await
}

async fn within(
    environment: &Environment,
    files: &Filesystem,
    from: &Path,
    to: &Path,
    dry_run: bool,
) -> anyhow::Result<u8> {
    let source = place::absolute(environment, from)?;
    let destination = into(files, place::absolute(environment, to)?, ends_in_slash(to), from).await?;
    if dry_run {
        println!("copy {} {}", source.display(), destination.display());
    } else {
        files.copy(&source, &destination, true).await?;
    }
    Ok(0)
}

/// The destination itself: a name in it where it is a directory.
async fn into(files: &Filesystem, to: PathBuf, is_directory: bool, from: &Path) -> anyhow::Result<PathBuf> {
    match files.metadata(&to).await {
        Ok(metadata) if metadata.is_directory => Ok(with_name(to, from)),
        Err(Error::Rpc { error, .. }) if error.code == NOT_FOUND => missing(to, is_directory),
        Ok(_) if is_directory => bail!("{} is no directory", to.display()),
        Ok(_) => Ok(to),
        Err(error) => Err(error.into()),
    }
}

fn into_local(to: PathBuf, is_directory: bool, from: &Path) -> anyhow::Result<PathBuf> {
    match std::fs::metadata(&to) {
        Ok(metadata) if metadata.is_dir() => Ok(with_name(to, from)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => missing(to, is_directory),
        Ok(_) if is_directory => bail!("{} is no directory", to.display()),
        Ok(_) => Ok(to),
        Err(error) => Err(error).with_context(|| to.display().to_string()),
    }
}

fn missing(to: PathBuf, is_directory: bool) -> anyhow::Result<PathBuf> {
    if is_directory {
        bail!("{} does not exist; without the / at its end it would be the copy's name", to.display());
    }
    Ok(to)
}

fn with_name(directory: PathBuf, from: &Path) -> PathBuf {
    let is_content =
        from.as_os_str().is_empty() || from.as_os_str() == "." || ends_in(from, "/") || ends_in(from, "/.");
    match from.file_name().filter(|_| !is_content) {
        Some(name) => directory.join(name),
        None => directory,
    }
}

fn ends_in_slash(path: &Path) -> bool {
    ends_in(path, "/")
}

fn ends_in(path: &Path, end: &str) -> bool {
    OsStr::as_encoded_bytes(path.as_os_str()).ends_with(end.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn into_a_directory() {
        for (from, to) in [
            ("a", "/d/a"),
            ("x/a/", "/d"),
            ("x/a", "/d/a"),
            (".", "/d"),
            ("", "/d"),
            ("x/.", "/d"),
            ("..", "/d"),
        ] {
            assert_eq!(with_name(PathBuf::from("/d"), Path::new(from)), Path::new(to), "{from}");
        }
    }
}
