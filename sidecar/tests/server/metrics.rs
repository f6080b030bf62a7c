//! Every metric that a test can provoke, provoked.

use std::time::Duration;

use sandbox_sidecar::config::AuditSink;
use serde_json::{Value, json};

use crate::admin::{Scrape, with_admin};
use crate::common::{Client, Fixture, scratch, with};
use crate::process_limits::cgroup;

const DEFAULT: &str = "workspaceWriteNoNetwork";

fn launches(tty: bool, outcome: &str) -> String {
    format!("sidecar_launches_total{{outcome=\"{outcome}\",profile=\"{DEFAULT}\",tty=\"{tty}\"}}")
}

fn with_tty(params: Value, tty: bool) -> Value {
    with(params, "tty", json!(tty))
}

#[tokio::test]
async fn launches_by_outcome_exits_by_cause() {
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.limits.processes = 3;
    })
    .await;
    let mut client = fixture.client().await;
    for tty in [false, true] {
        let suffix = if tty { "t" } else { "p" };
        let id = |name: &str| format!("{name}{suffix}");
        let shell = |name: &str, script: &str| with_tty(fixture.shell(&id(name), script), tty);
        client.run(shell("exit", "echo out")).await;
        client.run(shell("signal", "kill -KILL $$")).await;
        client.run(shell("denied", &format!("echo x > {}", fixture.outside("f").display()))).await;
        client.run(with(shell("timeout", "sleep 1000"), "timeoutMs", json!(50))).await;
        client.run(with(shell("idle", "sleep 1000"), "idleTimeoutMs", json!(50))).await;
        client.call("process/start", shell("ended", "echo up; sleep 1000")).await;
        client.wait_for(&id("ended"), "up").await;
        let scrape = Scrape::of(&fixture.server).await;
        assert_eq!(scrape.get(&format!("sidecar_processes{{tty=\"{tty}\"}}")), 1.0);
        client.call("process/terminate", json!({ "processId": id("ended") })).await;
        client.follow(&id("ended")).await;
        client.refused("process/start", with_tty(fixture.command(&id("none"), &["/none"]), tty)).await;
        client.refused("process/start", with_tty(fixture.command(&id("none"), &[]), tty)).await;
        // A program outside every root.
        std::fs::copy("/bin/true", fixture.outside("true")).expect("copied");
        let outside = fixture.outside("true");
        let forbidden = fixture.command(&id("none"), &[outside.to_str().expect("UTF-8")]);
        client.refused("process/start", with_tty(forbidden, tty)).await;
    }
    fill(&mut client, &fixture).await;
    let scrape = Scrape::of(&fixture.server).await;
    for tty in [false, true] {
        let count = |name: &str, label: &str, value: &str| {
            let labels = match label {
                "" => format!("tty=\"{tty}\""),
                label => format!("{label}=\"{value}\",tty=\"{tty}\""),
            };
            scrape.get(&format!("sidecar_{name}{{{labels}}}"))
        };
        for cause in ["exit", "signal", "timeout", "idleTimeout", "terminated"] {
            assert!(count("process_exits_total", "cause", cause) >= 1.0, "{cause} {tty}");
        }
        for reason in ["invalid", "spawnNotFound", "permissionDenied", "limit"] {
            assert!(count("launch_failures_total", "reason", reason) >= 1.0, "{reason} {tty}");
        }
        for outcome in ["started", "caller_error", "policy_refused", "limit"] {
            assert!(scrape.get(&launches(tty, outcome)) >= 1.0, "{outcome} {tty}");
        }
        assert_eq!(scrape.get(&launches(tty, "server_error")), 0.0);
        assert!(count("suspected_denials_total", "", "") >= 1.0);
        let started = scrape.get(&launches(tty, "started"));
        assert_eq!(count("launch_duration_seconds_count", "", ""), started);
        assert!(count("process_lifetime_seconds_count", "", "") >= 6.0);
        assert!(count("launch_duration_seconds_sum", "", "") > 0.0);
    }
    assert_eq!(scrape.get("sidecar_rejected_total{reason=\"processes\"}"), 2.0);
    for stream in ["stdout", "stderr", "pty"] {
        assert!(scrape.get(&format!("sidecar_output_bytes_total{{stream=\"{stream}\"}}")) > 0.0, "{stream}");
    }
    assert!(scrape.series() <= 300, "{} series", scrape.series());
    drop(client);
    fixture.server.shutdown().await;
}

/// More running processes than a session may have; the last two are refused.
async fn fill(client: &mut Client, fixture: &Fixture) {
    for number in 0..3 {
        client.call("process/start", fixture.shell(&format!("full{number}"), "sleep 1000")).await;
    }
    for tty in [false, true] {
        client.refused("process/start", with_tty(fixture.shell("over", "true"), tty)).await;
    }
}

#[tokio::test]
async fn a_ceiling_that_cannot_be_enforced_is_the_servers_fault() {
    let fixture = Fixture::with(|config| {
        with_admin(config);
        // No Landlock at all.
        config.sandbox.max_abi = Some(0);
    })
    .await;
    let mut client = fixture.client().await;
    client.refused("process/start", fixture.shell("p", "true")).await;
    let scrape = Scrape::of(&fixture.server).await;
    assert_eq!(scrape.get(&launches(false, "server_error")), 1.0);
    assert_eq!(scrape.get("sidecar_launch_failures_total{reason=\"sandboxUnavailable\",tty=\"false\"}"), 1.0);
    assert_eq!(scrape.get(&format!("sidecar_sandbox_info{{landlock_abi=\"0\",profile=\"{DEFAULT}\"}}")), 1.0);
}

#[tokio::test]
async fn output_that_is_dropped_and_output_that_waits() {
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.limits.retained_bytes = 65_536;
    })
    .await;
    let mut client = fixture.client().await;
    client.call("process/start", fixture.shell("p", "head -c 20000000 /dev/zero")).await;
    // Nobody reads until the command is held up: its output no longer grows.
    let mut scrape = Scrape::of(&fixture.server).await;
    let written = "sidecar_output_bytes_total{stream=\"stdout\"}";
    loop {
        let next = Scrape::of(&fixture.server).await;
        if next.get(written) > 0.0 && next.get(written) == scrape.get(written) {
            break;
        }
        scrape = next;
    }
    let transcript = client.follow("p").await;
    assert_eq!(transcript.stdout.len(), 20_000_000, "what was sent is not lost");
    let scrape = Scrape::of(&fixture.server).await;
    assert_eq!(scrape.get(written), 20_000_000.0);
    let dropped = scrape.get("sidecar_output_dropped_bytes_total");
    assert!((19_900_000.0..20_000_000.0).contains(&dropped), "{dropped}");
    assert!(scrape.get("sidecar_backpressure_seconds_total") > 0.0);
}

#[tokio::test]
async fn ends_for_lack_of_memory_and_by_limits() {
    let dir = cgroup(1);
    let tell = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.memory_watch.cgroup = dir.path().to_owned();
        config.memory_watch.interval = Duration::from_millis(20);
    })
    .await;
    let mut client = fixture.client().await;
    for (tty, kills) in [(false, 1.0), (true, 2.0)] {
        let id = |name: &str| format!("{name}{tty}");
        let limited =
            fixture.command(&id("limit"), &["dd", "if=/dev/zero", "of=file", "bs=65536", "count=9"]);
        let limited = with(with_tty(limited, tty), "limits", json!({ "fileBytes": 100_000 }));
        assert_eq!(client.run(limited).await.exited["cause"], "limit");
        let scrape = Scrape::of(&fixture.server).await;
        let exits = |scrape: &Scrape, cause: &str| {
            scrape.get(&format!("sidecar_process_exits_total{{cause=\"{cause}\",tty=\"{tty}\"}}"))
        };
        assert_eq!((exits(&scrape, "limit"), exits(&scrape, "oom")), (1.0, 0.0));
        assert_eq!(scrape.get("sidecar_oom_kills_total"), kills - 1.0);
        client.call("process/start", with_tty(fixture.shell(&id("oom"), "sleep 1000"), tty)).await;
        tell("memory.current", "950000");
        assert_eq!(client.follow(&id("oom")).await.exited["cause"], "oom");
        let scrape = Scrape::of(&fixture.server).await;
        assert_eq!(scrape.get("sidecar_memory_bytes"), 950_000.0);
        assert_eq!(scrape.get("sidecar_memory_limit_bytes"), 1_000_000.0);
        tell("memory.current", "1");
        assert_eq!((exits(&scrape, "limit"), exits(&scrape, "oom")), (1.0, 1.0));
        assert_eq!(scrape.get("sidecar_oom_kills_total"), kills, "the server's own count");
    }
    // Where the kernel counts, its number stands.
    tell("memory.events", "oom 9\noom_kill 7\n");
    assert_eq!(Scrape::of(&fixture.server).await.get("sidecar_oom_kills_total"), 7.0);
}

#[tokio::test]
async fn background_processes_are_counted_once() {
    let fixture = Fixture::with(with_admin).await;
    let mut client = fixture.client().await;
    let left = "setsid sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 & echo up";
    client.run(fixture.shell("p", left)).await;
    client.run(fixture.shell("q", left)).await;
    client.call("process/terminate", json!({ "processId": "p", "descendants": true })).await;
    let orphans = "sidecar_orphans_killed_total";
    // The call is answered before the order is obeyed, so this looks until it is.
    let mut scrape = Scrape::of(&fixture.server).await;
    while scrape.get(orphans) < 2.0 {
        scrape = Scrape::of(&fixture.server).await;
    }
    assert_eq!(scrape.get(orphans), 2.0);
    client.call("process/start", fixture.shell("r", "exec sleep 1000")).await;
    drop(client);
    while scrape.get(orphans) < 4.0 || scrape.get("sidecar_sessions{state=\"attached\"}") > 0.0 {
        scrape = Scrape::of(&fixture.server).await;
    }
    assert_eq!(scrape.get(orphans), 4.0, "a running command is none");
    assert_eq!(scrape.get("sidecar_process_exits_total{cause=\"disconnect\",tty=\"false\"}"), 1.0);
}

#[tokio::test]
async fn connections_sessions_requests_and_files() {
    let dir = scratch();
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.audit.sink = AuditSink::File(dir.path().join("audit"));
    })
    .await;
    let mut client = fixture.client().await;
    let other = fixture.client().await;
    let scrape = Scrape::of(&fixture.server).await;
    assert_eq!(scrape.get("sidecar_connections"), 2.0);
    assert_eq!(scrape.get("sidecar_sessions{state=\"attached\"}"), 2.0);
    assert_eq!(scrape.get("sidecar_requests_total{code=\"ok\",method=\"initialize\"}"), 2.0);
    drop(other);
    let file = fixture.ws("a");
    client.call("fs/writeFile", json!({ "path": file, "dataBase64": "" })).await;
    client.call("fs/readFile", json!({ "path": file })).await;
    client.call("fs/getMetadata", json!({ "path": file })).await;
    client.call("fs/readDirectory", json!({ "path": fixture.ws("") })).await;
    client.call("fs/createDirectory", json!({ "path": fixture.ws("d") })).await;
    let copy = json!({ "sourcePath": file, "destinationPath": fixture.ws("b"), "recursive": false });
    client.call("fs/copy", copy).await;
    client.call("fs/remove", json!({ "path": file })).await;
    client.refused("fs/readFile", json!({ "path": file })).await;
    let outside = json!({ "path": fixture.outside("x"), "dataBase64": "" });
    client.refused("fs/writeFile", outside).await;
    client.refused("fs/readFile", json!({})).await;
    client.refused("no/such", json!({})).await;
    client.send_text("no JSON").await;
    client.response_to_nothing().await;
    let scrape = Scrape::of(&fixture.server).await;
    for operation in ["read", "write", "metadata", "list", "mkdir", "copy", "remove"] {
        let series = format!("sidecar_fs_operation_duration_seconds_count{{op=\"{operation}\"}}");
        assert!(scrape.get(&series) >= 1.0, "{operation}");
    }
    let error = |op: &str, reason: &str| {
        scrape.get(&format!("sidecar_fs_errors_total{{op=\"{op}\",reason=\"{reason}\"}}"))
    };
    assert_eq!((error("read", "notFound"), error("read", "invalid")), (1.0, 1.0));
    assert_eq!(error("write", "permissionDenied"), 1.0);
    let requests = |method: &str, code: &str| {
        scrape.get(&format!("sidecar_requests_total{{code=\"{code}\",method=\"{method}\"}}"))
    };
    assert_eq!((requests("fs/readFile", "ok"), requests("fs/readFile", "-32004")), (1.0, 1.0));
    assert_eq!((requests("other", "-32601"), requests("other", "-32600")), (1.0, 1.0));
    assert!(scrape.get("sidecar_audit_events_total{outcome=\"written\"}") >= 3.0);
    fixture.server.reload().await;
    let scrape = Scrape::of(&fixture.server).await;
    assert_eq!(scrape.get("sidecar_config_reloads_total{outcome=\"ok\"}"), 1.0);
}

#[tokio::test]
async fn what_is_rejected() {
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.limits.requests = 1;
        config.limits.message_bytes = 4096;
        config.limits.terminate_grace = Duration::from_millis(100);
    })
    .await;
    let mut client = fixture.client().await;
    client.call("process/start", fixture.shell("p", "sleep 1000")).await;
    let waiting = json!({ "processId": "p", "afterSeq": 0, "waitMs": 60_000 });
    client.request("process/read", waiting.clone()).await;
    client.refused("process/read", waiting).await;
    client.send_text(&"x".repeat(5000)).await;
    client.closed().await;
    let scrape = Scrape::of(&fixture.server).await;
    for reason in ["requests", "messageBytes"] {
        assert_eq!(scrape.get(&format!("sidecar_rejected_total{{reason=\"{reason}\"}}")), 1.0, "{reason}");
    }
    fixture.server.shutdown().await;
}
