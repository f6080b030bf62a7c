//! What the client counts and what the server counts, after a known number of launches: the same.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::gateway::{Gateway, TOKEN};
use e2e::scrape::{metrics, sum};
use e2e::{Client, Server};
use serde_json::{Value, json};

fn promtool(text: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool (Debian package prometheus; scripts/setup.sh tools)");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_and_server_count_the_same() {
    let server = Server::start();
    let server_metrics = server.admin_url();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap();
    drop(free);
    let local = Path::new("/nowhere/project");
    let listen = port.to_string();
    let gateway = Gateway::start(server.url(), server.scratch(), local, &["--metrics-listen", &listen]);
    let client_metrics = format!("ws://{port}");

    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    client.call("initialize", json!({ "clientName": "e2e", "resumeSessionId": null })).await.unwrap();
    client.notify("initialized", json!({})).await;
    let start = |id: String, argv: &[&str], tty: bool| -> Value {
        let env = json!({ "PATH": "/usr/bin:/bin" });
        json!({ "processId": id, "argv": argv, "cwd": local, "env": env, "tty": tty })
    };
    let mut output = [0_usize; 2];
    for n in 0..7 {
        for tty in [false, true] {
            let ended = client.run(start(format!("ok{n}{tty}"), &["echo", "hello"], tty)).await;
            output[usize::from(tty)] += ended.stdout.len();
        }
    }
    for n in 0..3 {
        let ended = client.run(start(format!("bad{n}"), &["false"], false)).await;
        assert_eq!(ended.code(), 1);
        let refused = start(format!("none{n}"), &["no-such-program"], n % 2 == 0);
        client.call("process/start", refused).await.unwrap_err();
    }
    let odd = json!({ "processId": "odd", "argv": [], "cwd": local, "env": {} });
    client.call("process/start", odd).await.unwrap_err();
    for (id, how) in [("killed", "process/signal"), ("ended", "process/terminate")] {
        client.call("process/start", start(id.to_owned(), &["sleep", "600"], id == "killed")).await.unwrap();
        client.call(how, json!({ "processId": id, "signal": "kill" })).await.unwrap();
        client.of_process(id, "closed").await;
    }

    let (ours, theirs) = (metrics(&client_metrics).await, metrics(&server_metrics).await);
    promtool(&ours);
    promtool(&theirs);
    for tty in ["true", "false"] {
        let tty = ("tty", tty);
        for outcome in ["started", "caller_error", "policy_refused", "limit", "server_error"] {
            let labels = [tty, ("outcome", outcome)];
            let here = sum(&ours, "agent_client_launches_total", &labels);
            assert_eq!(here, sum(&theirs, "sidecar_launches_total", &labels), "{labels:?}\n{ours}\n{theirs}");
        }
        for cause in ["exit", "signal", "timeout", "idleTimeout", "terminated", "disconnect", "oom", "limit"]
        {
            let labels = [tty, ("cause", cause)];
            let here = sum(&ours, "agent_client_exits_total", &labels);
            assert_eq!(here, sum(&theirs, "sidecar_process_exits_total", &labels), "{labels:?}");
        }
        for (here, there) in [
            ("agent_client_launch_duration_seconds_count", "sidecar_launch_duration_seconds_count"),
            ("agent_client_run_duration_seconds_count", "sidecar_process_lifetime_seconds_count"),
        ] {
            assert_eq!(sum(&ours, here, &[tty]), sum(&theirs, there, &[tty]), "{here}");
        }
    }
    let written = |streams: &[&str]| -> f64 {
        streams.iter().map(|s| sum(&theirs, "sidecar_output_bytes_total", &[("stream", s)])).sum()
    };
    for (tty, streams) in [(false, &["stdout", "stderr"][..]), (true, &["pty"][..])] {
        let here = sum(&ours, "agent_client_output_bytes_total", &[("tty", &tty.to_string())]);
        assert_eq!(here, output[usize::from(tty)] as f64);
        assert_eq!(here, written(streams));
    }
    // And both are what was done.
    let started = |tty| sum(&ours, "agent_client_launches_total", &[("tty", tty), ("outcome", "started")]);
    assert_eq!((started("true"), started("false")), (8.0, 11.0));
    let refused =
        |tty| sum(&ours, "agent_client_launches_total", &[("tty", tty), ("outcome", "caller_error")]);
    assert_eq!((refused("true"), refused("false")), (2.0, 2.0));
    let ended = |cause| sum(&ours, "agent_client_exits_total", &[("cause", cause)]);
    assert_eq!((ended("exit"), ended("signal"), ended("terminated"), ended("lost")), (17.0, 1.0, 1.0, 0.0));
    assert_eq!(sum(&ours, "agent_client_connected", &[]), 1.0);
}
