//! The end of a server, and of a client, under live sessions.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use e2e::server::clean_environment;
use e2e::{Client, Scratch, Server, programs, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// 1001 of RFC 6455: the server goes away.
const GOING_AWAY: u16 = 1001;

fn shell(server: &Server, process: &str, script: &str) -> Value {
    json!({ "processId": process, "argv": ["/bin/sh", "-c", script], "cwd": server.workspace(),
            "env": { "PATH": "/usr/bin:/bin" } })
}

/// A session that outlives its connection; its id.
async fn resumable(server: &Server) -> (Client, Value) {
    let mut client = Client::connect(server).await;
    let hello = json!({ "clientName": "e2e", "resumeSessionId": null });
    let session = client.call("initialize", hello).await.unwrap()["sessionId"].take();
    client.notify("initialized", json!({})).await;
    (client, session)
}

/// Whether a process has ended, reaped or not.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[tokio::test]
async fn an_upgrade_under_a_live_session_tells_the_truth() {
    let old = Server::start();
    let (mut client, session) = resumable(&old).await;
    let mark = format!("611.{}", std::process::id());
    let script = format!("trap 'echo bye; exit 3' TERM; sleep {mark} & echo up; wait");
    client.call("process/start", shell(&old, "p", &script)).await.unwrap();
    assert_eq!(client.of_process("p", "output").await["seq"], 1);
    let new = Server::start();
    old.signal(Signal::SIGTERM);
    // What it said, how it ended, and then why the connection ends.
    assert_eq!(client.of_process("p", "output").await["seq"], 2);
    let exited = client.of_process("p", "exited").await;
    assert_eq!((&exited["exitCode"], &exited["cause"]), (&json!(3), &json!("disconnect")));
    client.of_process("p", "closed").await;
    assert_eq!(client.closed().await, Some((GOING_AWAY, "the sidecar is shutting down".to_owned())));
    until("the old one has ended", || has_ended(old.pid())).await;
    assert_eq!(e2e::alive(&mark), 0);

    let mut client = Client::connect(&new).await;
    let resume = json!({ "clientName": "e2e", "resumeSessionId": session });
    let error = client.call("initialize", resume).await.unwrap_err();
    assert!(error["code"] == -32600 && error["message"].as_str().unwrap().contains("restart"), "{error}");
    let (mut client, _) = resumable(&new).await;
    assert_eq!(client.run(shell(&new, "p", "echo on it goes")).await.stdout, "on it goes\n");
}

/// One client reads nothing, and its command does not stop to write: the others hear the end, and it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_no_shutdown_up() {
    let server = Server::start();
    let mut stalled = Client::open(&server).await;
    let mark = format!("612.{}", std::process::id());
    stalled
        .call("process/start", shell(&server, "flood", &format!("trap '' TERM; yes {mark}")))
        .await
        .unwrap();
    let (mut client, _) = resumable(&server).await;
    client.call("process/start", shell(&server, "p", "echo up; exec sleep 600")).await.unwrap();
    client.of_process("p", "output").await;
    server.signal(Signal::SIGTERM);
    assert_eq!(client.of_process("p", "exited").await["cause"], "disconnect");
    assert_eq!(client.closed().await.map(|(code, _)| code), Some(GOING_AWAY));
    until("it has ended", || has_ended(server.pid())).await;
    assert_eq!(e2e::alive(&mark), 0);
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_hurries() {
    let server = Server::builder().config("limits.terminateGraceSeconds = 3600\n").start();
    let mut client = Client::open(&server).await;
    let mark = format!("613.{}", std::process::id());
    // No program of the loop's own, which a signal could meet between its fork and its exec.
    let script = format!(
        "mkfifo never; exec 3<>never; trap 'echo heard' TERM; echo up; while :; do read line <&3; done # {mark}"
    );
    client.call("process/start", shell(&server, "p", &script)).await.unwrap();
    client.of_process("p", "output").await;
    server.signal(Signal::SIGTERM);
    assert_eq!(client.of_process("p", "output").await["seq"], 2, "it has heard, and goes on");
    assert!(!has_ended(server.pid()) && e2e::alive(&mark) > 0, "there is an hour of grace");
    server.signal(Signal::SIGTERM);
    assert_eq!(client.of_process("p", "exited").await["exitCode"], 137);
    until("it has ended", || has_ended(server.pid())).await;
    assert_eq!(e2e::alive(&mark), 0);
}

/// A program with the client's end of a connection, and lines of the protocol to and from it.
fn killed(server: &Server, socket: &std::path::Path, hello: &Value, mark: &str) {
    let mut command = Command::new(programs::sandbox_sidecar());
    clean_environment(&mut command, server.scratch());
    command
        .arg("connect")
        .arg(format!("unix:{}", socket.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut input = program.stdin.take().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    let start = shell(server, "p", &format!("setsid sleep {mark} & echo up; exec sleep {mark}"));
    for frame in [
        json!({ "id": 1, "method": "initialize", "params": hello }),
        json!({ "method": "initialized" }),
        json!({ "id": 2, "method": "process/start", "params": start }),
    ] {
        writeln!(input, "{frame}").unwrap();
    }
    lines.find(|line| line.contains("process/output")).unwrap();
    assert!(e2e::alive(mark) > 0);
    program.kill().unwrap();
    program.wait().unwrap();
}

/// The client is a process of its own, and is killed: nothing of it says good-bye.
#[tokio::test]
async fn case_40_a_client_that_is_killed() {
    let scratch = Scratch::new();
    let socket = scratch.state().join("api.sock");
    let url = format!("unix://{}", socket.display());
    let server = Server::builder()
        .scratch(scratch)
        .config("limits.detachedTtlSeconds = 2\n")
        .arg("--listen")
        .arg(url)
        .start();
    let log = || server.log().matches("\"disconnected\"").count();
    for (hello, mark) in [
        (json!({ "clientName": "v0" }), format!("614.{}", std::process::id())),
        (json!({ "clientName": "v2", "resumeSessionId": null }), format!("615.{}", std::process::id())),
    ] {
        let before = log();
        killed(&server, &socket, &hello, &mark);
        if hello.get("resumeSessionId").is_some() {
            // The server knows that the client is gone, and its processes have the session's time.
            until("it is noticed", || log() > before).await;
            assert!(e2e::alive(&mark) > 0, "it may come back");
        }
        until("they are gone", || e2e::alive(&mark) == 0).await;
    }
}
