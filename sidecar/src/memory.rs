//! The guard against the container's memory limit: near it, the largest launch is ended.
//!
//! A kubelet sets memory.oom.group on cgroup v2, so the kernel's own killer would take the whole container down, the
//! server with it. This looks again and again, at an interval from the config, and ends one launch at a time.

mod cgroup;

use std::sync::Arc;
use std::time::Duration;

use sidecar_protocol::process::Cause;
use tokio::time::MissedTickBehavior;

use self::cgroup::Cgroup;
use crate::process::{Order, Process};
use crate::server::Shared;

/// How long an ended tree may take to give its memory back before the next look.
const RELIEF: Duration = Duration::from_secs(2);

/// Returns when the server stops; at once where there is no limit to guard.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let config = &shared.config.memory_watch;
    if config.percent == 0 {
        return;
    }
    let Some(cgroup) = Cgroup::find(&config.cgroup) else {
        tracing::debug!(cgroup = %config.cgroup.display(), "no memory limit to guard");
        return;
    };
    let mut looks = tokio::time::interval(config.interval);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            _ = looks.tick() => {}
        }
        if is_near(&cgroup, config.percent)
            && let Some((process, bytes)) = largest(&shared).await
        {
            tracing::warn!(
                process = process.id(),
                bytes,
                "the container is short of memory: ending the largest launch"
            );
            process.order(Order::Kill(Cause::Oom));
            let _ = tokio::time::timeout(RELIEF, process.tree_gone()).await;
        }
    }
}

/// A few bytes of a pseudo file system: reading them waits for nothing.
fn is_near(cgroup: &Cgroup, percent: u8) -> bool {
    cgroup
        .read()
        .is_some_and(|usage| u128::from(usage.used) * 100 >= u128::from(usage.limit) * u128::from(percent))
}

/// The launch whose tree has the largest share of memory.
async fn largest(shared: &Shared) -> Option<(Arc<Process>, u64)> {
    let launches: Vec<_> =
        shared.sessions.processes().into_iter().filter_map(|p| p.tree().map(|tree| (p, tree))).collect();
    let measure = move || {
        let sizes = launches.into_iter().map(|(process, tree)| {
            let bytes = tree.processes().into_iter().filter_map(cgroup::share).sum();
            (process, bytes)
        });
        sizes.max_by_key(|(_, bytes)| *bytes)
    };
    // Looks through /proc.
    tokio::task::spawn_blocking(measure).await.ok().flatten()
}
