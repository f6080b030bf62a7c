//! The method table, row by row: each method's good case and each error that the protocol names, over each transport.
//! The rows of process/* and of fs/* are in modules of their own.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sidecar_protocol::Method;
use sidecar_protocol::method::Group;

use crate::common::{Client, with};
use crate::lines::{Setting, Transport, over_each_transport};
use crate::{methods_files, methods_processes};

over_each_transport![bare: every_method];

/// A method, its params, and what comes of them. The order matters: what a row does is there for those after it.
pub(crate) type Row = (&'static str, Value, Expect);

/// What a row must give.
#[derive(Debug)]
pub(crate) enum Expect {
    /// A result that holds this.
    Good(Value),
    /// An error of that code whose message holds that.
    Bad(i64, &'static str),
    /// An error from the OS of that code and kind, which names an errno and a path.
    Os(i64, &'static str),
    /// -32011, of that limit.
    Limit(&'static str),
}
use Expect::{Bad, Good, Limit, Os};

/// Whether `seen` holds everything that `wanted` has; arrays and plain values must be equal.
fn holds(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| seen.get(key).is_some_and(|seen| holds(seen, value)))
        }
        _ => seen == wanted,
    }
}

/// Which methods had a good row, and which a bad one.
#[derive(Default)]
struct Seen {
    good: BTreeSet<&'static str>,
    bad: BTreeSet<&'static str>,
}

impl Seen {
    async fn check(&mut self, client: &mut Client, rows: Vec<Row>) {
        for (method, params, expected) in rows {
            let id = client.request(method, params.clone()).await;
            let outcome = client.outcome(id).await;
            let is_met = match (&outcome, &expected) {
                (Ok(seen), Good(wanted)) => holds(seen, wanted),
                (Err(error), Bad(code, words)) => {
                    error["code"] == *code && error["message"].as_str().is_some_and(|m| m.contains(words))
                }
                (Err(error), Os(code, kind)) => {
                    let data = &error["data"];
                    let is_told = data["errno"].is_i64() && data["path"].is_string();
                    error["code"] == *code && data["kind"] == *kind && is_told
                }
                (Err(error), Limit(key)) => error["code"] == -32011 && error["data"]["limit"] == *key,
                _ => false,
            };
            assert!(is_met, "{method} {params}: {outcome:?}, not {expected:?}");
            if outcome.is_ok() { &mut self.good } else { &mut self.bad }.insert(method);
        }
    }
}

async fn every_method(mut setting: Setting) {
    let mut seen = Seen::default();
    let client = &mut setting.client;
    seen.check(client, before_initialize()).await;
    seen.check(client, before_initialized()).await;
    client.notify("initialized", json!({})).await;
    seen.check(client, environment()).await;
    seen.check(client, methods_processes::rows(&setting.fixture)).await;
    seen.check(client, methods_files::rows(&setting.fixture)).await;
    seen.check(client, malformed()).await;
    methods_files::told(client).await;
    for method in Method::ALL.iter().map(|method| method.name()) {
        assert!(seen.good.contains(method), "{method} has no good row");
        assert!(seen.bad.contains(method), "{method} has no bad row");
    }
}

/// Every method but `initialize`, refused.
fn early(exec: &'static str, filesystem: &'static str) -> impl Iterator<Item = Row> {
    Method::ALL.iter().filter_map(move |method| {
        let words = match method.group() {
            Group::Session => return None,
            Group::Exec => exec,
            Group::Filesystem => filesystem,
        };
        Some((method.name(), json!({}), Bad(-32600, words)))
    })
}

fn before_initialize() -> Vec<Row> {
    let rows = early(
        "client must call initialize before using exec methods",
        "client must call initialize before using filesystem methods",
    );
    rows.chain([
        ("initialize", json!({ "clientName": 1 }), Bad(-32602, "invalid params")),
        ("initialize", json!({ "resumeSessionId": "gone" }), Bad(-32600, "unknown or expired session")),
        ("initialize", json!({ "clientName": "x" }), Good(json!({ "protocolVersion": "exec-server.v0" }))),
    ])
    .collect()
}

fn before_initialized() -> Vec<Row> {
    let rows = early(
        "client must send initialized before using exec methods",
        "client must send initialized before using filesystem methods",
    );
    rows.chain([("initialize", json!({ "clientName": "x" }), Bad(-32600, "only once"))]).collect()
}

fn environment() -> Vec<Row> {
    let mut rows = vec![
        ("initialize", json!({ "clientName": "x" }), Bad(-32600, "only once")),
        ("environment/info", json!({}), Good(json!({ "platformOs": "linux" }))),
        ("environment/status", json!({}), Good(json!({}))),
        ("session/end", json!({}), Good(json!({}))),
    ];
    // What is not offered.
    for method in
        ["http/request", "capabilities/list", "environmentConfig/read", "capabilityRoots/list", "no/such"]
    {
        rows.push((method, json!({}), Bad(-32601, method)));
    }
    rows
}

/// Params that lack everything, to each method that needs some.
fn malformed() -> Vec<Row> {
    let needs_none = [
        Method::Initialize,
        Method::EnvironmentInfo,
        Method::EnvironmentStatus,
        Method::SessionEnd,
        Method::ProcessList,
    ];
    let needy = Method::ALL.iter().filter(|method| !needs_none.contains(method));
    needy.map(|method| (method.name(), json!({}), Bad(-32602, "missing field"))).collect()
}

#[tokio::test]
async fn without_a_sandbox_nothing_runs() {
    for transport in [Transport::Ws, Transport::Unix, Transport::Stdio] {
        let mut setting = Setting::with_abi(transport, Some(0)).await;
        setting.client.open().await;
        std::fs::write(setting.fixture.ws("file"), "").expect("written");
        let file = json!({ "path": setting.fixture.ws("file") });
        let start = with(setting.fixture.command("p", &["true"]), "tty", json!(false));
        for (method, params) in [("process/start", start), ("fs/readFile", file)] {
            let error = setting.client.refused(method, params).await;
            let seen = (&error["code"], &error["data"]["kind"]);
            assert_eq!(
                seen,
                (&json!(-32603), &json!("sandboxUnavailable")),
                "{transport:?} {method}: {error}"
            );
        }
    }
}
