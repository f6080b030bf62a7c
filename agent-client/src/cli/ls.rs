//! `agent-client ls`: a directory, byte for byte.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use agent_client::Filesystem;
use agent_client::filesystem::entry::{Kind, TreeDetails, TreeEntry, word};
use agent_client::protocol::fs::WalkOptions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::connection::Connection;
use super::place::{self, Place};
use super::table::{self, Table, harmless};
use super::{report, session};

/// List a directory of the sidecar's side.
///
/// On a terminal, control characters in names are escaped; elsewhere names come byte for byte, one per line.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agent-client ls src\n  agent-client ls -la\n  agent-client ls --json :/usr/lib"
)]
pub(super) struct Args {
    /// Directory or file there, with or without a `:` in front [default: counterpart of the current directory]
    #[arg(value_name = "PATH", default_value = "")]
    path: OsString,
    /// Mode, size, time of the last change, and where a symlink points
    #[arg(short, long)]
    long: bool,
    /// Names that start with a dot too
    #[arg(short, long)]
    all: bool,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    kind: &'static str,
    #[serde(flatten)]
    details: Option<TreeDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symlink_target: Option<String>,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    session::with(&config, async |environment| {
        let files = environment.files().unmapped();
        let path = place::absolute(environment, &Place::remote(&args.path))?;
        let (entries, is_complete) = entries(&files, &path).await?;
        let is_shown =
            |entry: &&TreeEntry| args.all || args.json || !name(entry).as_bytes().starts_with(b".");
        let entries: Vec<&TreeEntry> = entries.iter().filter(is_shown).collect();
        if args.json {
            table::json(&entries.iter().map(|entry| row(entry)).collect::<Vec<_>>())?;
        } else if args.long {
            let mut table = Table::default();
            entries.iter().for_each(|entry| table.row(long(entry)));
            table.print()?;
        } else {
            let mut out = io::stdout().lock();
            for entry in entries {
                table::name_line(&mut out, name(entry).as_bytes())?;
            }
            out.flush()?;
        }
        if !is_complete {
            report::say(&format!("{} has more entries than the server lists in one answer", path.display()));
            return Ok(super::exit::PARTIAL);
        }
        Ok(0)
    })
    .await
}

/// The entries of a directory, sorted; a file is its own entry.
async fn entries(files: &Filesystem, path: &Path) -> anyhow::Result<(Vec<TreeEntry>, bool)> {
    let metadata = files.metadata(path).await?;
    if !metadata.is_directory {
        let kind = if metadata.is_file { Kind::File } else { Kind::Other };
        let details = TreeDetails {
            size: metadata.size,
            modified_at_ms: metadata.modified_at_ms,
            mode: metadata.mode,
            symlink_target: None,
        };
        return Ok((vec![TreeEntry { path: path.to_owned(), kind, details: Some(details) }], true));
    }
    let options = WalkOptions { max_depth: Some(1), details: Some(true), ..WalkOptions::default() };
    let mut tree = files.walk(path, options).await?;
    tree.entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((tree.entries, !tree.truncated))
}

fn name(entry: &TreeEntry) -> &OsStr {
    entry.path.file_name().unwrap_or(entry.path.as_os_str())
}

fn target(entry: &TreeEntry) -> Option<&PathBuf> {
    entry.details.as_ref().and_then(|details| details.symlink_target.as_ref())
}

fn row(entry: &TreeEntry) -> Row {
    let name = name(entry);
    Row {
        name: name.to_string_lossy().into_owned(),
        name_base64: name.to_str().is_none().then(|| STANDARD.encode(name.as_bytes())),
        kind: match entry.kind {
            Kind::Other => "other",
            kind => word(kind),
        },
        details: entry.details.clone(),
        symlink_target: target(entry).map(|target| target.to_string_lossy().into_owned()),
    }
}

fn long(entry: &TreeEntry) -> Vec<String> {
    let kind = match entry.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Other => '?',
    };
    let mut name = harmless(&name(entry).to_string_lossy());
    if let Some(target) = target(entry) {
        name += &format!(" -> {}", harmless(&target.to_string_lossy()));
    }
    match &entry.details {
        Some(TreeDetails { size, modified_at_ms, mode, .. }) => {
            vec![format!("{kind}{}", bits(*mode)), format!("{size:>10}"), table::time(*modified_at_ms), name]
        }
        None => vec![format!("{kind}?????????"), format!("{:>10}", "?"), "?".to_owned(), name],
    }
}

fn bits(mode: u32) -> String {
    (0..9).rev().map(|bit| if mode >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_bits() {
        assert_eq!(bits(0o754), "rwxr-xr--");
        assert_eq!(bits(0o100_640), "rw-r-----");
    }
}
