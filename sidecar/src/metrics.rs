//! What the server counts: every handle in one struct that is passed down, and the text that a scrape gets.
//!
//! Names are an interface, listed in docs/metrics.md. Labels come from closed sets only, never from ids, paths or
//! commands, and what is known at start is there as 0 from the start, so that no first event is missed.

mod cgroup;
mod grid;
mod host;
pub(crate) mod labels;
mod launches;
mod own;
mod requests;

use std::sync::Mutex;

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};
use sidecar_sandbox::{Kernel, Receipt};

use self::grid::Room;
use self::host::Host;
pub(crate) use self::launches::Launches;
use self::own::Own;
pub(crate) use self::requests::Requests;
use crate::VERSION;
use crate::config::Config;

/// The most series that one server exposes.
const MAX_SERIES: usize = 300;

/// What the source was built from; the build sets it.
const REVISION: &str = match option_env!("SANDBOX_SIDECAR_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Every metric of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) launches: Launches,
    pub(crate) requests: Requests,
    /// By what became of the event.
    pub(crate) audit_events: IntCounterVec,
    config_reloads: IntCounterVec,
    enforcement: IntGaugeVec,
    sandbox: IntGaugeVec,
    room: Room,
    /// What is looked up at each scrape; one scrape at a time.
    sampled: Mutex<(Host, Own)>,
}

impl Metrics {
    /// An error is a mistake in this module: a name that is used twice.
    pub(crate) fn new(config: &Config) -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let room = Room::default();
        let build = gauges(&registry, "build_info", "The version that runs", &["version", "revision"])?;
        build.with_label_values(&[VERSION, REVISION]).set(1);
        let audit_events =
            counters(&registry, "audit_events_total", "Audit events by what became of them", &["outcome"])?;
        known(&audit_events, labels::AUDIT_OUTCOMES);
        let config_reloads =
            counters(&registry, "config_reloads_total", "Reloads on SIGHUP by outcome", &["outcome"])?;
        known(&config_reloads, labels::RELOAD_OUTCOMES);
        Ok(Metrics {
            launches: Launches::new(&registry, &config.sandbox)?,
            requests: Requests::new(&registry, config.metrics, &room)?,
            audit_events,
            config_reloads,
            enforcement: gauges(
                &registry,
                "enforcement_part",
                "How far the default policy is enforced, part by part",
                &["part", "state"],
            )?,
            sandbox: gauges(
                &registry,
                "sandbox_info",
                "The Landlock ABI in use and the default profile",
                &["landlock_abi", "profile"],
            )?,
            sampled: Mutex::new((
                Host::new(&registry, &config.memory_watch.cgroup, config.workspace_root())?,
                Own::new(&registry)?,
            )),
            room,
            registry,
        })
    }

    /// Tells what the kernel enforces; `None` where it can enforce nothing. To be called once.
    pub(crate) fn describe(&self, kernel: &Kernel, profile: &str, receipt: Option<&Receipt>) {
        self.sandbox.with_label_values(&[kernel.abi.to_string().as_str(), profile]).set(1);
        for (part, state) in receipt.into_iter().flat_map(|receipt| &receipt.parts) {
            // `full` is always there, so that an alert has something to look at.
            self.enforcement.with_label_values(&[*part, "full"]).set(0);
            self.enforcement.with_label_values(&[*part, state.name()]).set(1);
        }
        self.sample();
        self.room.set(MAX_SERIES.saturating_sub(self.series()));
    }

    pub(crate) fn reloaded(&self, well: bool) {
        self.config_reloads.with_label_values(&[if well { "ok" } else { "failed" }]).inc();
    }

    /// Everything in the text format. Blocking: it looks at the file system.
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        self.sample();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn sample(&self) {
        let mut sampled = self.sampled.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (host, own) = &mut *sampled;
        host.sample(self.launches.oom_exits());
        own.sample();
    }

    fn series(&self) -> usize {
        let of = |metric: &prometheus::proto::Metric| match metric.get_histogram().get_bucket().len() {
            0 => 1,
            // The bucket without a bound, the sum and the count.
            buckets => buckets + 3,
        };
        self.registry.gather().iter().flat_map(|family| family.get_metric()).map(of).sum()
    }
}

/// Counts for as long as it is held.
#[derive(Debug)]
pub(crate) struct Counted(IntGauge);

impl Counted {
    fn new(gauge: &IntGauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("sidecar")
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let family = IntCounterVec::new(opts(name, help), labels)?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

fn gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
    let family = IntGaugeVec::new(opts(name, help), labels)?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

/// There from the start, as 0.
fn known(family: &IntCounterVec, values: &[&str]) {
    for value in values {
        family.with_label_values(&[*value]);
    }
}
