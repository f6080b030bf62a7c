//! The rows of process/*.

use serde_json::{Value, json};

use crate::common::{Fixture, encode, with};
use crate::lines::PROCESSES;
use crate::methods::Expect::{Bad, Good, Limit, Os};
use crate::methods::Row;

fn about(id: &str) -> Value {
    json!({ "processId": id })
}

fn plus(id: &str, key: &str, value: Value) -> Value {
    with(about(id), key, value)
}

fn write(id: &str, bytes: &str) -> Value {
    plus(id, "chunk", json!(encode(bytes)))
}

pub(crate) fn rows(fixture: &Fixture) -> Vec<Row> {
    let mut rows = malformed_starts(fixture);
    rows.extend(failing_starts(fixture));
    rows.extend(input_and_output(fixture));
    rows.extend(terminal(fixture));
    rows.extend(too_many(fixture));
    rows
}

fn malformed_starts(fixture: &Fixture) -> Vec<Row> {
    let start = fixture.command("p", &["true"]);
    let long = "p".repeat(257);
    let wrong = [
        ("argv", json!([]), Bad(-32602, "argv must not be empty")),
        ("argv", json!(["true", "a\0b"]), Bad(-32602, "argv must not hold a NUL byte")),
        ("processId", json!(""), Bad(-32602, "processId")),
        ("processId", json!(long), Bad(-32602, "processId")),
        ("env", json!({ "": "x" }), Bad(-32602, "env names")),
        ("env", json!({ "A=B": "x" }), Bad(-32602, "env names")),
        ("env", json!({ "A\0": "x" }), Bad(-32602, "env names")),
        ("env", json!({ "A": "\0" }), Bad(-32602, "env values")),
        ("cwd", json!("relative"), Bad(-32602, "absolute")),
        ("cwd", json!("https://host/"), Bad(-32602, "absolute")),
        ("cwd", json!("/a\0b"), Bad(-32602, "NUL byte")),
        ("cwd", json!("file:///a%00b"), Bad(-32602, "NUL byte")),
        ("cwd", json!("file://host/a"), Bad(-32602, "host")),
        ("arg0", json!("\0"), Bad(-32602, "arg0 must not hold a NUL byte")),
        ("size", json!({ "rows": 0, "cols": 80 }), Bad(-32602, "size")),
        ("size", json!({ "rows": 24, "cols": 0 }), Bad(-32602, "size")),
        ("timeoutMs", json!(0), Bad(-32602, "timeoutMs")),
        ("idleTimeoutMs", json!(0), Bad(-32602, "idleTimeoutMs")),
        ("limits", json!({ "processes": 0 }), Bad(-32602, "limits.processes")),
        ("sandbox", json!({ "mode": "no" }), Bad(-32602, "sandbox.mode")),
        ("networkProxy", json!({}), Bad(-32600, "networkProxy is not offered")),
        ("managedNetwork", json!({}), Bad(-32600, "managedNetwork is not offered")),
        ("enforceManagedNetwork", json!(true), Bad(-32600, "enforceManagedNetwork is not offered")),
    ];
    let mut rows: Vec<Row> = wrong
        .into_iter()
        .map(|(key, value, expected)| ("process/start", with(start.clone(), key, value), expected))
        .collect();
    rows.push(("process/list", json!({}), Good(json!({ "processes": [] }))));
    rows
}

fn failing_starts(fixture: &Fixture) -> Vec<Row> {
    std::fs::create_dir(fixture.ws("directory")).expect("made");
    std::fs::copy("/bin/true", fixture.outside("true")).expect("copied");
    let run = |program: &std::path::Path| fixture.command("p", &[program.to_str().expect("UTF-8")]);
    let lost = with(fixture.command("p", &["true"]), "cwd", json!(fixture.ws("none")));
    vec![
        ("process/start", run("/no/such".as_ref()), Os(-32603, "spawnNotFound")),
        ("process/start", run("/no/such".as_ref()), Bad(-32603, "/no/such")),
        ("process/start", lost, Os(-32603, "cwdNotFound")),
        ("process/start", run(&fixture.outside("true")), Os(-32603, "permissionDenied")),
        ("process/start", run(&fixture.ws("directory")), Os(-32603, "notExecutable")),
        // The id is free again.
        ("process/read", about("p"), Bad(-32600, "unknown process id p")),
    ]
}

fn input_and_output(fixture: &Fixture) -> Vec<Row> {
    let cat = with(fixture.command("cat", &["cat"]), "pipeStdin", json!(true));
    // What an older client may send, and means nothing by.
    let cat = with(with(cat, "enforceManagedNetwork", json!(false)), "networkProxy", Value::Null);
    let head = json!([{ "stream": "stdout", "head": encode("hi"), "tail": "", "droppedBytes": 0 }]);
    let accepted = json!({ "status": "accepted", "accepted": true });
    let deaf = fixture.command("deaf", &["true"]);
    vec![
        ("process/start", cat.clone(), Good(json!({ "processId": "cat", "sandboxType": "linuxSeccomp" }))),
        ("process/start", cat, Bad(-32600, "process cat already exists")),
        ("process/write", with(write("cat", "hi"), "writeId", json!("1")), Good(accepted.clone())),
        ("process/write", with(write("cat", "hi"), "writeId", json!("1")), Good(accepted)),
        ("process/write", write("nope", ""), Good(json!({ "status": "unknownProcess", "accepted": false }))),
        ("process/write", plus("cat", "chunk", json!("%")), Bad(-32602, "base64")),
        (
            "process/read",
            plus("cat", "waitMs", json!(60_000)),
            Good(json!({ "exited": false, "closed": false, "nextSeq": 2 })),
        ),
        ("process/read", about("nope"), Bad(-32600, "unknown process id nope")),
        ("process/snapshot", about("cat"), Good(json!({ "nextSeq": 2, "exited": false, "streams": head }))),
        ("process/snapshot", about("nope"), Bad(-32600, "unknown process id nope")),
        ("process/resize", json!({ "processId": "cat", "rows": 50, "cols": 80 }), Bad(-32600, "no terminal")),
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
        ("process/write", write("cat", "x"), Good(json!({ "status": "stdinClosed", "accepted": false }))),
        ("process/start", deaf, Good(json!({ "processId": "deaf" }))),
        ("process/write", write("deaf", "x"), Good(json!({ "status": "stdinClosed" }))),
    ]
}

fn terminal(fixture: &Fixture) -> Vec<Row> {
    let term = with(fixture.command("term", &["cat"]), "tty", json!(true));
    let size = |id: &str, rows: i64| json!({ "processId": id, "rows": rows, "cols": 80 });
    let signal = |id: &str, signal: &str| plus(id, "signal", json!(signal));
    let mut rows = vec![
        ("process/start", term, Good(json!({ "processId": "term" }))),
        ("process/resize", size("term", 50), Good(json!({}))),
        ("process/resize", size("term", 0), Bad(-32602, "at least 1")),
        ("process/resize", size("term", 65_536), Bad(-32602, "65536")),
        ("process/resize", size("nope", 50), Bad(-32600, "unknown process id nope")),
        ("process/signal", signal("term", "nonsense"), Bad(-32602, "nonsense")),
        ("process/signal", signal("term", "hangup"), Good(json!({}))),
        ("process/wait", about("term"), Good(json!({ "exitCode": 129, "signal": "SIGHUP" }))),
        ("process/terminate", about("term"), Good(json!({ "running": false }))),
        ("process/terminate", about("nope"), Good(json!({ "running": false }))),
    ];
    let names = ["interrupt", "terminate", "kill", "hangup", "quit", "user1", "user2", "stop", "continue"];
    // A process that is gone needs no signal.
    rows.extend(names.map(|name| ("process/signal", signal("term", name), Good(json!({})))));
    rows
}

fn too_many(fixture: &Fixture) -> Vec<Row> {
    let cat = |id: &str| with(fixture.command(id, &["cat"]), "pipeStdin", json!(true));
    let fill = |number: usize| ("process/start", cat(&format!("full{number}")), Good(json!({})));
    // Exited ones give way.
    let mut rows: Vec<Row> = (0..PROCESSES).map(fill).collect();
    rows.extend([
        ("process/start", cat("over"), Limit("limits.processes")),
        ("process/terminate", about("full0"), Good(json!({ "running": true }))),
        ("process/wait", about("full0"), Good(json!({ "exitCode": 143, "signal": "SIGTERM" }))),
        ("process/start", cat("over"), Good(json!({ "processId": "over" }))),
    ]);
    rows
}
