//! The duty of a PID 1, seen from outside. Alone in its process, which becomes a subreaper.

use std::path::Path;

use futures_util::{SinkExt as _, StreamExt as _};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox_sidecar::config::Config;
use sandbox_sidecar::{Server, orphans};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

/// State and parent of a process; `None` once it is reaped.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn zombies_of_ours() -> usize {
    let own = i32::try_from(std::process::id()).expect("a pid");
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(state).filter(|state| *state == ('Z', own)).count()
}

/// A launch whose shim is killed leaves orphans to this process; launches beside it that exit, or never come up, each
/// keep their own answer.
#[tokio::test]
async fn orphans_are_reaped_and_every_launch_keeps_its_exit() {
    nix::sys::prctl::set_child_subreaper(true).expect("a subreaper");
    assert!(orphans::are_ours());
    let workspace = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let server =
        Server::start(Config::embedded(workspace.path().to_owned()).expect("valid")).await.expect("started");
    orphans::reap(server.sandbox().clone()).expect("reaps");
    let mut socket = WebSocketStream::from_raw_socket(server.connect_in_process(), Role::Client, None).await;
    let mut exits = std::collections::BTreeMap::new();
    let start = |id: String, argv: Value| {
        json!({ "id": id, "method": "process/start", "params":
            { "processId": id, "argv": argv, "cwd": workspace.path(), "env": { "PATH": "/usr/bin:/bin" } } })
    };
    let mut frames = vec![
        json!({ "id": 0, "method": "initialize", "params": { "clientName": "x" } }),
        json!({ "method": "initialized" }),
        start("victim".into(), json!(["sh", "-c", "sleep 600 & sleep 600"])),
        json!({ "id": "list", "method": "process/list" }),
    ];
    for i in 0..100 {
        frames.push(start(format!("missing-{i}"), json!(["/no/such"])));
        frames.push(start(format!("exit-{i}"), json!(["sh", "-c", format!("exit {i}")])));
    }
    for frame in frames {
        socket.send(Message::text(frame.to_string())).await.expect("sent");
        // One at a time: each answer is looked at before the next is asked for.
        let Some(id) = frame.get("id").cloned() else { continue };
        loop {
            let message = next(&mut socket).await;
            note_exit(&mut exits, &message);
            if message["id"] == id {
                match id.as_str() {
                    Some("list") => kill_shim(&message),
                    Some(id) if id.starts_with("missing") => {
                        assert_eq!(message["error"]["data"]["kind"], "spawnNotFound", "{message}");
                    }
                    _ => assert!(message["error"].is_null(), "{message}"),
                }
                break;
            }
        }
    }
    while exits.len() < 101 {
        let message = next(&mut socket).await;
        note_exit(&mut exits, &message);
    }
    assert_eq!(exits["victim"], 137);
    for i in 0..100 {
        assert_eq!(exits[&format!("exit-{i}")], i);
    }
    server.kill().await;
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    while zombies_of_ours() > 0 {
        looks.tick().await;
    }
}

async fn next<S>(socket: &mut WebSocketStream<S>) -> Value
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        if let Message::Text(text) = socket.next().await.expect("a frame").expect("a frame") {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

fn note_exit(exits: &mut std::collections::BTreeMap<String, i64>, message: &Value) {
    if message["method"] == "process/exited" {
        let params = &message["params"];
        let id = params["processId"].as_str().expect("an id").to_owned();
        exits.insert(id, params["exitCode"].as_i64().expect("a code"));
    }
}

/// The parent of the only process in the list.
fn kill_shim(list: &Value) {
    let pid = list["result"]["processes"][0]["pid"].as_i64().expect("a pid");
    let (_, shim) = state(i32::try_from(pid).expect("a pid")).expect("it runs");
    kill(Pid::from_raw(shim), Signal::SIGKILL).expect("killed");
}
