//! Bounds on a launch, what becomes of its background, and what lists and snapshots say.

use std::time::Duration;

use sandbox_sidecar::config::Background;
use serde_json::{Value, json};

use crate::common::{Client, Fixture, alive, decode, encode, with};

async fn gone(marker: &str) {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while alive(marker) > 0 {
        looks.tick().await;
    }
}

#[tokio::test]
async fn neither_output_nor_input_counts_as_idle() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let idle = |params| with(with(params, "pipeStdin", json!(true)), "idleTimeoutMs", json!(3_000));
    // Each lives for longer than it may be silent: one says something all the while, the other is told something.
    client
        .call("process/start", idle(fixture.shell("says", "for i in 1 2 3 4 5 6; do sleep 0.7; echo; done")))
        .await;
    client.call("process/start", idle(fixture.command("told", &["sleep", "600"]))).await;
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    for _ in 0..9 {
        ticks.tick().await;
        client.call("process/write", json!({ "processId": "told", "chunk": encode("x") })).await;
    }
    let summary = &client.call("process/list", json!({})).await["processes"][1];
    assert_eq!((&summary["processId"], &summary["state"]), (&json!("told"), &json!("running")));
    assert_eq!(client.follow("says").await.exited["cause"], "exit");
    assert_eq!(client.follow("told").await.exited["cause"], "idleTimeout");
}

#[tokio::test]
async fn an_exit_in_time_leaves_the_background_alone() {
    let fixture = Fixture::with(|config| config.limits.drain = Duration::ZERO).await;
    let mut client = fixture.client().await;
    let marker = "600.7301";
    let params = with(fixture.shell("p", &format!("sleep {marker} & echo up")), "timeoutMs", json!(60_000));
    assert_eq!(client.run(params).await.exited["cause"], "exit");
    let list = client.call("process/list", json!({})).await;
    assert_eq!(
        (&list["processes"][0]["state"], &list["processes"][0]["background"]),
        (&json!("closed"), &json!(true))
    );
    assert_eq!(alive(marker), 1);
    client.call("process/terminate", json!({ "processId": "p", "descendants": true })).await;
    gone(marker).await;
}

#[tokio::test]
async fn resource_limits_reach_the_command() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let limits =
        json!({ "openFiles": 77, "fileBytes": 1_048_576, "cpuSeconds": 50, "memoryBytes": 268_435_456 });
    let script = "ulimit -n; ulimit -f; ulimit -t; ulimit -d";
    let transcript = client.run(with(fixture.shell("p", script), "limits", limits)).await;
    assert_eq!(transcript.out(), "77\n2048\n50\n262144\n", "ulimit counts in 512 bytes, seconds, KiB");
}

#[tokio::test]
async fn a_limit_that_ends_a_command_is_its_cause() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let write = ["dd", "if=/dev/zero", "of=file", "bs=65536", "count=100"];
    let limited = with(fixture.command("file", &write), "limits", json!({ "fileBytes": 100_000 }));
    let exited = client.run(limited).await.exited;
    assert_eq!((&exited["signal"], &exited["cause"]), (&json!("SIGXFSZ"), &json!("limit")));
    let limited = with(fixture.shell("cpu", "while :; do :; done"), "limits", json!({ "cpuSeconds": 1 }));
    let exited = client.run(limited).await.exited;
    assert_eq!((&exited["signal"], &exited["cause"]), (&json!("SIGXCPU"), &json!("limit")));
    // The same signal from elsewhere is a signal.
    let exited = client.run(fixture.shell("other", "kill -XCPU $$")).await.exited;
    assert_eq!((&exited["signal"], &exited["cause"]), (&json!("SIGXCPU"), &json!("signal")));
}

#[tokio::test]
async fn too_many_processes_end_the_tree() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let marker = "600.7302";
    let script =
        |count: u32| format!("i=0; while [ $i -lt {count} ]; do sleep {marker} & i=$((i+1)); done; wait");
    let limits = json!({ "processes": 8 });
    client.call("process/start", with(fixture.shell("few", &script(4)), "limits", limits.clone())).await;
    let exited = client.run(with(fixture.shell("many", &script(20)), "limits", limits)).await.exited;
    assert_eq!((&exited["cause"], &exited["exitCode"]), (&json!("limit"), &json!(137)));
    let summary = client.call("process/list", json!({})).await;
    assert_eq!(summary["processes"][0]["state"], "running", "{summary}");
    client.call("process/terminate", json!({ "processId": "few" })).await;
    client.follow("few").await;
    gone(marker).await;
}

#[tokio::test]
async fn the_background_dies_with_its_command_where_the_config_says_so() {
    let fixture = Fixture::with(|config| config.background = Background::Kill).await;
    let mut client = fixture.client().await;
    let marker = "600.7303";
    let script = format!("setsid sleep {marker} & seq 20000");
    let transcript = client.run(fixture.shell("p", &script)).await;
    assert!(transcript.out().ends_with("20000\n"));
    assert_eq!((&transcript.exited["cause"], transcript.code()), (&json!("exit"), 0));
    gone(marker).await;
}

/// A container that is short of memory, as far as its files say.
pub(crate) fn cgroup(used: u64) -> tempfile::TempDir {
    let dir = crate::common::scratch();
    for (name, text) in [("memory.max", "1000000".to_owned()), ("memory.current", used.to_string())] {
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

#[tokio::test]
async fn short_of_memory_the_largest_launch_goes() {
    let dir = cgroup(949_999);
    let fixture = Fixture::with(|config| {
        config.memory_watch.cgroup = dir.path().to_owned();
        config.memory_watch.interval = Duration::from_millis(20);
    })
    .await;
    let mut client = fixture.client().await;
    let stdin = |params| with(params, "pipeStdin", json!(true));
    client.call("process/start", stdin(fixture.command("small", &["cat"]))).await;
    // 64 MiB in one process of a tree.
    let script = "head -c 67108864 /dev/zero | tail -c 67108864 | (sleep 600; cat) & echo up; wait";
    client.call("process/start", stdin(fixture.shell("large", script))).await;
    client.wait_for("large", "up").await;
    // tail reads all of its input before it writes.
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while largest_resident() < 60 << 20 {
        looks.tick().await;
    }
    let running = client.call("process/list", json!({})).await;
    assert_eq!(running["processes"].as_array().expect("a list").len(), 2);
    std::fs::write(dir.path().join("memory.current"), "950000").expect("written");
    let exited = client.follow("large").await.exited;
    std::fs::write(dir.path().join("memory.current"), "1").expect("written");
    assert_eq!((&exited["cause"], &exited["exitCode"]), (&json!("oom"), &json!(137)));
}

/// Of all `tail` processes here, bytes.
fn largest_resident() -> u64 {
    let resident = |entry: std::fs::DirEntry| {
        let comm = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        let statm = std::fs::read_to_string(entry.path().join("statm")).ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        (comm == "tail\n").then_some(pages * 4096)
    };
    std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(resident).max().unwrap_or(0)
}

async fn snapshot(client: &mut Client, id: &str) -> Value {
    client.call("process/snapshot", json!({ "processId": id })).await
}

#[tokio::test]
async fn a_snapshot_has_the_first_and_the_last() {
    let fixture = Fixture::with(|config| config.limits.retained_bytes = 65_536).await;
    let mut client = fixture.client().await;
    let whole = client.run(fixture.shell("p", "seq 100000; echo oops >&2")).await;
    let snapshot = snapshot(&mut client, "p").await;
    assert_eq!((&snapshot["closed"], &snapshot["exitCode"]), (&json!(true), &json!(0)));
    let out = &snapshot["streams"][0];
    let (head, tail) = (decode(&out["head"]), decode(&out["tail"]));
    assert!(head.len() == 16_384 && whole.stdout.starts_with(&head) && whole.stdout.ends_with(&tail));
    let dropped = usize::try_from(out["droppedBytes"].as_u64().expect("a count")).expect("small");
    assert_eq!(head.len() + dropped + tail.len(), whole.stdout.len());
    let err = &snapshot["streams"][1];
    assert_eq!((&err["stream"], decode(&err["head"])), (&json!("stderr"), b"oops\n".to_vec()));
}

#[tokio::test]
async fn a_list_is_in_the_order_of_the_starts() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for id in ["z", "a", "m"] {
        client.call("process/start", with(fixture.command(id, &["cat"]), "tty", json!(id == "a"))).await;
    }
    client.follow("z").await;
    let list = client.call("process/list", json!({})).await;
    let all = list["processes"].as_array().expect("a list");
    let ids: Vec<&str> = all.iter().map(|p| p["processId"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["z", "a", "m"]);
    assert_eq!(
        (&all[0]["exitCode"], &all[0]["argv"], &all[1]["tty"]),
        (&json!(0), &json!(["cat"]), &json!(true))
    );
    let pid = all[1]["pid"].as_i64().expect("a pid");
    assert_eq!(std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("alive"), "cat\n");
    assert!(all.iter().all(|p| p["startedAtMs"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000)));
    // Another session sees its own alone.
    assert_eq!(fixture.client().await.call("process/list", json!({})).await, json!({ "processes": [] }));
}
