//! The duty of a PID 1, or of a subreaper: orphans that come to this process are reaped, launches keep their exits.

use nix::sys::prctl;
use sidecar_sandbox::Sandbox;
use tokio::signal::unix::{SignalKind, signal};

/// Whether orphans come to this process.
pub fn are_ours() -> bool {
    std::process::id() == 1 || prctl::get_child_subreaper().unwrap_or(false)
}

/// Reaps after each SIGCHLD, for as long as the runtime lives. Must be called within it.
///
/// # Errors
/// The signal cannot be listened to.
pub fn reap(sandbox: Sandbox) -> std::io::Result<()> {
    let mut ended = signal(SignalKind::child())?;
    tokio::spawn(async move {
        loop {
            let sandbox = sandbox.clone();
            // Signals that come meanwhile are one signal: each look finds all who have ended before it.
            let reaped = tokio::task::spawn_blocking(move || sandbox.reap_orphans()).await;
            if let Ok(count @ 1..) = reaped {
                tracing::debug!(count, "reaped orphans");
            }
            if ended.recv().await.is_none() {
                return;
            }
        }
    });
    Ok(())
}
