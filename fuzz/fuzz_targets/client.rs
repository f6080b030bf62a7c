//! The client against a hostile server: each of its requests is answered by the next line of the input, after those that
//! start with byte 2, which are sent unasked.

#![no_main]

use std::path::Path;
use std::time::Duration;

use agent_client::client::Options;
use agent_client::protocol::{Method, WirePath, path::Spelling, process};
use agent_client::{Client, transport};
use futures_util::{SinkExt as _, StreamExt as _};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const UNASKED: u8 = 2;
const PATIENCE: Duration = Duration::from_secs(20);

thread_local! {
    static RUNTIME: tokio::runtime::Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
}

fuzz_target!(|input: &[u8]| {
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let (near, far) = tokio::io::duplex(256 << 10);
            let both = async { tokio::join!(client(near), server(far, input)) };
            tokio::time::timeout(PATIENCE, both).await.expect("it ends");
        });
    });
});

async fn client(stream: DuplexStream) {
    let connection = transport::in_process(stream).await;
    let Ok(client) = Client::handshake(connection, &Options::default()).await else { return };
    let params = json!({"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": false});
    let params: process::StartParams = serde_json::from_value(params).expect("params");
    if let Ok((_, mut events)) = client.start(&params).await {
        while let Some(_event) = events.recv().await {}
    }
    let path = json!({"path": "/"});
    let _ = client.request::<_, Value>(Method::FsReadDirectory, &path).await;
    if let Ok(mut watch) = client.watch(&WirePath::new(Path::new("/"), Spelling::Plain)).await {
        while let Some(_change) = watch.recv().await {}
    }
    client.close().await;
}

async fn server(stream: DuplexStream, input: &[u8]) {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let mut lines = input.split(|byte| *byte == b'\n').peekable();
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let Ok(request) = serde_json::from_str::<Value>(&text) else { return };
        if request["id"].is_null() {
            continue;
        }
        let answers = |line: &&[u8]| line.first() != Some(&UNASKED);
        loop {
            let Some(line) = lines.next() else { return };
            let last = answers(&line);
            let text = String::from_utf8_lossy(line.strip_prefix(&[UNASKED]).unwrap_or(line));
            let text = text.replace("$ID", &request["id"].to_string());
            if socket.send(Message::text(text)).await.is_err() {
                return;
            }
            if last {
                break;
            }
        }
        while let Some(line) = lines.next_if(|line| line.first() == Some(&UNASKED)) {
            let text = String::from_utf8_lossy(&line[1..]).into_owned();
            if socket.send(Message::text(text)).await.is_err() {
                return;
            }
        }
    }
}
