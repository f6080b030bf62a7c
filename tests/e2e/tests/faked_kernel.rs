//! Kernels and containers without Landlock, faked in three ways: three reasons, no launch.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};

use e2e::server::clean_environment;
use e2e::{Client, Scratch, Server, programs};
use serde_json::{Value, json};

const WRAPPER: &str = env!("CARGO_BIN_EXE_without_landlock");
const ERRNOS: [&str; 3] = ["ENOSYS", "EOPNOTSUPP", "EPERM"];

/// `sandbox-sidecar check --json`, with Landlock faked away where an errno is given.
fn check(errno: Option<&str>, more: &[&str]) -> Output {
    let scratch = Scratch::new();
    let mut command = match errno {
        Some(errno) => {
            let mut command = Command::new(WRAPPER);
            command.arg(errno).arg(programs::sandbox_sidecar());
            command
        }
        None => Command::new(programs::sandbox_sidecar()),
    };
    command.args(["check", "--json"]).args(more).arg("--workspace-root").arg(scratch.workspace());
    clean_environment(&mut command, &scratch);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn case_25_check_tells_three_reasons_and_exits_78() {
    let mut reasons = BTreeSet::new();
    for errno in ERRNOS {
        let output = check(Some(errno), &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{errno}: {text}{stderr}");
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{stderr}"));
        assert_eq!(report["verdict"]["holds"], false, "{errno}: {text}");
        assert_eq!(report["kernel"]["unavailable"]["errno"], errno, "{text}");
        reasons.insert(report["verdict"]["reason"].as_str().unwrap().to_owned());
    }
    assert_eq!(reasons.len(), ERRNOS.len(), "{reasons:#?}");
}

#[test]
fn check_exits_0_where_nothing_is_faked() {
    let output = check(None, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["verdict"]["holds"], true, "{text}");
    assert!(report["kernel"]["abi"].as_u64().unwrap() > 0, "{text}");
    assert!(report["kernel"]["errata"].is_u64(), "{text}");
    for profile in report["profiles"].as_array().unwrap() {
        assert_eq!(profile["holds"], true, "{profile}");
    }
}

#[tokio::test]
async fn case_25_launches_and_files_are_refused_with_the_reason() {
    for errno in ERRNOS {
        let server = Server::builder().under(&[OsStr::new(WRAPPER), OsStr::new(errno)]).start();
        let mut client = Client::open(&server).await;
        let mut messages = Vec::new();
        for mode in [
            Value::Null,
            json!({"mode": "readOnly"}),
            json!({"mode": "workspaceWrite"}),
            json!({"mode": "none"}),
        ] {
            let params = json!({
                "processId": format!("p-{}", messages.len()), "argv": ["touch", "made"], "cwd": server.workspace(),
                "env": {"PATH": "/usr/bin:/bin"}, "tty": false, "sandbox": mode,
            });
            let error = client.call("process/start", params).await.unwrap_err();
            assert_eq!(error["data"]["kind"], "sandboxUnavailable", "{errno} {mode}: {error}");
            messages.push(error["message"].as_str().unwrap().to_owned());
        }
        assert!(messages.iter().all(|message| message.contains(errno)), "{messages:?}");
        assert!(!server.workspace().join("made").exists(), "nothing ran");

        std::fs::write(server.workspace().join("there"), "x").unwrap();
        let params = json!({"path": server.workspace().join("there")});
        let error = client.call("fs/readFile", params).await.unwrap_err();
        assert!(error["message"].as_str().unwrap().contains(errno), "{error}");
    }
}

/// The same over stdio; without a fake it runs.
#[test]
fn case_25_over_stdio() {
    for errno in ERRNOS.map(Some).into_iter().chain([None]) {
        let scratch = Scratch::new();
        let mut command = match errno {
            Some(_) => Command::new(WRAPPER),
            None => Command::new(programs::sandbox_sidecar()),
        };
        if let Some(errno) = errno {
            command.arg(errno).arg(programs::sandbox_sidecar());
        }
        command.args(["serve", "--listen", "stdio://", "--admin-listen", "", "--audit-sink", "none"]);
        command.arg("--workspace-root").arg(scratch.workspace());
        clean_environment(&mut command, &scratch);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let start = json!({
            "processId": "p", "argv": ["touch", "made"], "cwd": scratch.workspace(),
            "env": {"PATH": "/usr/bin:/bin"}, "tty": false,
        });
        let mut stdin = child.stdin.take().unwrap();
        for message in [
            json!({"id": 1, "method": "initialize", "params": {"clientName": "e2e"}}),
            json!({"method": "initialized", "params": {}}),
            json!({"id": 2, "method": "process/start", "params": start}),
            json!({"id": 3, "method": "fs/readDirectory", "params": {"path": scratch.workspace()}}),
            json!({"id": 4, "method": "process/wait", "params": {"processId": "p"}}),
        ] {
            writeln!(stdin, "{message}").unwrap();
        }
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut answers: Vec<Value> = lines
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
            .filter(|message| message["id"].is_u64())
            .take(4)
            .collect();
        answers.sort_by_key(|answer| answer["id"].as_u64());
        drop(stdin);
        child.wait().unwrap();
        for answer in &answers[1..3] {
            let message = answer["error"]["message"].as_str();
            assert_eq!(message.is_some(), errno.is_some(), "{answer}");
            assert!(message.unwrap_or_default().contains(errno.unwrap_or_default()), "{answer}");
        }
        assert_eq!(scratch.workspace().join("made").exists(), errno.is_none());
    }
}

#[tokio::test]
async fn the_same_launch_runs_where_nothing_is_faked() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let finished = client
        .run(json!({
            "processId": "p", "argv": ["touch", "made"], "cwd": server.workspace(),
            "env": {"PATH": "/usr/bin:/bin"}, "tty": false,
        }))
        .await;
    assert_eq!(finished.code(), 0, "{finished:?}");
    assert!(server.workspace().join("made").exists());
    let params = json!({"path": server.workspace().join("made")});
    client.call("fs/readFile", params).await.expect("a file operation");
}
