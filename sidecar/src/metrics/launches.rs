//! What is counted of launches: how they start, what they say, how they end.

use std::time::Duration;

use prometheus::{Counter, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Registry};
use sidecar_protocol::RpcError;
use sidecar_protocol::process::{Cause, Stream};
use sidecar_sandbox::{CUSTOM, Options};

use super::{Counted, counters, gauges, labels, opts};

/// From the request to the exec.
const LAUNCH_SECONDS: [f64; 9] = [0.000_25, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

/// From the exec to the exit.
const LIFETIME_SECONDS: [f64; 5] = [0.1, 1.0, 10.0, 60.0, 600.0];

/// The handles.
#[derive(Debug)]
pub(crate) struct Launches {
    launches: IntCounterVec,
    profiles: Vec<String>,
    duration: HistogramVec,
    failures: IntCounterVec,
    lifetime: HistogramVec,
    exits: IntCounterVec,
    denials: IntCounterVec,
    running: IntGaugeVec,
    output: [IntCounter; labels::STREAMS.len()],
    dropped: IntCounter,
    backpressure: Counter,
    orphans: IntCounter,
}

impl Launches {
    pub(super) fn new(registry: &Registry, sandbox: &Options) -> prometheus::Result<Launches> {
        let by = |name, help, labels: &[&str]| counters(registry, name, help, labels);
        let output = by("output_bytes_total", "Bytes that commands wrote", &["stream"])?;
        let launches = Launches {
            launches: by(
                "launches_total",
                "Requests to start a command, by what became of them",
                &["tty", "profile", "outcome"],
            )?,
            profiles: sandbox
                .offered()
                .map(|profile| profile.name().to_owned())
                .chain([CUSTOM.to_owned()])
                .collect(),
            duration: histogram(
                registry,
                "launch_duration_seconds",
                "From the request to the exec",
                &LAUNCH_SECONDS,
            )?,
            failures: by(
                "launch_failures_total",
                "Commands that did not start, by the reason",
                &["tty", "reason"],
            )?,
            lifetime: histogram(
                registry,
                "process_lifetime_seconds",
                "From the exec to the exit",
                &LIFETIME_SECONDS,
            )?,
            exits: by("process_exits_total", "Commands that ended, by the cause", &["tty", "cause"])?,
            denials: by("suspected_denials_total", "Commands that failed and spoke of a denial", &["tty"])?,
            running: gauges(registry, "processes", "Commands that run", &["tty"])?,
            output: std::array::from_fn(|stream| output.with_label_values(&[labels::STREAMS[stream]])),
            dropped: counter(
                registry,
                "output_dropped_bytes_total",
                "Output that is no longer retained for process/read",
            )?,
            backpressure: Counter::with_opts(opts(
                "backpressure_seconds_total",
                "Time that output waited for a connection to take it",
            ))?,
            orphans: counter(
                registry,
                "orphans_killed_total",
                "Background processes that were ended after their command",
            )?,
        };
        registry.register(Box::new(launches.backpressure.clone()))?;
        launches.start_at_zero();
        Ok(launches)
    }

    fn start_at_zero(&self) {
        for tty in [false, true].map(labels::tty) {
            for profile in &self.profiles {
                for outcome in labels::OUTCOMES {
                    self.launches.with_label_values(&[tty, profile.as_str(), *outcome]);
                }
            }
            for reason in labels::LAUNCH_REASONS {
                self.failures.with_label_values(&[tty, *reason]);
            }
            for cause in Cause::ALL.map(Cause::name) {
                self.exits.with_label_values(&[tty, cause]);
            }
            self.denials.with_label_values(&[tty]);
            self.running.with_label_values(&[tty]);
            self.duration.with_label_values(&[tty]);
            self.lifetime.with_label_values(&[tty]);
        }
    }

    /// A command started, that long after its request.
    pub(crate) fn started(&self, tty: bool, profile: &str, after: Duration) -> Counted {
        let tty = labels::tty(tty);
        self.launches.with_label_values(&[tty, self.profile(profile), "started"]).inc();
        self.duration.with_label_values(&[tty]).observe(after.as_secs_f64());
        Counted::new(&self.running.with_label_values(&[tty]))
    }

    /// A command did not start.
    pub(crate) fn failed(&self, tty: bool, profile: &str, error: &RpcError) {
        let (outcome, reason) = labels::launch(error);
        let tty = labels::tty(tty);
        self.launches.with_label_values(&[tty, self.profile(profile), outcome]).inc();
        self.failures.with_label_values(&[tty, reason]).inc();
    }

    /// A command ended.
    pub(crate) fn exited(&self, tty: bool, cause: Cause, lifetime: Duration, denied: bool) {
        let tty = labels::tty(tty);
        self.exits.with_label_values(&[tty, cause.name()]).inc();
        self.lifetime.with_label_values(&[tty]).observe(lifetime.as_secs_f64());
        if denied {
            self.denials.with_label_values(&[tty]).inc();
        }
    }

    /// A command wrote.
    pub(crate) fn output(&self, stream: Stream, bytes: u64) {
        self.output[stream as usize].inc_by(bytes);
    }

    /// Output went out of the ring.
    pub(crate) fn dropped(&self, bytes: u64) {
        self.dropped.inc_by(bytes);
    }

    /// Output waited to be sent.
    pub(crate) fn waited(&self, time: Duration) {
        self.backpressure.inc_by(time.as_secs_f64());
    }

    /// Background processes are being ended.
    pub(crate) fn orphans(&self, count: usize) {
        self.orphans.inc_by(count as u64);
    }

    /// Commands that the server itself took for victims of a lack of memory.
    pub(super) fn oom_exits(&self) -> u64 {
        let of = |tty| self.exits.with_label_values(&[labels::tty(tty), Cause::Oom.name()]).get();
        of(false) + of(true)
    }

    fn profile(&self, name: &str) -> &str {
        self.profiles.iter().find(|profile| *profile == name).map_or(CUSTOM, String::as_str)
    }
}

fn counter(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::with_opts(opts(name, help))?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn histogram(
    registry: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
) -> prometheus::Result<HistogramVec> {
    let opts = HistogramOpts { common_opts: opts(name, help), buckets: buckets.to_vec() };
    let family = HistogramVec::new(opts, &["tty"])?;
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}
