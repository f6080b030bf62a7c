//! Connecting: the token on its way, and each way in which it can fail, told by what to do about it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mock;

use std::path::Path;
use std::time::Duration;

use agent_client::transport::{self, SidecarUrl};
use agent_client::{Config, Environment, Error, ExecBackend, Launch, config::Layer};
use mock::{listen, on_tcp};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

const LIMIT: Duration = Duration::from_secs(10);

async fn failure(url: &SidecarUrl, token_file: Option<&Path>) -> String {
    transport::connect(url, token_file, LIMIT).await.unwrap_err().to_string()
}

/// Answers the upgrade with this, whatever it was.
async fn answering(reply: &'static str) -> SidecarUrl {
    let (url, listener) = listen().await;
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(tcp.read_u8().await.unwrap());
        }
        tcp.write_all(reply.as_bytes()).await.unwrap();
    });
    url
}

#[tokio::test]
async fn the_token_is_sent_without_its_newline() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, "s3cret\n").unwrap();
    let (url, listener) = listen().await;
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut seen = None;
        #[expect(clippy::result_large_err, reason = "the type of tungstenite's callback")]
        let keep = |request: &Request, response: Response| {
            seen = request.headers().get("authorization").cloned();
            Ok(response)
        };
        tokio_tungstenite::accept_hdr_async(tcp, keep).await.unwrap();
        seen
    });
    transport::connect(&url, Some(&token_file), LIMIT).await.unwrap();
    assert_eq!(server.await.unwrap().unwrap(), "Bearer s3cret");
}

#[tokio::test]
async fn nobody_listening() {
    let (url, listener) = listen().await;
    drop(listener);
    let message = failure(&url, None).await;
    assert!(
        message.contains(&url.to_string()) && message.contains("check that sandbox-sidecar runs"),
        "{message}"
    );
}

#[tokio::test]
async fn a_listener_that_says_nothing() {
    let (url, _listener) = listen().await;
    let error = transport::connect(&url, None, Duration::from_millis(50)).await.unwrap_err();
    assert!(
        error.to_string().contains("within 50ms") && error.to_string().contains("connect_timeout"),
        "{error}"
    );
}

#[tokio::test]
async fn a_token_that_is_missing_or_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";

    let message = failure(&answering(refusal).await, None).await;
    assert!(message.contains("none was sent; set token_file"), "{message}");
    std::fs::write(&token_file, "wrong").unwrap();
    let message = failure(&answering(refusal).await, Some(&token_file)).await;
    assert!(message.contains("token_file") && message.contains("is not the sidecar's"), "{message}");
    assert!(!message.contains("wrong"), "the token is in the message: {message}");

    // These never get as far as a connection.
    let url = SidecarUrl::parse("ws://127.0.0.1:1").unwrap();
    for content in ["", "\n", "two words", "naïve"] {
        std::fs::write(&token_file, content).unwrap();
        let message = failure(&url, Some(&token_file)).await;
        assert!(message.contains("empty or not printable ASCII"), "{message}");
    }
    let message = failure(&url, Some(&dir.path().join("none"))).await;
    assert!(
        message.contains("cannot read the token from") && message.contains("set token_file"),
        "{message}"
    );
}

#[tokio::test]
async fn something_else_listening() {
    let url = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    assert!(failure(&url, None).await.contains("answered 404 instead of a WebSocket"));
    let url = answering("220 mail.example ESMTP\r\n\r\n").await;
    let message = failure(&url, None).await;
    assert!(message.contains("check that sidecar_url leads to a sandbox-sidecar"), "{message}");
}

/// What a launch looks like on the wire: the cwd mapped to the root that the server reports, and of the local
/// environment nothing.
#[tokio::test]
async fn a_launch_is_mapped_and_takes_no_local_environment_along() {
    let info = json!({
        "shell": { "name": "sh", "path": "/bin/sh" }, "cwd": "file:///srv/ws", "tempDir": "file:///tmp",
        "platformOs": "linux", "executorVersion": "1", "capabilities": {},
        "sidecar": {
            "version": "1", "workspaceRoot": "file:///srv/ws", "landlockAbi": 7, "profiles": [], "defaultProfile": "x",
            "limits": { "messageBytes": 1, "retainedBytes": 1, "retainedChunks": 1, "processes": 1 },
        },
    });
    let (url, server) = on_tcp(|mut peer| async move {
        peer.handshake(Some(info)).await;
        let start = peer.start().await;
        assert_eq!(start.params["cwd"], "/srv/ws/a b");
        assert_eq!(start.params["argv"], json!(["ls", "-l"]));
        assert_eq!(start.params["env"], json!({}));
        assert_eq!(start.params["envPolicy"]["inherit"], "core");
        assert_eq!(start.params["tty"], false);
        peer.until_closed().await;
    })
    .await;
    let flags = Layer { sidecar_url: Some(url.to_string()), ..Layer::default() };
    let config = Config::resolve(&[flags], Path::new("/nowhere/project")).unwrap();
    let environment = Environment::connect(&config).await.unwrap();
    let outside = environment.start(Launch::new(["ls"], "/nowhere/other")).await;
    assert!(matches!(outside, Err(Error::OutsideRoot { .. })));
    environment.start(Launch::new(["ls", "-l"], "/nowhere/project/a b")).await.unwrap();
    environment.close().await;
    server.await.unwrap();
}
