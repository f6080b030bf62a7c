//! Stdin, passed on to the command as it comes.

use std::io::{self, Read as _};
use std::sync::Arc;

use agent_client::ExecProcess;
use tokio::sync::mpsc;

/// What is read at once, bytes.
const BLOCK: usize = 64 << 10;

/// Starts passing on. One block is read ahead, no more: what the command does not take stays where it is.
///
/// The reading is done by a thread that the process's end takes along: a blocking read of a runtime's pool would keep
/// the runtime from ending.
pub(super) fn forward(process: Arc<dyn ExecProcess>) -> io::Result<()> {
    let (sender, blocks) = mpsc::channel(1);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read(&sender))?;
    tokio::spawn(write(process, blocks));
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

async fn write(process: Arc<dyn ExecProcess>, mut blocks: mpsc::Receiver<Vec<u8>>) {
    while let Some(block) = blocks.recv().await {
        if let Err(e) = process.write(&block).await {
            // Not the user's fault: a command need not read all of it, or has ended.
            tracing::debug!("stdin is not passed on any more: {e}");
            return;
        }
    }
    if let Err(e) = process.close_stdin().await {
        tracing::debug!("the end of stdin is not passed on: {e}");
    }
}
