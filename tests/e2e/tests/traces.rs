//! The frames of a real session of the stock client, sent again: each gets an answer of the shape that was recorded.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use e2e::client::decode;
use e2e::{Client, Scratch, Server};
use serde_json::Value;

/// Requests of the stock client that need not be offered.
const MAY_BE_UNKNOWN: [&str; 1] = ["environmentConfig/read"];
/// Keys of the recorded server that are its own affair.
const MAY_BE_MISSING: [&str; 1] = ["providerId"];

#[tokio::test]
async fn interactive() {
    replay(include_str!("../traces/interactive.jsonl")).await;
}

#[tokio::test]
async fn workspace_write() {
    replay(include_str!("../traces/workspace-write.jsonl")).await;
}

async fn replay(trace: &str) {
    let scratch = Scratch::new();
    fs::write(scratch.workspace().join("hello.txt"), "HELLO-FILE\n").unwrap();
    let trace = relocate(trace, &scratch);
    let server = Server::builder().scratch(scratch).start();
    let mut replay = Replay {
        client: Client::connect(&server).await,
        sent: BTreeMap::new(),
        recorded: BTreeMap::new(),
        output: BTreeMap::new(),
        answers: 0,
    };
    for line in trace.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let frame = line["frame"].take();
        match line["from"].as_str().unwrap() {
            "client" => replay.send(&frame).await,
            _ if frame.get("id").is_some() => replay.answer(&frame).await,
            _ => replay.notification(&frame).await,
        }
    }
    assert_eq!(replay.answers, replay.sent.len(), "every request was answered");
}

/// Moves the recorded folders into this test's own.
fn relocate(trace: &str, scratch: &Scratch) -> String {
    let at = |path: &Path| path.to_str().unwrap().to_owned();
    trace
        .replace("file:///srvspace", &format!("file://{}", at(&scratch.workspace())))
        .replace("file:///tmp/", &format!("file://{}/", at(&scratch.home())))
        .replace("file:///srv/", &format!("file://{}/", at(scratch.base())))
        .replace("/workspace/", &format!("{}/", at(&scratch.outside())))
}

struct Replay {
    client: Client,
    /// id → method of what was sent.
    sent: BTreeMap<String, String>,
    /// (process, stream) → bytes in the trace up to here.
    recorded: BTreeMap<(String, String), Vec<u8>>,
    /// (process, stream) → bytes that came.
    output: BTreeMap<(String, String), Vec<u8>>,
    answers: usize,
}

impl Replay {
    async fn send(&mut self, frame: &Value) {
        if let Some(id) = frame.get("id") {
            self.sent.insert(id.to_string(), frame["method"].as_str().unwrap().to_owned());
        }
        self.client.send(frame).await;
    }

    async fn answer(&mut self, recorded: &Value) {
        let answer = self.client.response(&recorded["id"]).await;
        self.answers += 1;
        let method = &self.sent[&recorded["id"].to_string()];
        if MAY_BE_UNKNOWN.contains(&method.as_str()) && answer["error"]["code"] == -32601 {
            return;
        }
        same_shape(recorded, &answer, method);
        assert_eq!(answer["error"]["code"], recorded["error"]["code"], "{method}: {answer}");
    }

    /// Waits until as much has come as had come when the trace was recorded, so that what the client sends next meets
    /// the same state. How output is cut into chunks is not compared, its bytes on stdout and the terminal are.
    async fn notification(&mut self, recorded: &Value) {
        let Some(name) = recorded["method"].as_str().unwrap().strip_prefix("process/") else { return };
        let process = recorded["params"]["processId"].as_str().unwrap();
        if name != "output" {
            let params = self.client.of_process(process, name).await;
            same_shape(&recorded["params"], &params, name);
            return;
        }
        let stream = recorded["params"]["stream"].as_str().unwrap();
        let key = (process.to_owned(), stream.to_owned());
        let expected = self.recorded.entry(key.clone()).or_default();
        expected.extend(decode(&recorded["params"]["chunk"]));
        if stream == "stderr" {
            return;
        }
        while self.output.get(&key).map_or(0, Vec::len) < expected.len() {
            let params = self.client.of_process(process, "output").await;
            same_shape(&recorded["params"], &params, "process/output");
            let key = (process.to_owned(), params["stream"].as_str().unwrap().to_owned());
            self.output.entry(key).or_default().extend(decode(&params["chunk"]));
        }
        assert!(self.output[&key].starts_with(expected), "{process} {stream}: {:?}", self.output[&key]);
    }
}

/// Every member that was recorded is there and of the same JSON type; more may be there.
fn same_shape(recorded: &Value, answer: &Value, place: &str) {
    match (recorded, answer) {
        (Value::Object(recorded), Value::Object(answer)) => {
            for (key, value) in recorded {
                match answer.get(key) {
                    Some(member) => same_shape(value, member, &format!("{place}.{key}")),
                    None => assert!(
                        MAY_BE_MISSING.contains(&key.as_str()),
                        "{place}.{key} is missing: {answer:?}"
                    ),
                }
            }
        }
        (Value::Array(_), Value::Array(_))
        | (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => {}
        _ => panic!("{place}: {recorded} was recorded, {answer} came"),
    }
}
