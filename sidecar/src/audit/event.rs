//! One event of the trail, as it is written.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use sidecar_sandbox::Receipt;

use super::argv::Argv;
use crate::caller::Caller;

/// One event. What an event does not have is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Event<'a> {
    pub(crate) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process_id: Option<&'a str>,
    #[serde(flatten)]
    pub(crate) argv: Option<&'a Argv>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) env_names: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tty: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enforcement: Option<Enforcement<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<&'static str>,
    /// Why something failed; a word of a closed set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// Refused attempts before this one that have no record of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unrecorded: Option<u64>,
    /// What would have granted what was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) destination: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<&'a Value>,
}

/// What was enforced for a launch, in short.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Enforcement<'a> {
    status: &'a str,
    unenforced: Vec<&'a str>,
}

impl<'a> Enforcement<'a> {
    pub(crate) fn new(receipt: &'a Receipt) -> Enforcement<'a> {
        let unenforced = receipt.unenforced.iter().map(|gap| gap.what.as_str()).collect();
        Enforcement { status: receipt.status, unenforced }
    }
}

/// The line around an event.
#[derive(Serialize)]
struct Line<'a> {
    /// Tells it from the logs on the same stream.
    kind: &'static str,
    ts: String,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

impl<'a> Event<'a> {
    /// Of the server itself.
    pub(crate) fn new(event: &'static str) -> Event<'a> {
        Event { event, ..Event::default() }
    }

    /// Of somebody.
    pub(crate) fn by(event: &'static str, caller: &'a Caller) -> Event<'a> {
        Event { principal: Some(&caller.principal), peer: Some(caller.peer.to_string()), ..Event::new(event) }
    }

    /// One line, with its end.
    pub(crate) fn line(&self) -> String {
        let ts = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        // Strings and numbers always serialise.
        let mut line = serde_json::to_string(&Line { kind: "audit", ts, event: self }).unwrap_or_default();
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_what_there_is_and_nothing_else() {
        let caller = Caller::in_process();
        let event = Event { path: Some("/a\nb"), bytes: Some(3), ..Event::by("fs.write", &caller) };
        let line = event.line();
        assert_eq!(line.matches('\n').count(), 1, "one line per event, whatever a path holds");
        let mut value: Value = serde_json::from_str(&line).expect("JSON");
        let ts = value["ts"].take();
        let ts = ts.as_str().expect("a time");
        assert!(ts.len() == "2026-01-01T00:00:00.000000Z".len() && ts.ends_with('Z'), "{ts}");
        let expected = serde_json::json!({
            "kind": "audit", "ts": null, "event": "fs.write", "principal": "local", "peer": "in process",
            "path": "/a\nb", "bytes": 3,
        });
        assert_eq!(value, expected);
    }
}
