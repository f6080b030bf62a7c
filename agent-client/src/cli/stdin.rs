//! Stdin, passed on to the command as it comes.

use std::io::{self, Read as _};
use std::sync::Arc;

use agent_client::ExecProcess;
use tokio::sync::mpsc;

/// What is read at once, bytes.
const BLOCK: usize = 64 << 10;

/// VEOF of a terminal in its usual mode.
const EOT: u8 = 0x04;

/// Starts passing on. One block is read ahead, no more: what the command does not take stays where it is.
///
/// The reading is done by a thread that the process's end takes along: a blocking read of a runtime's pool would keep
/// the runtime from ending.
pub(super) fn forward(process: Arc<dyn ExecProcess>, tty: bool) -> io::Result<()> {
    let (sender, blocks) = mpsc::channel(1);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read(&sender))?;
    tokio::spawn(write(process, blocks, tty));
    Ok(())
}

fn read(sender: &mpsc::Sender<Vec<u8>>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; BLOCK];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) if sender.blocking_send(buffer[..n].to_vec()).is_err() => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                tracing::warn!("stdin cannot be read: {e}");
                return;
            }
        }
    }
}

async fn write(process: Arc<dyn ExecProcess>, mut blocks: mpsc::Receiver<Vec<u8>>, tty: bool) {
    let mut in_line = false;
    while let Some(block) = blocks.recv().await {
        in_line = block.last() != Some(&b'\n');
        if let Err(e) = process.write(&block).await {
            // Not the user's fault: a command need not read all of it, or has ended.
            tracing::debug!("stdin is not passed on any more: {e}");
            return;
        }
    }
    if tty {
        // Within a line the first one only ends the line.
        let end: &[u8] = if in_line { &[EOT, EOT] } else { &[EOT] };
        if let Err(e) = process.write(end).await {
            tracing::debug!("the end of stdin is not passed on: {e}");
        }
    }
}
