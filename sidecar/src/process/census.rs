//! Counts the processes of a tree that has a limit on them, and has it ended where there are more.
//!
//! RLIMIT_NPROC would count the user's processes on the whole node. Between two looks a tree may have more than its
//! limit: it is a guard against runaways, not an exact bound.

use std::sync::Arc;
use std::time::Duration;

use sidecar_protocol::process::Cause;
use sidecar_sandbox::Tree;
use tokio::time::MissedTickBehavior;

use super::{Order, Process};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(250);

/// Returns when the tree is gone.
pub(super) async fn watch(process: Arc<Process>, tree: Tree, most: u64) {
    let mut looks = tokio::time::interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = process.tree_gone() => return,
            _ = looks.tick() => {}
        }
        let Ok(count) = tokio::task::spawn_blocking(move || tree.processes().len()).await else { return };
        if count as u64 > most {
            tracing::info!(process = process.id(), count, most, "limits.processes is exceeded");
            process.order(Order::Kill(Cause::Limit));
        }
    }
}
