//! The method table, row by row: each method's good case and each error that the protocol names, over each transport.
//! The rest of fs/* has its own tests.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sidecar_protocol::Method;
use sidecar_protocol::method::Group;

use crate::common::{encode, with};
use crate::lines::{Setting, over_each_transport};

over_each_transport![every_method];

/// What a row must give: a result that holds this, or an error of that code whose message holds that.
enum Expect {
    Good(Value),
    Bad(i64, &'static str),
}
use Expect::{Bad, Good};

/// Whether `seen` holds everything that `wanted` has; arrays and plain values must be equal.
fn holds(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| seen.get(key).is_some_and(|seen| holds(seen, value)))
        }
        _ => seen == wanted,
    }
}

async fn every_method(mut setting: Setting) {
    let cat = with(setting.fixture.command("cat", &["cat"]), "pipeStdin", json!(true));
    let term = with(setting.fixture.command("term", &["cat"]), "tty", json!(true));
    let file = setting.fixture.ws("file");
    let about = |id: &str| json!({ "processId": id });
    let plus = |id: &str, key: &str, value: Value| with(about(id), key, value);
    let size = |id: &str, rows: i64| json!({ "processId": id, "rows": rows, "cols": 80 });
    let rows = vec![
        ("environment/info", json!({}), Good(json!({ "platformOs": "linux" }))),
        ("environment/status", json!({}), Good(json!({}))),
        ("initialize", json!({}), Bad(-32600, "only once")),
        ("no/such", json!({}), Bad(-32601, "no/such")),
        ("process/list", json!({}), Good(json!({ "processes": [] }))),
        ("process/start", cat.clone(), Good(json!({ "processId": "cat", "sandboxType": "linuxSeccomp" }))),
        ("process/start", cat.clone(), Bad(-32600, "process cat already exists")),
        ("process/start", with(cat.clone(), "argv", json!([])), Bad(-32602, "argv must not be empty")),
        ("process/start", with(cat.clone(), "timeoutMs", json!(0)), Bad(-32602, "timeoutMs")),
        ("process/start", with(cat.clone(), "idleTimeoutMs", json!(0)), Bad(-32602, "idleTimeoutMs")),
        ("process/start", with(cat, "limits", json!({ "processes": 0 })), Bad(-32602, "limits.processes")),
        ("process/start", setting.fixture.command("no", &["/no/such"]), Bad(-32603, "/no/such")),
        ("process/start", term, Good(json!({ "processId": "term" }))),
        ("process/write", plus("cat", "chunk", json!(encode("hi"))), Good(json!({ "status": "accepted" }))),
        ("process/write", plus("nope", "chunk", json!("")), Good(json!({ "status": "unknownProcess" }))),
        ("process/write", plus("cat", "chunk", json!("%")), Bad(-32602, "base64")),
        (
            "process/read",
            plus("cat", "waitMs", json!(60_000)),
            Good(json!({ "exited": false, "nextSeq": 2 })),
        ),
        ("process/read", about("nope"), Bad(-32600, "unknown process id nope")),
        (
            "process/snapshot",
            about("cat"),
            Good(json!({ "nextSeq": 2, "exited": false, "streams":
            [{ "stream": "stdout", "head": encode("hi"), "tail": "", "droppedBytes": 0 }] })),
        ),
        ("process/snapshot", about("nope"), Bad(-32600, "unknown process id nope")),
        ("process/snapshot", json!({}), Bad(-32602, "processId")),
        ("process/resize", size("term", 50), Good(json!({}))),
        ("process/resize", size("term", 0), Bad(-32602, "at least 1")),
        ("process/resize", size("term", 65_536), Bad(-32602, "65536")),
        ("process/resize", size("cat", 50), Bad(-32600, "no terminal")),
        ("process/resize", size("nope", 50), Bad(-32600, "unknown process id nope")),
        (
            "process/wait",
            plus("cat", "timeoutMs", json!(1)),
            Good(json!({ "exited": false, "closed": false })),
        ),
        ("process/wait", about("nope"), Bad(-32600, "unknown process id nope")),
        ("process/closeStdin", about("nope"), Good(json!({ "status": "unknownProcess" }))),
        ("process/closeStdin", about("cat"), Good(json!({ "status": "accepted" }))),
        ("process/wait", about("cat"), Good(json!({ "exited": true, "exitCode": 0, "closed": true }))),
        ("process/closeStdin", about("cat"), Good(json!({ "status": "stdinClosed" }))),
        ("process/signal", plus("term", "signal", json!("hangup")), Good(json!({}))),
        ("process/signal", plus("term", "signal", json!("nonsense")), Bad(-32602, "nonsense")),
        ("process/wait", about("term"), Good(json!({ "exitCode": 129, "signal": "SIGHUP" }))),
        ("process/terminate", about("term"), Good(json!({ "running": false }))),
        ("process/terminate", about("nope"), Good(json!({ "running": false }))),
        ("fs/writeFile", json!({ "path": file, "dataBase64": encode("x") }), Good(json!({}))),
        ("fs/writeFile", json!({ "path": file, "dataBase64": "%" }), Bad(-32600, "base64")),
        ("fs/readFile", json!({ "path": file }), Good(json!({ "dataBase64": encode("x") }))),
        ("fs/readFile", json!({ "path": setting.fixture.ws("none") }), Bad(-32004, "No such file")),
        ("fs/readFile", json!({ "path": "relative" }), Bad(-32602, "absolute")),
        ("fs/getMetadata", json!({ "path": file }), Good(json!({ "isFile": true, "size": 1 }))),
    ];
    let mut good = BTreeSet::from(["initialize"]);
    for (method, params, expected) in rows {
        let id = setting.client.request(method, params.clone()).await;
        match (setting.client.outcome(id).await, expected) {
            (Ok(seen), Good(wanted)) => {
                assert!(holds(&seen, &wanted), "{method} {params}: {seen}");
                good.insert(method);
            }
            (Err(error), Bad(code, words)) => {
                let message = error["message"].as_str().expect("a message");
                assert!(error["code"] == code && message.contains(words), "{method} {params}: {error}");
            }
            (outcome, _) => panic!("{method} {params}: {outcome:?}"),
        }
    }
    for method in Method::ALL.iter().filter(|method| method.group() != Group::Filesystem) {
        assert!(good.contains(method.name()), "{} has no good row", method.name());
    }
}
