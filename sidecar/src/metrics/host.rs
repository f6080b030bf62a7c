//! What is looked up at each scrape: the container's memory, the room in the workspace.

use std::path::{Path, PathBuf};

use prometheus::{Gauge, IntCounter, IntGauge, Registry};

use super::cgroup::Memory;
use super::opts;

/// The handles, and where to look.
#[derive(Debug)]
pub(super) struct Host {
    group: Option<Memory>,
    workspace: PathBuf,
    memory: Gauge,
    limit: Gauge,
    oom_kills: IntCounter,
    free: IntGauge,
    size: IntGauge,
}

impl Host {
    pub(super) fn new(registry: &Registry, cgroup: &Path, workspace: &Path) -> prometheus::Result<Host> {
        let host = Host {
            group: Memory::find(cgroup),
            workspace: workspace.to_owned(),
            memory: Gauge::with_opts(opts("memory_bytes", "Memory that the container uses"))?,
            limit: Gauge::with_opts(opts("memory_limit_bytes", "Memory that the container may use"))?,
            oom_kills: IntCounter::with_opts(opts(
                "oom_kills_total",
                "Processes of the container that the kernel ended for lack of memory",
            ))?,
            free: IntGauge::with_opts(opts("workspace_free_bytes", "Free space for the workspace"))?,
            size: IntGauge::with_opts(opts("workspace_size_bytes", "Size of the workspace's file system"))?,
        };
        registry.register(Box::new(host.memory.clone()))?;
        registry.register(Box::new(host.limit.clone()))?;
        registry.register(Box::new(host.oom_kills.clone()))?;
        registry.register(Box::new(host.free.clone()))?;
        registry.register(Box::new(host.size.clone()))?;
        Ok(host)
    }

    /// `own` is what the server itself counted; the kernel's number stands where there is one.
    pub(super) fn sample(&self, own: u64) {
        let group = self.group.as_ref();
        // NaN: unknown. No limit is an infinite one.
        self.memory.set(group.and_then(Memory::usage).map_or(f64::NAN, float));
        self.limit.set(group.and_then(Memory::limit).map_or(f64::INFINITY, float));
        let kills = group.and_then(Memory::oom_kills).unwrap_or(own);
        self.oom_kills.inc_by(kills.saturating_sub(self.oom_kills.get()));
        if let Ok(stat) = rustix::fs::statvfs(&self.workspace) {
            let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
            self.free.set(bytes(stat.f_bavail));
            // Without what is kept for root: a full disk has nothing free of it.
            self.size.set(bytes(stat.f_blocks.saturating_sub(stat.f_bfree).saturating_add(stat.f_bavail)));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}
