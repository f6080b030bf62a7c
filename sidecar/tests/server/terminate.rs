//! Terminate leaves nothing of the launch, and touches nothing else.

use serde_json::json;

use crate::common::{Client, Fixture, alive, encode, with};

/// Starts `script`, waits until it says `up`, terminates it and follows it to its end.
async fn terminated(fixture: &Fixture, client: &mut Client, id: &str, script: &str) -> i64 {
    client.call("process/start", fixture.shell(id, script)).await;
    client.wait_for(id, "up").await;
    let params = json!({ "processId": id, "graceMs": 200 });
    assert_eq!(client.call("process/terminate", params.clone()).await, json!({ "running": true }));
    let transcript = client.follow(id).await;
    assert_eq!(transcript.exited["cause"], "terminated");
    assert_eq!(client.call("process/terminate", params).await, json!({ "running": false }));
    transcript.code()
}

/// The tree may outlive the command by the grace; a second launch's end is no event of the first's.
async fn gone(marker: &str) {
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    for _ in 0..1500 {
        if alive(marker) == 0 {
            return;
        }
        looks.tick().await;
    }
    panic!("{} processes {marker:?} are left", alive(marker));
}

/// Starts and terminates a script in which MARKER stands for what its processes are known by. None of them is left, and
/// another launch goes on.
pub(crate) async fn leaves_nothing(
    fixture: &Fixture,
    client: &mut Client,
    name: &str,
    marker: &str,
    script: &str,
) {
    // Every part of another launch must still work afterwards: the shell, its child, their pipes.
    let witness = format!("witness-{name}");
    let params = fixture.shell(&witness, "echo up; cat; echo end");
    client.call("process/start", with(params, "pipeStdin", json!(true))).await;
    client.wait_for(&witness, "up").await;
    terminated(fixture, client, name, &script.replace("MARKER", marker)).await;
    gone(marker).await;
    let write = json!({ "processId": witness, "chunk": encode("untouched\n") });
    client.call("process/write", write).await;
    client.wait_for(&witness, "untouched").await;
    client.call("process/signal", json!({ "processId": witness, "signal": "kill" })).await;
    assert_eq!(client.follow(&witness).await.out(), "up\nuntouched\n");
}

async fn ends_whole(name: &str, marker: &str, script: &str) {
    let fixture = Fixture::start().await;
    leaves_nothing(&fixture, &mut fixture.client().await, name, marker, script).await;
}

#[tokio::test]
async fn a_child_and_a_background_job() {
    ends_whole("plain", "81818181", "sleep MARKER & echo up; sleep MARKER").await;
}

#[tokio::test]
async fn a_setsid_child() {
    ends_whole("setsid", "82828282", "setsid sh -c 'sleep MARKER & sleep MARKER' & echo up; wait").await;
}

#[tokio::test]
async fn a_double_fork() {
    ends_whole("daemon", "83838383", "(setsid sh -c '(sleep MARKER &) ; exit 0' &) ; echo up; sleep MARKER")
        .await;
}

#[tokio::test]
async fn a_bounded_fork_bomb() {
    let script = "bomb() { i=0; while [ $i -lt 8 ]; do sleep MARKER & i=$((i+1)); done
        [ $1 -gt 0 ] && { (bomb $(($1-1))) & (setsid sh -c 'sleep MARKER' &) ; }; wait; }
        (bomb 10) & echo up; wait";
    ends_whole("bomb", "84848484", script).await;
}

#[tokio::test]
async fn what_ignores_sigterm() {
    ends_whole("stubborn", "85858585", "trap '' TERM; echo up; while :; do sleep MARKER; done").await;
}

#[tokio::test]
async fn a_stopped_tree() {
    ends_whole("stopped", "86868686", "sleep MARKER & kill -STOP $!; echo up; kill -STOP $$; wait").await;
}

#[tokio::test]
async fn a_handler_has_the_grace_to_end_well() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let script = "trap 'echo bye; exit 7' TERM; sleep 600 & echo up; wait";
    client.call("process/start", fixture.shell("p", script)).await;
    client.wait_for("p", "up").await;
    client.call("process/terminate", json!({ "processId": "p", "graceMs": 60_000 })).await;
    let transcript = client.follow("p").await;
    assert_eq!((transcript.out().as_str(), transcript.code()), ("up\nbye\n", 7));
}
