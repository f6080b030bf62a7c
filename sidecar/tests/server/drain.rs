//! The way out, and what a lost connection does.

use std::time::Duration;

use serde_json::json;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::common::{Fixture, alive, encode, with};

#[tokio::test]
async fn shutdown_ends_launches_tells_clients_and_lets_no_new_ones_in() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let mut late = fixture.bare_client().await;
    let marker = "71717171.1";
    client
        .call(
            "process/start",
            fixture.shell("p", &format!("trap 'echo bye; exit 3' TERM; sleep {marker} & echo up; wait")),
        )
        .await;
    client.wait_for("p", "up").await;
    fixture.server.shutdown().await;
    assert_eq!(alive(marker), 0);
    let transcript = client.follow("p").await;
    assert_eq!(transcript.out(), "up\nbye\n");
    assert_eq!((transcript.code(), &transcript.exited["cause"]), (3, &json!("disconnect")));
    assert_eq!(client.closed().await.expect("a close frame").code, CloseCode::Away);
    assert_eq!(late.closed().await.expect("a close frame").code, CloseCode::Away);
}

#[tokio::test]
async fn what_ignores_sigterm_is_killed_after_the_grace() {
    let fixture = Fixture::with(|config| config.limits.terminate_grace = Duration::from_millis(100)).await;
    let mut client = fixture.client().await;
    client
        .call(
            "process/start",
            fixture.shell("p", "trap '' TERM; echo up; while :; do sleep 72727272.1; done"),
        )
        .await;
    client.wait_for("p", "up").await;
    fixture.server.shutdown().await;
    assert_eq!(alive("72727272.1"), 0);
    assert_eq!(client.follow("p").await.code(), 137);
}

#[tokio::test]
async fn case_40_a_lost_connection_ends_its_processes_and_no_others() {
    let fixture = Fixture::start().await;
    let mut other = fixture.client().await;
    other.call("process/start", with(fixture.command("p", &["cat"]), "pipeStdin", json!(true))).await;
    let mut client = fixture.client().await;
    // A running command, and a background process of one that has exited.
    client.call("process/start", fixture.shell("p", "echo up; setsid sleep 73737373.1")).await;
    client.wait_for("p", "up").await;
    client
        .call("process/start", fixture.shell("q", "setsid sleep 73737373.1 >/dev/null 2>&1 & echo up"))
        .await;
    client.follow("q").await;
    assert!(alive("73737373.1") >= 2);
    drop(client);
    gone("73737373.1").await;
    other.call("process/write", json!({ "processId": "p", "chunk": encode("untouched") })).await;
    other.wait_for("p", "untouched").await;
}

/// Waits until no such process is left. The end of a session of somebody else's has no event to wait for.
async fn gone(marker: &'static str) {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..1500 {
        if alive(marker) == 0 {
            return;
        }
        looks.tick().await;
    }
    panic!("{} processes {marker:?} are left", alive(marker));
}
