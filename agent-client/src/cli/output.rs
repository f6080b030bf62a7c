//! The command's output, to where it belongs, until the command has ended and all of it is out.

use std::io;
use std::sync::Arc;

use agent_client::protocol::process::Stream;
use agent_client::{Event, Events, ExecProcess, Exit};
use anyhow::{Context as _, bail};
use tokio::io::{AsyncWrite, AsyncWriteExt as _, stderr, stdout};

use super::signals;

/// Writes out what comes and returns how the command ended. Where nobody reads the output any more, the command is
/// ended, as a broken pipe would have ended it here.
pub(super) async fn deliver(mut events: Events, process: &Arc<dyn ExecProcess>) -> anyhow::Result<Exit> {
    let (mut stdout, mut stderr) = (stdout(), stderr());
    let mut end = None;
    let mut unread = false;
    while let Some(event) = events.recv().await {
        match event {
            Event::Output { .. } if unread => {}
            Event::Output { stream, bytes, .. } => {
                let written = match stream {
                    Stream::Stdout | Stream::Pty => write(&mut stdout, &bytes).await,
                    Stream::Stderr => write(&mut stderr, &bytes).await,
                };
                match written {
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                        unread = true;
                        signals::terminate(process);
                    }
                    written => written.with_context(|| format!("cannot write the {}", stream.name()))?,
                }
            }
            Event::Exited(exit) => end = Some(exit),
            Event::Closed => break,
            Event::Failed { reason } => bail!("{reason}; how the command ended is not known"),
        }
    }
    end.context("the server closed the command without an exit code")
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}
