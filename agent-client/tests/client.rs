//! The client core against a mock that commits faults: gaps, cuts, errors, floods.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mock;

use std::time::Duration;

use agent_client::client::{Client, Options};
use agent_client::protocol::process::{StartResult, TerminateParams, TerminateResult};
use agent_client::protocol::{ErrorData, ErrorKind, Method, RpcError};
use agent_client::{Error, Event, Events, transport};
use futures_util::{SinkExt as _, StreamExt as _};
use mock::{in_memory, on_tcp, start_params};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

async fn all(mut events: Events) -> Vec<Event> {
    let mut seen = Vec::new();
    while let Some(event) = events.recv().await {
        seen.push(event);
    }
    seen
}

fn failure(events: &[Event]) -> &str {
    match events.last() {
        Some(Event::Failed { reason }) => reason,
        other => panic!("expected Failed, got {other:?}"),
    }
}

fn bytes_of(events: &[Event]) -> Vec<u8> {
    events
        .iter()
        .filter_map(|e| if let Event::Output { bytes, .. } = e { Some(bytes.as_slice()) } else { None })
        .collect::<Vec<_>>()
        .concat()
}

async fn terminate(client: &Client, process_id: &str) -> Result<bool, Error> {
    let params =
        TerminateParams { process_id: process_id.to_owned(), pid: None, grace_ms: None, descendants: false };
    client.request::<_, TerminateResult>(Method::ProcessTerminate, &params).await.map(|r| r.running)
}

#[tokio::test]
async fn nothing_is_lost_before_the_first_poll() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        let start = peer.request("process/start").await;
        // Even output that overtakes the answer.
        peer.output("p", 1, b"early ").await;
        peer.answer(&start, json!({ "processId": "p" })).await;
        peer.output("p", 2, b"late").await;
        peer.exited("p", 3, 7).await;
        peer.closed("p", 4).await;
        let request = peer.request("process/terminate").await;
        peer.answer(&request, json!({ "running": false })).await;
    })
    .await;
    let (_, events) = client.start(&start_params("p")).await.unwrap();
    // Once this is answered, everything before it has arrived.
    assert!(!terminate(&client, "p").await.unwrap());
    let seen = all(events).await;
    assert_eq!(bytes_of(&seen), b"early late");
    assert!(matches!(&seen[2..], [Event::Exited(exit), Event::Closed] if exit.exit_code == 7));
    server.await.unwrap();
}

#[tokio::test]
async fn a_gap_fails_that_process_and_no_other() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.start().await;
        peer.output("gap", 1, b"a").await;
        peer.output("gap", 3, b"c").await;
        peer.exited("gap", 4, 0).await;
        peer.closed("gap", 5).await;
        peer.output("sound", 1, b"b").await;
        peer.exited("sound", 2, 0).await;
        peer.closed("sound", 3).await;
        peer.until_closed().await;
    })
    .await;
    let (_, gap) = client.start(&start_params("gap")).await.unwrap();
    let (_, sound) = client.start(&start_params("sound")).await.unwrap();
    let seen = all(gap).await;
    assert_eq!(bytes_of(&seen), b"a");
    assert_eq!(seen.len(), 2, "no exit is reported: {seen:?}");
    assert_eq!(failure(&seen), "output was lost: notification 2 was due and 3 came");
    assert_eq!(all(sound).await.last(), Some(&Event::Closed));
    client.close().await;
    server.await.unwrap();
}

#[tokio::test]
async fn a_cut_fails_every_open_process_and_request() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        for _ in 0..3 {
            peer.start().await;
        }
        peer.output("running", 1, b"a").await;
        peer.exited("exited", 1, 0).await;
        peer.exited("done", 1, 0).await;
        peer.closed("done", 2).await;
        peer.request("process/terminate").await;
        // Dropped without a word.
    })
    .await;
    let mut events = Vec::new();
    for id in ["running", "exited", "done"] {
        events.push(client.start(&start_params(id)).await.unwrap().1);
    }
    let pending = terminate(&client, "running").await.unwrap_err();
    assert!(matches!(pending, Error::ConnectionLost { .. }), "{pending}");

    let [running, exited, done] = <[Events; 3]>::try_from(events).unwrap();
    let seen = all(running).await;
    assert_eq!(bytes_of(&seen), b"a");
    assert!(failure(&seen).starts_with("the connection to the sidecar is lost: "), "{seen:?}");
    // It exited with 0, but not all of its output may have come.
    failure(&all(exited).await);
    assert_eq!(all(done).await.last(), Some(&Event::Closed));

    let late = client.start(&start_params("late")).await.unwrap_err();
    assert!(matches!(late, Error::ConnectionLost { .. }), "{late}");
    server.await.unwrap();
}

#[tokio::test]
async fn the_reason_of_a_close_is_told() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        let frame = CloseFrame { code: 1009.into(), reason: "message of 70 MB".into() };
        peer.socket.send(Message::Close(Some(frame))).await.unwrap();
        peer.until_closed().await;
    })
    .await;
    let (_, events) = client.start(&start_params("p")).await.unwrap();
    let seen = all(events).await;
    assert!(failure(&seen).ends_with("the server closed it: message of 70 MB (1009)"), "{seen:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        let first = peer.request("process/terminate").await;
        let second = peer.request("process/terminate").await;
        for request in [second, first] {
            let running = request.params["processId"] == "b";
            peer.answer(&request, json!({ "running": running })).await;
        }
    })
    .await;
    let (a, b) = tokio::join!(terminate(&client, "a"), terminate(&client, "b"));
    assert_eq!((a.unwrap(), b.unwrap()), (false, true));
    server.await.unwrap();
}

#[tokio::test]
async fn errors_carry_the_servers_data_and_leave_the_id_free() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        let start = peer.request("process/start").await;
        let data = ErrorData { kind: Some(ErrorKind::SpawnNotFound), ..ErrorData::default() };
        peer.error(&start, RpcError::internal("no program x").with_data(&data)).await;
        peer.start().await;
        let start = peer.request("process/start").await;
        peer.answer(&start, json!([])).await;
    })
    .await;
    let refused = client.start(&start_params("p")).await.unwrap_err();
    assert_eq!(refused.data().unwrap().kind, Some(ErrorKind::SpawnNotFound));
    assert_eq!(refused.to_string(), "process/start: no program x (-32603)");
    let (StartResult { process_id, .. }, _events) = client.start(&start_params("p")).await.unwrap();
    assert_eq!(process_id, "p");
    let twice = client.start(&start_params("p")).await.unwrap_err();
    assert!(matches!(twice, Error::ProcessExists { .. }), "{twice}");
    let odd = client.start(&start_params("q")).await.unwrap_err();
    assert!(matches!(odd, Error::Answer { method: "process/start", .. }), "{odd}");
    server.await.unwrap();
}

/// The clock only moves when every task waits: the timeout below means that nothing can move any more.
#[tokio::test(start_paused = true)]
async fn a_slow_consumer_stops_the_server_and_loses_nothing() {
    const CHUNKS: u64 = 200;
    let options = Options { queue_bytes: 32 << 10, ..Options::default() };
    let (sent, mut progress) = tokio::sync::watch::channel(0);
    let (client, server) = in_memory(options, |mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        for seq in 1..=CHUNKS {
            peer.output("p", seq, &[seq as u8; 4 << 10]).await;
            sent.send_replace(seq);
        }
        peer.exited("p", CHUNKS + 1, 0).await;
        peer.closed("p", CHUNKS + 2).await;
        peer.until_closed().await;
    })
    .await;
    let (_, events) = client.start(&start_params("p")).await.unwrap();
    let all_sent = progress.wait_for(|n| *n == CHUNKS);
    let held_back = tokio::time::timeout(Duration::from_secs(60), all_sent).await.is_err();
    assert!(held_back, "the server was not held back");
    assert!(*progress.borrow() < 20, "{} chunks of 4 KiB went into a queue of 32 KiB", *progress.borrow());

    let seen = all(events).await;
    let expected: Vec<u8> = (1..=CHUNKS).flat_map(|seq| [seq as u8; 4 << 10]).collect();
    assert!(bytes_of(&seen) == expected);
    assert_eq!(seen.last(), Some(&Event::Closed));
    client.close().await;
    server.await.unwrap();
}

#[tokio::test]
async fn a_consumer_that_is_gone_holds_nobody_back() {
    let options = Options { queue_bytes: 1 << 10, ..Options::default() };
    let (client, server) = in_memory(options, |mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        for seq in 1..=50 {
            peer.output("p", seq, &[0; 4 << 10]).await;
        }
        let request = peer.request("process/terminate").await;
        peer.answer(&request, json!({ "running": true })).await;
    })
    .await;
    drop(client.start(&start_params("p")).await.unwrap());
    assert!(terminate(&client, "p").await.unwrap());
    server.await.unwrap();
}

#[tokio::test]
async fn what_is_not_understood_ends_no_more_than_it_must() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.start().await;
        peer.notify("fs/changed", json!({})).await;
        peer.output("unknown", 9, b"x").await;
        peer.send(r#"{"id":77,"result":{}}"#.to_owned()).await;
        peer.send(r#"{"id":"x","method":"ask","params":{}}"#.to_owned()).await;
        peer.notify(
            "process/output",
            json!({ "processId": "bad", "seq": 1, "stream": "stdout", "chunk": "%" }),
        )
        .await;
        let binary = agent_client::protocol::frame::output(
            "good",
            1,
            agent_client::protocol::process::Stream::Pty,
            b"in a binary frame",
        );
        peer.socket.send(Message::binary(binary)).await.unwrap();
        peer.socket.send(Message::Ping("are you there".into())).await.unwrap();
        assert!(matches!(peer.socket.next().await, Some(Ok(Message::Pong(_)))));
        peer.send(r#"{"id":-1,"error":{"code":-32600,"message":"no JSON"}}"#.to_owned()).await;
        peer.until_closed().await;
    })
    .await;
    let (_, bad) = client.start(&start_params("bad")).await.unwrap();
    let (_, good) = client.start(&start_params("good")).await.unwrap();
    assert!(failure(&all(bad).await).contains("base64"));
    let seen = all(good).await;
    assert_eq!(bytes_of(&seen), b"in a binary frame");
    // The server could not read a message: whose answer will never come is not known, so all of it ends.
    assert!(failure(&seen).contains("could not read a message of ours: no JSON"), "{seen:?}");
    drop(client);
    server.await.unwrap();
}

#[tokio::test]
async fn closing_tells_the_processes() {
    let (client, server) = in_memory(Options::default(), |mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.until_closed().await;
    })
    .await;
    let (_, events) = client.start(&start_params("p")).await.unwrap();
    client.close().await;
    assert!(failure(&all(events).await).contains("this client closed it"));
    server.await.unwrap();
}

#[tokio::test]
async fn the_connection_lives_as_long_as_its_last_handle() {
    let (url, server) = on_tcp(|mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.exited("p", 1, 0).await;
        peer.closed("p", 2).await;
        peer.until_closed().await;
    })
    .await;
    let socket = transport::connect(&url, None, Duration::from_secs(10)).await.unwrap();
    let client = Client::handshake(socket, &Options::default()).await.unwrap();
    let (_, events) = client.start(&start_params("p")).await.unwrap();
    drop(client);
    assert_eq!(all(events).await.last(), Some(&Event::Closed));
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
    let (ours, _theirs) = tokio::io::duplex(1 << 10);
    let options = Options { initialize_timeout: Duration::from_secs(3), ..Options::default() };
    let error = Client::handshake(transport::in_process(ours).await, &options).await.unwrap_err();
    assert!(error.to_string().contains("did not answer initialize within 3s"), "{error}");
}
