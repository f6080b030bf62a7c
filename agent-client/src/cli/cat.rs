//! `agent-client cat`: files, block by block.

use std::ffi::OsString;
use std::io;

use futures_util::TryStreamExt as _;
use tokio::io::AsyncWriteExt as _;

use super::connection::Connection;
use super::place::{self, Place};
use super::session;

/// Print files of the sidecar's side.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agent-client cat src/main.rs :/etc/os-release")]
pub(super) struct Args {
    /// Files there; relative to the counterpart of the current directory, with or without a `:` in front
    #[arg(required = true, value_name = "FILE")]
    files: Vec<OsString>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    session::with(&config, async |environment| {
        let files = environment.files().unmapped();
        let mut stdout = tokio::io::stdout();
        for argument in &args.files {
            let reader = files.open(&place::absolute(environment, &Place::remote(argument))?).await?;
            {
                let mut blocks = std::pin::pin!(reader.blocks());
                while let Some(block) = blocks.try_next().await? {
                    match stdout.write_all(&block).await {
                        // Whoever reads has seen enough.
                        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
                        written => written?,
                    }
                }
            }
            reader.close().await?;
        }
        stdout.flush().await?;
        Ok(0)
    })
    .await
}
