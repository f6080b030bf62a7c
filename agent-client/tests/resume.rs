//! A session over several connections, against a mock that cuts them where it hurts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mock;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent_client::client::{Client, Options};
use agent_client::protocol::process::{
    Signal, SignalParams, TerminateParams, TerminateResult, WriteParams, WriteResult,
};
use agent_client::protocol::{Method, RpcError};
use agent_client::{Error, Event, Events};
use mock::{Accepted, Mocks, Peer, resumable, start_params};
use serde_json::{Value, json};
use tokio::io::DuplexStream;

/// A client whose first connection is past the handshake, and what it is connected to.
async fn connected(retained_bytes: u64) -> (Client, Arc<Mocks>, Accepted, Peer<DuplexStream>) {
    let (mocks, mut accepted) = Mocks::new();
    let connector = Arc::clone(&mocks);
    let client = tokio::spawn(async move { Client::connect(connector, &Options::default()).await });
    let mut peer = accepted.next().await;
    peer.handshake(Some(resumable(60, retained_bytes))).await;
    (client.await.unwrap().unwrap(), mocks, accepted, peer)
}

async fn start(client: &Client, peer: &mut Peer<DuplexStream>, id: &str) -> Events {
    let params = start_params(id);
    let (started, _) = tokio::join!(client.start(&params), peer.start_acknowledged());
    started.unwrap().1
}

async fn next_bytes(events: &mut Events) -> Vec<u8> {
    match events.recv().await {
        Some(Event::Output { bytes, .. }) => bytes,
        other => panic!("{other:?}"),
    }
}

async fn failure(mut events: Events) -> String {
    loop {
        match events.recv().await {
            Some(Event::Failed { reason }) => return reason,
            Some(Event::Closed) | None => panic!("no failure"),
            Some(_) => {}
        }
    }
}

async fn ended(client: &Client) -> Result<TerminateResult, Error> {
    let params =
        TerminateParams { process_id: "p".to_owned(), grace_ms: None, descendants: false, pid: None };
    client.request(Method::ProcessTerminate, &params).await
}

#[tokio::test]
async fn output_goes_on_without_a_gap_or_a_repetition() {
    let (client, _mocks, mut accepted, mut peer) = connected(1 << 20).await;
    let mut events = start(&client, &mut peer, "p").await;
    peer.output("p", 1, b"a").await;
    peer.output("p", 2, b"b").await;
    assert_eq!(next_bytes(&mut events).await, b"a");
    drop(peer);

    let mut peer = accepted.next().await;
    // One is consumed, two have come: the server is told of the first, and what comes again is not told twice.
    assert_eq!(peer.handshake_again(vec![("p", 1)]).await, "s1");
    for (seq, text) in [(2, b"b"), (3, b"c")] {
        peer.output("p", seq, text).await;
    }
    peer.exited("p", 4, 3).await;
    peer.closed("p", 5).await;
    assert_eq!(next_bytes(&mut events).await, b"b");
    assert_eq!(next_bytes(&mut events).await, b"c");
    assert!(matches!(events.recv().await, Some(Event::Exited(exit)) if exit.exit_code == 3));
    assert_eq!(events.recv().await, Some(Event::Closed));
}

#[tokio::test]
async fn requests_are_repeated_where_twice_is_once() {
    let (client, _mocks, mut accepted, mut peer) = connected(1 << 20).await;
    let _events = start(&client, &mut peer, "p").await;
    let write = WriteParams { process_id: "p".into(), chunk: "eA==".into(), write_id: Some("w7".into()) };
    let signal = SignalParams { process_id: "p".to_owned(), signal: Signal::Interrupt, pid: None };
    let late = start_params("late");
    let play = async {
        let first = peer.request("process/write").await;
        peer.request("process/signal").await;
        peer.request("process/start").await;
        drop(peer);
        let mut peer = accepted.next().await;
        peer.handshake_again(vec![("p", 0), ("late", 0)]).await;
        let again = peer.request("process/write").await;
        assert_eq!(again.params, first.params);
        peer.answer(&again, json!({ "status": "accepted" })).await;
        let start = peer.request("process/start").await;
        assert_eq!(peer.notification("process/ack").await, json!({ "processId": "late", "seq": 0 }));
        // The first one had arrived.
        peer.error(&start, RpcError::invalid_request("process late already exists")).await;
        peer.output("late", 1, b"here").await;
        peer
    };
    let write = async { client.request::<_, WriteResult>(Method::ProcessWrite, &write).await };
    let signal = async { client.request::<_, Value>(Method::ProcessSignal, &signal).await };
    let (peer, written, signalled, started) = tokio::join!(play, write, signal, client.start(&late));
    assert!(written.unwrap().status == agent_client::protocol::process::WriteStatus::Accepted);
    let signalled = signalled.unwrap_err();
    assert!(matches!(signalled, Error::Interrupted { method: "process/signal" }), "{signalled}");
    let (result, mut events) = started.unwrap();
    assert!(result.enforcement.is_none());
    assert_eq!(next_bytes(&mut events).await, b"here");
    drop(peer);
}

#[tokio::test]
async fn an_expired_session_and_a_restarted_server_are_failures_that_say_so() {
    for words in ["session s1 has expired", "the sidecar was restarted"] {
        let (client, _mocks, mut accepted, mut peer) = connected(1 << 20).await;
        let events = start(&client, &mut peer, "p").await;
        peer.exited("p", 1, 0).await;
        let pending = ended(&client);
        let play = async {
            peer.request("process/terminate").await;
            drop(peer);
            let mut peer = accepted.next().await;
            let request = peer.request("initialize").await;
            peer.error(&request, RpcError::invalid_request(words)).await;
            peer.until_closed().await;
        };
        let (pending, ()) = tokio::join!(pending, play);
        assert!(
            matches!(&pending, Err(Error::ConnectionLost { reason }) if reason.contains(words)),
            "{pending:?}"
        );
        // Although it exited with 0: not all of its output may have come.
        let reason = failure(events).await;
        assert!(reason.contains(words), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up_when_the_session_must_be_gone() {
    let (client, mocks, _accepted, mut peer) = connected(1 << 20).await;
    let events = start(&client, &mut peer, "p").await;
    mocks.gone.store(true, Ordering::SeqCst);
    let at = tokio::time::Instant::now();
    drop(peer);
    let reason = failure(events).await;
    assert!(reason.contains("could not be reached within 1m"), "{reason}");
    let waited = at.elapsed();
    assert!(waited > Duration::from_secs(50) && waited <= Duration::from_secs(60), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_wait_out_an_absence() {
    let (client, mocks, mut accepted, peer) = connected(1 << 20).await;
    mocks.gone.store(true, Ordering::SeqCst);
    drop(peer);
    let back = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        mocks.gone.store(false, Ordering::SeqCst);
        let mut peer = accepted.next().await;
        peer.handshake_again(Vec::new()).await;
        let request = peer.request("process/terminate").await;
        peer.answer(&request, json!({ "running": true })).await;
        peer
    };
    let (ended, _peer) = tokio::join!(ended(&client), back);
    assert!(ended.unwrap().running);
}

#[tokio::test]
async fn a_violation_is_not_tried_again() {
    let (client, _mocks, _accepted, mut peer) = connected(1 << 20).await;
    let events = start(&client, &mut peer, "p").await;
    peer.send("no JSON".to_owned()).await;
    let reason = failure(events).await;
    assert!(reason.contains("broke the protocol"), "{reason}");
    assert!(client.request::<_, Value>(Method::ProcessList, &json!({})).await.is_err());
}

/// The clock only moves when every task waits, so an answer that waited behind output would never come.
#[tokio::test(start_paused = true)]
async fn nobody_waits_behind_the_output_of_a_slow_consumer() {
    const KEPT: usize = 256 << 10;
    let (client, _mocks, _accepted, mut peer) = connected(KEPT as u64).await;
    let mut events = start(&client, &mut peer, "p").await;
    let play = async {
        // All that a server sends without an acknowledgement.
        for seq in 1..=(KEPT / (4 << 10)) as u64 {
            peer.output("p", seq, &[b'x'; 4 << 10]).await;
        }
        let request = peer.request("process/terminate").await;
        peer.answer(&request, json!({ "running": true })).await;
        peer
    };
    let (answered, mut peer) =
        tokio::time::timeout(Duration::from_secs(600), async { tokio::join!(ended(&client), play) })
            .await
            .unwrap();
    assert!(answered.unwrap().running);
    // What is received is acknowledged, a part of what the server keeps at a time.
    for _ in 0..(KEPT / 4) / (4 << 10) {
        next_bytes(&mut events).await;
    }
    let ack = peer.notification("process/ack").await;
    assert_eq!(ack, json!({ "processId": "p", "seq": (KEPT / 4) / (4 << 10) }));
    // A consumer that is gone has everything.
    drop(events);
    assert_eq!(peer.notification("process/ack").await, json!({ "processId": "p", "seq": KEPT / (4 << 10) }));
    peer.output("p", 65, b"more").await;
    assert_eq!(peer.notification("process/ack").await, json!({ "processId": "p", "seq": 65 }));
}

#[tokio::test]
async fn closing_ends_what_would_outlive_the_connection() {
    let (client, _mocks, _accepted, mut peer) = connected(1 << 20).await;
    let summary = |id: &str, state: &str, background: bool| json!({ "processId": id, "state": state, "argv": [], "tty": false, "startedAtMs": 0, "background": background });
    let play = async {
        let request = peer.request("session/end").await;
        peer.error(&request, RpcError::method_not_found("session/end")).await;
        let request = peer.request("process/list").await;
        let processes = [
            summary("runs", "running", false),
            summary("over", "closed", false),
            summary("left", "closed", true),
        ];
        peer.answer(&request, json!({ "processes": processes })).await;
        for id in ["runs", "left"] {
            let request = peer.request("process/terminate").await;
            assert_eq!(request.params, json!({ "processId": id, "graceMs": 0, "descendants": true }));
            peer.answer(&request, json!({ "running": true })).await;
        }
        peer.until_closed().await;
    };
    tokio::join!(client.close(), play);
}

#[tokio::test]
async fn closing_ends_the_session_where_the_server_can() {
    let (client, _mocks, _accepted, mut peer) = connected(1 << 20).await;
    let play = async {
        let request = peer.request("session/end").await;
        peer.answer(&request, json!({})).await;
        peer.until_closed().await;
    };
    tokio::join!(client.close(), play);
}
