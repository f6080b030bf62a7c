//! `agent-client status`: which sidecar this is, what it enforces, how far away it is.

use std::time::{Duration, Instant};

use agent_client::config::Config;
use agent_client::protocol::Method;
use agent_client::protocol::process::Enforcement;
use agent_client::protocol::session::StatusResult;
use agent_client::{Environment, Event, ExecBackend as _, Launch};
use serde_json::{Map, Value, json};

use super::connection::Connection;
use super::session;
use super::table::{self, Table};

/// Round trips that the latency is the median of.
const ROUND_TRIPS: usize = 9;

/// Tell which sidecar this is, what the kernel enforces there, and how far away it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agent-client status --json")]
pub(super) struct Args {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    session::with(&config, async |environment| {
        let status: StatusResult =
            environment.client().request(Method::EnvironmentStatus, &json!({})).await?;
        let latency = latency(environment).await?;
        let enforcement = enforcement(environment, &config).await;
        let mut rows = rows(environment, &config);
        rows.insert("state".to_owned(), json!(status.status));
        rows.insert("latencyMicros".to_owned(), json!(latency.as_micros() as u64));
        match &enforcement {
            Ok(enforcement) => rows.insert("enforcement".to_owned(), json!(enforcement)),
            Err(error) => rows.insert("enforcementUnknown".to_owned(), json!(format!("{error:#}"))),
        };
        if args.json {
            table::json(&rows)?;
            return Ok(0);
        }
        let mut table = Table::default();
        for (key, value) in &rows {
            match (key.as_str(), &enforcement) {
                ("enforcement", Ok(Some(receipt))) => describe(&mut table, receipt),
                _ => table.row(vec![key.clone(), text(value)]),
            }
        }
        table.print()?;
        Ok(0)
    })
    .await
}

fn rows(environment: &Environment, config: &Config) -> Map<String, Value> {
    let mut rows = Map::new();
    let mut row = |key: &str, value: Value| rows.insert(key.to_owned(), value);
    row("server", json!(config.elsewhere().unwrap_or_else(|| "embedded in this process".to_owned())));
    row("localRoot", json!(config.local_root));
    let Some(info) = environment.info() else {
        row("version", json!("it does not tell"));
        return rows;
    };
    row("version", json!(info.executor_version));
    row("shell", json!(info.shell.path));
    if let Some(sidecar) = &info.sidecar {
        row("workspaceRoot", json!(sidecar.workspace_root.as_path()));
        row("landlockAbi", json!(sidecar.landlock_abi));
        row("profiles", json!(sidecar.profiles));
        row("defaultProfile", json!(sidecar.default_profile));
    }
    rows
}

async fn latency(environment: &Environment) -> anyhow::Result<Duration> {
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let at = Instant::now();
        let _: StatusResult = environment.client().request(Method::EnvironmentStatus, &json!({})).await?;
        times.push(at.elapsed());
    }
    times.sort();
    Ok(times[ROUND_TRIPS / 2])
}

/// The receipt of a launch that does nothing: what is enforced is known where something is launched.
pub(super) async fn enforcement(
    environment: &Environment,
    config: &Config,
) -> anyhow::Result<Option<Enforcement>> {
    let shell = environment.info().map_or_else(|| "/bin/sh".to_owned(), |info| info.shell.path.clone());
    let mut started = environment.start(Launch::new([&shell, "-c", ":"], &config.local_root)).await?;
    while let Some(event) = started.events.recv().await {
        if let Event::Failed { reason } = event {
            anyhow::bail!(reason);
        }
    }
    Ok(started.process.enforcement().cloned())
}

fn describe(table: &mut Table, receipt: &Enforcement) {
    table.row(vec!["enforcement".to_owned(), format!("{} ({})", receipt.status, receipt.profile)]);
    for (part, state) in &receipt.parts {
        table.row(vec![format!("  {part}"), state.clone()]);
    }
    for gap in &receipt.unenforced {
        table.row(vec!["  not enforced".to_owned(), format!("{}: {}", gap.what, gap.why)]);
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => table::harmless(text),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}
