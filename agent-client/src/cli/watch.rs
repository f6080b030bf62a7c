//! `agent-client watch`: what changes below a directory, as it happens.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use serde_json::json;

use super::connection::Connection;
use super::place::{self, Place};
use super::table;
use super::{report, session};

/// Print what changes below a directory of the sidecar's side, until Ctrl-C.
///
/// One path per line. Where more has changed than the server could name, that is told on stderr: look at everything again
/// then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agent-client watch src")]
pub(super) struct Args {
    /// Directory there, with or without a `:` in front [default: counterpart of the current directory]
    #[arg(value_name = "DIR", default_value = "")]
    directory: OsString,
    /// Print each batch of changes as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    session::with(&config, async |environment| {
        let directory = place::absolute(environment, &Place::remote(&args.directory))?;
        let mut changes = environment.files().unmapped().watch(&directory).await?;
        report::say(&format!("watching {}", directory.display()));
        loop {
            let change = changes.recv().await?;
            if args.json {
                table::json(&json!({ "paths": lossy(&change.paths), "overflow": change.overflow }))?;
                continue;
            }
            let mut out = io::stdout().lock();
            for path in &change.paths {
                table::name_line(&mut out, path.as_os_str().as_bytes())?;
            }
            out.flush()?;
            if change.overflow {
                report::say("more has changed than could be named");
            }
        }
    })
    .await
}

fn lossy(paths: &BTreeSet<PathBuf>) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}
