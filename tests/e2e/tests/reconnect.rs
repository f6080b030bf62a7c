//! Connections that are cut in the middle: what runs goes on, and nothing is lost or told twice. Where it cannot go on,
//! the failure says why.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::client::decode;
use e2e::gateway::{Gateway, TOKEN};
use e2e::server::clean_environment;
use e2e::{Client, Proxy, Scratch, Server, programs};
use serde_json::json;

/// What the flood has, bytes.
const FLOOD: u64 = 50_000_000;

/// Writes random bytes, and keeps what it wrote.
const FLOOD_SCRIPT: &str = "head -c 50000000 /dev/urandom | tee flood";

/// A line each tenth of a second.
const SLOW_SCRIPT: &str = "for i in $(seq 60); do echo $i; sleep .1; done";

fn slow_output() -> String {
    (1..=60).map(|n| format!("{n}\n")).collect()
}

fn exec(url: &str, scratch: &Scratch, script: &str) -> Output {
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, scratch);
    command.args(["exec", "--sidecar-url", url]).arg("--token-file").arg(scratch.state().join("e2e-token"));
    command.args(["--", "sh", "-c", script]).current_dir(scratch.workspace()).stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs a script through a proxy, which `meddle` plays with meanwhile.
fn meddled(proxy: &Proxy, scratch: &Scratch, script: &str, meddle: impl FnOnce()) -> Output {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| exec(&proxy.url(), scratch, script));
        meddle();
        run.join().unwrap()
    })
}

/// Cuts, waits until the client has tried in vain, and lets it through again.
fn cut(proxy: &Proxy, attempts: usize) {
    proxy.cut();
    proxy.wait_for_attempts(attempts);
    proxy.restore();
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_flood_goes_on_where_it_was_cut() {
    let server = Server::start();
    let proxy = Proxy::new(server.url());
    let output = meddled(&proxy, server.scratch(), FLOOD_SCRIPT, || {
        for attempts in [1, 5, 1] {
            proxy.wait_for_bytes(FLOOD / 8);
            cut(&proxy, attempts);
        }
    });
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = fs::read(server.workspace().join("flood")).unwrap();
    assert_eq!(written.len() as u64, FLOOD);
    assert!(output.stdout == written, "{} bytes came, {} were written", output.stdout.len(), written.len());
}

#[test]
fn a_slow_stream_goes_on_where_it_was_cut() {
    let server = Server::start();
    let proxy = Proxy::new(server.url());
    let output = meddled(&proxy, server.scratch(), SLOW_SCRIPT, || {
        // The greeting, and a few lines.
        proxy.wait_for_bytes(2000);
        for attempts in [6, 1] {
            cut(&proxy, attempts);
            proxy.wait_for_bytes(500);
        }
    });
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), slow_output());
}

#[test]
fn a_session_that_has_expired_is_a_failure_that_says_so() {
    let server = Server::builder().config("limits.detachedTtlSeconds = 1\n").start();
    let proxy = Proxy::new(server.url());
    // Nobody listens any more: the client gives up when the session must be gone.
    let output = meddled(&proxy, server.scratch(), "echo begun; exec sleep 600", || {
        proxy.wait_for_bytes(2000);
        proxy.cut();
    });
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("could not be reached within 1s"), "{stderr}");
}

#[test]
fn a_server_that_was_restarted_is_a_failure_that_says_so() {
    let first = Server::start();
    let proxy = Proxy::new(first.url());
    let second = Server::start();
    let output = meddled(&proxy, first.scratch(), "echo begun; exec sleep 600", || {
        proxy.wait_for_bytes(2000);
        proxy.cut();
        proxy.lead_to(second.url());
        proxy.restore();
    });
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("the session cannot go on") && stderr.contains("restart"), "{stderr}");
}

/// Starts a script over a gateway whose way to the sidecar is cut by `meddle`; what the client sees of it. It checks
/// that the numbers of the notifications have no gap.
async fn over_gateway(
    server: &Server,
    script: &str,
    meddle: impl FnOnce(&Proxy) + Send + 'static,
) -> Vec<u8> {
    let proxy = Proxy::new(server.url());
    let gateway = Gateway::start(&proxy.url(), server.scratch(), Path::new("/nowhere/project"), &[]);
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    client.call("initialize", json!({ "clientName": "e2e", "resumeSessionId": null })).await.unwrap();
    client.notify("initialized", json!({})).await;
    let meddling = std::thread::spawn(move || {
        meddle(&proxy);
        proxy
    });
    let env = json!({ "PATH": "/usr/bin:/bin" });
    let params =
        json!({ "processId": "p", "argv": ["sh", "-c", script], "cwd": "/nowhere/project", "env": env });
    client.call("process/start", params).await.unwrap();
    let mut seen = Vec::new();
    for seq in 1_u64.. {
        let frame = client.next().await.expect("the client's own connection stays");
        let params = &frame["params"];
        assert_eq!(params["seq"], seq, "{frame:.300}");
        match frame["method"].as_str().unwrap() {
            "process/output" => seen.extend(decode(&params["chunk"])),
            "process/exited" => assert_eq!(params["exitCode"], 0),
            _ => break,
        }
    }
    drop(meddling.join().unwrap());
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_gateway_a_cut_is_a_pause() {
    let server = Server::start();
    let seen = over_gateway(&server, FLOOD_SCRIPT, |proxy| {
        for attempts in [3, 1] {
            proxy.wait_for_bytes(FLOOD / 8);
            cut(proxy, attempts);
        }
    })
    .await;
    let written = fs::read(server.workspace().join("flood")).unwrap();
    assert!(seen == written, "{} bytes came, {} were written", seen.len(), written.len());

    let seen = over_gateway(&server, SLOW_SCRIPT, |proxy| {
        proxy.wait_for_bytes(2000);
        cut(proxy, 4);
    })
    .await;
    assert_eq!(text(&seen), slow_output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateways_client_is_told_that_the_session_is_over() {
    let (first, second) = (Server::start(), Server::start());
    let proxy = Proxy::new(first.url());
    let gateway = Gateway::start(&proxy.url(), first.scratch(), Path::new("/nowhere/project"), &[]);
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    let greeting =
        client.call("initialize", json!({ "clientName": "e2e", "resumeSessionId": null })).await.unwrap();
    client.notify("initialized", json!({})).await;
    proxy.cut();
    proxy.lead_to(second.url());
    proxy.restore();
    let (code, reason) = client.closed().await.unwrap();
    assert_eq!(code, 1011);
    assert!(reason.contains("is lost"), "{reason}");
    // And so is a client that comes back to it.
    let mut again = Client::connect_to(gateway.url(), TOKEN).await;
    let resume = json!({ "clientName": "e2e", "resumeSessionId": greeting["sessionId"] });
    let error = again.call("initialize", resume).await.unwrap_err();
    assert_eq!(error["code"], -32600, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_resumes_its_session_through_another_gateway() {
    let server = Server::start();
    let start = |args: &'static [&'static str]| {
        Gateway::start(server.url(), server.scratch(), Path::new("/nowhere/project"), args)
    };
    let gateway = start(&[]);
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    let greeting =
        client.call("initialize", json!({ "clientName": "e2e", "resumeSessionId": null })).await.unwrap();
    client.notify("initialized", json!({})).await;
    let argv = ["sh", "-c", "echo one; read line; echo $line"];
    let params =
        json!({ "processId": "p", "argv": argv, "cwd": "/nowhere/project", "env": {}, "pipeStdin": true });
    client.call("process/start", params).await.unwrap();
    let first = client.of_process("p", "output").await;
    assert_eq!(decode(&first["chunk"]), b"one\n");
    drop(client);
    drop(gateway);

    let gateway = start(&[]);
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    let resume = json!({ "clientName": "e2e", "resumeSessionId": greeting["sessionId"] });
    client.call("initialize", resume).await.unwrap();
    client.notify("initialized", json!({})).await;
    let write = json!({ "processId": "p", "chunk": e2e::client::encode("two\n") });
    assert_eq!(client.call("process/write", write).await.unwrap()["status"], "accepted");
    let read = json!({ "processId": "p", "afterSeq": first["seq"], "waitMs": 60_000 });
    let read = client.call("process/read", read).await.unwrap();
    assert_eq!(decode(&read["chunks"][0]["chunk"]), b"two\n");
    client.of_process("p", "closed").await;
}

/// The library's own consumers are held back by acknowledgements, over a cut too.
#[test]
fn a_consumer_that_waits_through_a_cut_loses_nothing() {
    let server = Server::start();
    let proxy = Proxy::new(server.url());
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, server.scratch());
    command.args(["exec", "--sidecar-url", &proxy.url()]);
    command.arg("--token-file").arg(server.scratch().state().join("e2e-token"));
    command.args(["--", "seq", "1000000"]).current_dir(server.workspace());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // Nothing is read before the cut is over, so all that was sent waits in pipes and queues.
    proxy.wait_for_bytes(100_000);
    cut(&proxy, 2);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(|line| line.unwrap().parse::<u32>().unwrap()).eq(1..=1_000_000));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
