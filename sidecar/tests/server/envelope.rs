//! Frames, ids, limits.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::common::{Fixture, decode, with};

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_connection_lives() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for frame in [
        Message::text("{"),
        Message::text("[]"),
        Message::text(r#"{"id":null,"method":"x"}"#),
        Message::binary(vec![0xff, 0xfe]),
        Message::binary(b"nope".to_vec()),
    ] {
        client.send_raw(frame).await;
        assert_eq!(client.response_to_nothing().await["error"]["code"], -32600);
    }
    client
        .send_raw(Message::binary(br#"{"jsonrpc":"2.0","id":77,"method":"environment/status"}"#.to_vec()))
        .await;
    assert_eq!(client.response(77).await["result"]["status"], "ready");
}

#[tokio::test]
async fn unknown_methods_and_bad_params() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let error = client.refused("http/request", json!({})).await;
    assert_eq!(error["code"], -32601);
    assert!(error["message"].as_str().expect("a message").contains("http/request"));
    assert_eq!(client.refused("process/read", json!({})).await["code"], -32602);
    assert_eq!(client.refused("fs/readFile", json!({ "path": "relative" })).await["code"], -32602);
}

#[tokio::test]
async fn a_message_over_the_limit_ends_its_own_connection_only() {
    let fixture = Fixture::with(|config| config.limits.message_bytes = 8192).await;
    let mut other = fixture.client().await;
    let mut client = fixture.client().await;
    let long = "x".repeat(9000);
    client.send_text(&json!({ "id": 5, "method": "environment/status", "params": long }).to_string()).await;
    let close = client.closed().await.expect("a close frame");
    assert_eq!(close.code, CloseCode::Size);
    assert!(close.reason.contains("limits.messageBytes"), "{close:?}");
    other.call("environment/status", json!({})).await;
}

#[tokio::test]
async fn requests_in_flight_are_bounded_by_number() {
    let fixture = Fixture::with(|config| config.limits.requests = 2).await;
    let mut client = fixture.client().await;
    client.call("process/start", with(fixture.command("p", &["cat"]), "pipeStdin", json!(true))).await;
    let wait = json!({ "processId": "p", "waitMs": 600_000 });
    let waiting = [
        client.request("process/read", wait.clone()).await,
        client.request("process/read", wait.clone()).await,
    ];
    let error = client.refused("process/read", wait).await;
    assert_eq!(error["code"], -32011);
    assert_eq!(error["data"]["limit"], "limits.requests");
    assert!(waiting[0] < waiting[1]);
}

#[tokio::test]
async fn requests_in_flight_are_bounded_by_bytes() {
    let fixture = Fixture::with(|config| config.limits.request_bytes = 100_000).await;
    let mut client = fixture.client().await;
    // Never reads: the write stays in flight once the pipe is full.
    client
        .call("process/start", with(fixture.command("p", &["sleep", "600"]), "pipeStdin", json!(true)))
        .await;
    let write = json!({ "processId": "p", "chunk": crate::common::encode(vec![0; 70_000]) });
    client.request("process/write", write.clone()).await;
    let error = client.refused("process/write", write).await;
    assert_eq!(error["code"], -32011);
    assert_eq!(error["data"]["limit"], "limits.requestBytes");
    client.call("process/signal", json!({ "processId": "p", "signal": "kill" })).await;
    client.follow("p").await;
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let content: Vec<u8> = (0..5 << 20).map(|i: u32| (i % 251) as u8).collect();
    std::fs::write(fixture.ws("large"), &content).expect("written");
    let read = client.call("fs/readFile", json!({ "path": fixture.ws("large") })).await;
    assert!(decode(&read["dataBase64"]) == content);
}

#[tokio::test]
async fn pings_are_answered_or_the_connection_ends() {
    use futures_util::StreamExt as _;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::protocol::Role;

    let fixture = Fixture::with(|config| config.limits.ping = std::time::Duration::from_millis(50)).await;
    let mut client = fixture.client().await;
    let (_, ended) = tokio::join!(
        async {
            // Reading sends the pongs that are due. Several pings pass.
            assert_eq!(client.run(fixture.shell("p", "sleep 0.5; echo x")).await.out(), "x\n");
        },
        async {
            // Never answers: what it reads goes past the library that would.
            let mut io = fixture.server.connect_in_process();
            let mut bytes = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut io, &mut bytes).await.expect("an end");
            bytes
        }
    );
    let mut replay = WebSocketStream::from_raw_socket(std::io::Cursor::new(ended), Role::Client, None).await;
    let mut pings = 0;
    while let Some(Ok(frame)) = replay.next().await {
        pings += usize::from(frame.is_ping());
    }
    assert_eq!(pings, 2, "two pings stay unanswered, and there is no third");
}
