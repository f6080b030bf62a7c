//! What one launch takes comes back. By itself: the descriptors of a process are counted, and other tests open some too.

#[path = "server/common.rs"]
#[allow(dead_code, reason = "this test needs a part of it")]
mod common;

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Client, Fixture, with};

async fn round(fixture: &Fixture, client: &mut Client, number: usize) {
    let id = |kind: &str, i: usize| format!("{kind}-{number}-{i}");
    let tty = |params: Value| with(params, "tty", json!(true));
    for i in 0..40 {
        client.run(tty(fixture.command(&id("tty", i), &["true"]))).await;
        client.run(with(fixture.command(&id("pipes", i), &["true"]), "pipeStdin", json!(true))).await;
        client.refused("process/start", fixture.command(&id("missing", i), &["/no/such"])).await;
        client.refused("process/start", tty(fixture.command(&id("missing-tty", i), &["/no/such"]))).await;
        client.call("fs/getMetadata", json!({ "path": fixture.ws("") })).await;
    }
}

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("readable").count()
}

#[tokio::test]
async fn launches_leave_no_descriptors() {
    let fixture = Fixture::with(|config| config.limits.exited_ttl = Duration::ZERO).await;
    let mut client = fixture.client().await;
    // The first ones start threads and fill caches.
    round(&fixture, &mut client, 0).await;
    let before = open();
    round(&fixture, &mut client, 1).await;
    settle(before).await;
    assert!(open() <= before, "{before} descriptors before, {} after", open());
}

/// `closed` is told before the last descriptors go; there is no event for those.
async fn settle(expected: usize) {
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    for _ in 0..500 {
        looks.tick().await;
        if open() <= expected {
            return;
        }
    }
}
