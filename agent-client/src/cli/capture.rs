//! `exec --json`: the output is kept and told at the end, with how the command ended.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use agent_client::protocol::process::{Cause, Enforcement, Stream};
use agent_client::tools::HeadTail;
use agent_client::{Error, Event, Events, ExecProcess, Exit};
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;

/// What is kept of each stream, bytes; beyond, its middle is left out.
const KEPT: usize = 8 << 20;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    exit_code: i32,
    signal: Option<&'a str>,
    cause: Option<Cause>,
    stdout: String,
    stderr: String,
    /// The exact bytes, where they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    truncated: bool,
    duration_ms: u64,
    sandbox_denied: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    enforcement: Option<&'a Enforcement>,
}

/// Keeps what comes and prints it once the command has ended and all of it is there.
pub(super) async fn deliver(
    mut events: Events,
    process: &Arc<dyn ExecProcess>,
    at: Instant,
) -> anyhow::Result<Exit> {
    let (mut stdout, mut stderr) = (HeadTail::new(KEPT), HeadTail::new(KEPT));
    let mut end = None;
    while let Some(event) = events.recv().await {
        match event {
            Event::Output { stream: Stream::Stderr, bytes, .. } => stderr.push(&bytes),
            Event::Output { bytes, .. } => stdout.push(&bytes),
            Event::Exited(exit) => end = Some((exit, at.elapsed())),
            Event::Closed => break,
            Event::Failed { reason } => bail!("{reason}; how the command ended is not known"),
        }
    }
    let (exit, duration) = end.context("the server closed the command without an exit code")?;
    let outcome = Outcome {
        exit_code: exit.exit_code,
        signal: exit.signal.as_deref(),
        cause: exit.cause,
        stdout: stdout.to_text(),
        stderr: stderr.to_text(),
        stdout_base64: inexact(&stdout),
        stderr_base64: inexact(&stderr),
        truncated: stdout.omitted_bytes() + stderr.omitted_bytes() > 0,
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        sandbox_denied: exit.sandbox_denied,
        hint: exit.hint.as_deref(),
        enforcement: process.enforcement(),
    };
    super::table::json(&outcome)?;
    Ok(exit)
}

/// Of a stream whose text is not what it wrote.
fn inexact(output: &HeadTail) -> Option<String> {
    let bytes = output.complete()?;
    std::str::from_utf8(&bytes).is_err().then(|| STANDARD.encode(bytes))
}

/// Tells why there is no outcome.
pub(super) fn failure(error: &anyhow::Error) -> std::io::Result<()> {
    let rpc = error.downcast_ref::<Error>();
    let message = match rpc {
        Some(Error::Rpc { error, .. }) => error.message.clone(),
        _ => format!("{error:#}"),
    };
    let data = rpc.and_then(Error::data);
    let line = json!({ "exitCode": null, "error": message, "data": data });
    writeln!(std::io::stdout(), "{line}")
}
