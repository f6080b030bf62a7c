//! What the client counts: every handle in one struct that is passed down.
//!
//! Names are an interface, listed in docs/agent-client.md. Labels come from closed sets only, never from ids, paths or
//! commands, and what is known at start is there as 0 from the start, so that no first event is missed.
//!
//! It decides nothing and serves nothing by itself: [`serve`] offers the text to a scrape, [`file`] leaves it in a file.

pub mod file;
mod labels;
mod launch;
mod report;
pub mod serve;

use std::sync::Arc;
use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

use crate::error::Error;
pub(crate) use launch::{Attempt, Run};
pub use report::Report;

/// From the call to the answer that the command has started.
const LAUNCH_SECONDS: [f64; 9] = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0];

/// From the start to the exit.
const RUN_SECONDS: [f64; 6] = [0.1, 1.0, 10.0, 60.0, 600.0, 3600.0];

/// The metrics of one client, or of several that count together. Clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    handles: Arc<Handles>,
}

#[derive(Debug)]
struct Handles {
    registry: Registry,
    launches: IntCounterVec,
    launch_duration: HistogramVec,
    run_duration: HistogramVec,
    exits: IntCounterVec,
    /// Without a terminal, and with one.
    output: [IntCounter; 2],
    requests: IntCounterVec,
    reconnects: IntCounterVec,
    connected: IntGauge,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered with a result.
    Ok,
    /// It was answered with an error.
    Error,
    /// The connection was lost before its answer.
    Lost,
}

/// What became of a lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reconnect {
    /// The session goes on over another one.
    Resumed,
    /// The server no longer has the session.
    Refused,
    /// The server was not reached again in time.
    Unreachable,
}

impl Metrics {
    /// With a registry of their own.
    ///
    /// # Panics
    /// Never: the names are this crate's, and each is used once.
    #[must_use]
    pub fn new() -> Self {
        Self::registered(&Registry::new()).expect("names that are unique")
    }

    /// In a registry of the caller's, beside its own metrics.
    ///
    /// # Errors
    /// [`Error::Metrics`] where the registry has metrics of these names.
    pub fn registered(registry: &Registry) -> Result<Self, Error> {
        let handles = Handles::new(registry).map_err(Error::Metrics)?;
        handles.start_at_zero();
        Ok(Self { handles: Arc::new(handles) })
    }

    /// Where they are registered.
    pub fn registry(&self) -> &Registry {
        &self.handles.registry
    }

    /// Everything in the registry, in the text format of Prometheus.
    ///
    /// # Errors
    /// [`Error::Metrics`] where a metric of the caller's cannot be encoded.
    pub fn render(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.handles.registry.gather()).map_err(Error::Metrics)
    }

    /// A command is about to be started.
    pub(crate) fn launch(&self, tty: bool) -> Attempt {
        Attempt::new(self.clone(), tty)
    }

    /// A request has ended.
    pub(crate) fn request(&self, method: &str, outcome: Outcome) {
        let outcome = labels::outcome(outcome);
        self.handles.requests.with_label_values(&[labels::method(method), outcome]).inc();
    }

    /// A lost connection is over, one way or the other.
    pub(crate) fn reconnect(&self, outcome: Reconnect) {
        self.handles.reconnects.with_label_values(&[labels::reconnect(outcome)]).inc();
    }

    /// A connection is up; it counts until the guard is dropped.
    pub(crate) fn connected(&self) -> Connected {
        self.handles.connected.inc();
        Connected(self.handles.connected.clone())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts one connection for as long as it is held.
#[derive(Debug)]
pub(crate) struct Connected(IntGauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Handles {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        let output = counters(registry, "output_bytes_total", "Bytes that commands wrote", &["tty"])?;
        let connected = IntGauge::with_opts(opts("connected", "Connections to a sidecar that are up"))?;
        registry.register(Box::new(connected.clone()))?;
        Ok(Self {
            launches: counters(
                registry,
                "launches_total",
                "Requests to start a command, by what became of them",
                &["tty", "outcome"],
            )?,
            launch_duration: histogram(
                registry,
                "launch_duration_seconds",
                "From the call to the answer that the command has started",
                &LAUNCH_SECONDS,
            )?,
            run_duration: histogram(
                registry,
                "run_duration_seconds",
                "From the start of a command to its exit, as told here",
                &RUN_SECONDS,
            )?,
            exits: counters(registry, "exits_total", "Commands that ended, by the cause", &["tty", "cause"])?,
            output: [false, true].map(|tty| output.with_label_values(&[labels::tty(tty)])),
            requests: counters(
                registry,
                "requests_total",
                "Requests to the sidecar, by what became of them",
                &["method", "outcome"],
            )?,
            reconnects: counters(
                registry,
                "reconnects_total",
                "Connections that were lost, by what became of their sessions",
                &["outcome"],
            )?,
            connected,
            registry: registry.clone(),
        })
    }

    fn start_at_zero(&self) {
        for tty in [false, true].map(labels::tty) {
            self.launch_duration.with_label_values(&[tty]);
            self.run_duration.with_label_values(&[tty]);
            for outcome in labels::LAUNCHES {
                self.launches.with_label_values(&[tty, *outcome]);
            }
            for cause in labels::causes() {
                self.exits.with_label_values(&[tty, cause]);
            }
        }
        for method in labels::methods() {
            for outcome in [Outcome::Ok, Outcome::Error, Outcome::Lost].map(labels::outcome) {
                self.requests.with_label_values(&[method, outcome]);
            }
        }
        for outcome in [Reconnect::Resumed, Reconnect::Refused, Reconnect::Unreachable] {
            self.reconnects.with_label_values(&[labels::reconnect(outcome)]);
        }
    }

    fn started(&self, tty: bool, after: Duration) {
        self.launches.with_label_values(&[labels::tty(tty), labels::STARTED]).inc();
        self.launch_duration.with_label_values(&[labels::tty(tty)]).observe(after.as_secs_f64());
    }

    fn refused(&self, tty: bool, outcome: &'static str) {
        self.launches.with_label_values(&[labels::tty(tty), outcome]).inc();
    }

    fn exited(&self, tty: bool, cause: &'static str, after: Duration) {
        self.exits.with_label_values(&[labels::tty(tty), cause]).inc();
        self.run_duration.with_label_values(&[labels::tty(tty)]).observe(after.as_secs_f64());
    }

    fn output(&self, tty: bool, bytes: usize) {
        self.output[usize::from(tty)].inc_by(bytes as u64);
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("agent_client")
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

#[cfg(test)]
mod tests {
    use sidecar_protocol::process::Cause;
    use sidecar_protocol::{ErrorData, ErrorKind, RpcError};

    use super::*;

    fn value(metrics: &Metrics, series: &str) -> Option<f64> {
        let text = metrics.render().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    #[test]
    fn all_is_there_before_the_first_event_and_within_bounds() {
        let metrics = Metrics::new();
        for series in [
            r#"agent_client_launches_total{outcome="started",tty="true"}"#,
            r#"agent_client_launches_total{outcome="policy_refused",tty="false"}"#,
            r#"agent_client_exits_total{cause="idleTimeout",tty="false"}"#,
            r#"agent_client_requests_total{method="process/start",outcome="lost"}"#,
            r#"agent_client_reconnects_total{outcome="resumed"}"#,
            r#"agent_client_launch_duration_seconds_count{tty="true"}"#,
            r#"agent_client_run_duration_seconds_sum{tty="false"}"#,
            r#"agent_client_output_bytes_total{tty="true"}"#,
            "agent_client_connected",
        ] {
            assert_eq!(value(&metrics, series), Some(0.0), "{series}");
        }
        let series = metrics.render().unwrap().lines().filter(|line| !line.starts_with('#')).count();
        assert!(series <= 300, "{series} series");
    }

    #[test]
    fn a_launch_is_counted_once_and_by_its_terminal() {
        let metrics = Metrics::new();
        let mut run = metrics.launch(true).started();
        run.output(3);
        run.exited(Some(Cause::Timeout));
        drop(run);
        let data = ErrorData { kind: Some(ErrorKind::SpawnNotFound), ..ErrorData::default() };
        metrics.launch(false).refused(&RpcError::internal("x").with_data(&data));
        drop(metrics.launch(false));
        drop(metrics.launch(false).started());
        for (series, expected) in [
            (r#"agent_client_launches_total{outcome="started",tty="true"}"#, 1.0),
            (r#"agent_client_launches_total{outcome="started",tty="false"}"#, 1.0),
            (r#"agent_client_launches_total{outcome="caller_error",tty="false"}"#, 1.0),
            (r#"agent_client_launches_total{outcome="server_error",tty="false"}"#, 1.0),
            (r#"agent_client_launch_duration_seconds_count{tty="true"}"#, 1.0),
            (r#"agent_client_exits_total{cause="timeout",tty="true"}"#, 1.0),
            (r#"agent_client_exits_total{cause="lost",tty="false"}"#, 1.0),
            (r#"agent_client_run_duration_seconds_count{tty="true"}"#, 1.0),
            (r#"agent_client_output_bytes_total{tty="true"}"#, 3.0),
            (r#"agent_client_output_bytes_total{tty="false"}"#, 0.0),
        ] {
            assert_eq!(value(&metrics, series), Some(expected), "{series}");
        }
    }

    #[test]
    fn the_docs_list_every_metric_and_no_other() {
        let docs = include_str!("../../docs/agent-client.md");
        let rows = docs.lines().filter_map(|line| line.strip_prefix("| `agent_client_")?.split_once('`'));
        let listed: Vec<String> = rows.map(|(name, _)| format!("agent_client_{name}")).collect();
        let mut sorted = listed.clone();
        sorted.sort();
        let families = Metrics::new().registry().gather();
        assert_eq!(sorted, families.iter().map(|family| family.name()).collect::<Vec<_>>());
    }

    #[test]
    fn two_in_one_registry_are_refused() {
        let registry = Registry::new();
        Metrics::registered(&registry).unwrap();
        let error = Metrics::registered(&registry).unwrap_err().to_string();
        assert!(error.contains("registry"), "{error}");
    }

    #[test]
    fn what_is_up_counts() {
        let metrics = Metrics::new();
        let (one, _two) = (metrics.connected(), metrics.connected());
        drop(one);
        assert_eq!(value(&metrics, "agent_client_connected"), Some(1.0));
        metrics.request("fs/readFile", Outcome::Ok);
        metrics.request("no/such", Outcome::Error);
        metrics.reconnect(Reconnect::Resumed);
        for series in [
            r#"agent_client_requests_total{method="fs/readFile",outcome="ok"}"#,
            r#"agent_client_requests_total{method="other",outcome="error"}"#,
            r#"agent_client_reconnects_total{outcome="resumed"}"#,
        ] {
            assert_eq!(value(&metrics, series), Some(1.0), "{series}");
        }
    }
}
