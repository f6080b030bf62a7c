//! A session over WebSockets. A line of the input is a message; one that starts with byte 2 drops the connection and makes
//! the next one, which resumes the session; one that starts with byte 3 goes out as it is, as a broken frame.

#![no_main]

use std::cell::RefCell;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sidecar_fuzz::{Fixture, fill, tame};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const DROP: u8 = 2;
const RAW: u8 = 3;
/// Bytes of an input that are looked at.
const MOST: usize = 16 << 10;
/// The id of the request whose answer ends a connection.
const FENCE: &str = "fence";

thread_local!(static FIXTURE: RefCell<Fixture> = RefCell::new(Fixture::start(Duration::from_secs(5))));

fuzz_target!(|input: &[u8]| {
    FIXTURE.with_borrow_mut(|fixture| {
        let mut session: Option<String> = None;
        // What is left of a session ends with the last connection.
        let input = [&input[..input.len().min(MOST)], b"\n{\"id\":0,\"method\":\"session/end\"}"].concat();
        for lines in input.split(|byte| *byte == DROP) {
            let socket = fixture.connect();
            let workspace = &fixture.workspace;
            let known = session.take().unwrap_or_default();
            let lines: Vec<Vec<u8>> = lines
                .split(|byte| *byte == b'\n')
                .filter_map(|line| match std::str::from_utf8(line) {
                    Ok(text) => tame(&fill(text, workspace, &known)).map(String::into_bytes),
                    Err(_) => Some(line.to_vec()),
                })
                .collect();
            fixture.run(async { session = connection(socket, &known, lines).await.or(Some(known)) });
        }
    });
});

/// One connection; gives the id of the session that it had.
async fn connection(stream: DuplexStream, known: &str, lines: Vec<Vec<u8>>) -> Option<String> {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let resume = if known.is_empty() { Value::Null } else { json!(known) };
    let initialize = json!({"id": "first", "method": "initialize", "params": {"clientName": "fuzz", "resumeSessionId": resume}});
    send(&mut socket, initialize.to_string().as_bytes()).await?;
    send(&mut socket, br#"{"method":"initialized"}"#).await?;
    for line in &lines {
        send(&mut socket, line).await?;
    }
    if lines.iter().any(|line| line.first() == Some(&RAW)) {
        // The server may wait for the rest of a frame, and take the next one for it: the end is all that is sure to come.
        socket.get_mut().shutdown().await.ok()?;
    } else {
        let fence = json!({"id": FENCE, "method": "environment/status"});
        send(&mut socket, fence.to_string().as_bytes()).await?;
    }
    let mut session = None;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let answer: Value = serde_json::from_str(&text).expect("an answer is JSON");
        if let Some(id) = answer["result"]["sessionId"].as_str() {
            session = Some(id.to_owned());
        }
        if answer["id"] == FENCE {
            break;
        }
    }
    session
}

/// `None` where the server has hung up.
async fn send(socket: &mut WebSocketStream<DuplexStream>, line: &[u8]) -> Option<()> {
    match (line, std::str::from_utf8(line)) {
        ([RAW, raw @ ..], _) => socket.get_mut().write_all(raw).await.ok(),
        (_, Ok(text)) => socket.send(Message::text(text)).await.ok(),
        (bytes, Err(_)) => socket.send(Message::binary(bytes.to_vec())).await.ok(),
    }
}
