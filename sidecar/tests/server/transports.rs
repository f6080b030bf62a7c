//! What each transport has of its own, and what clients of three generations send.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use sandbox_sidecar::config::ListenUrl;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::common::{Client, Fixture, alive, scratch, uri, with};
use crate::lines::{Lines, Setting, Transport, over_each_transport, serve_stdio};

over_each_transport![what_is_no_message, three_generations];

async fn what_is_no_message(mut setting: Setting) {
    let client = &mut setting.client;
    for text in ["{", "[]", r#"{"id":null,"method":"x"}"#, "nonsense"] {
        client.send_text(text).await;
        assert_eq!(client.response_to_nothing().await["error"]["code"], -32600, "{text}");
    }
    if setting.transport != Transport::Ws {
        client.send_text("").await;
        client.send_text("  \r").await;
    }
    client.send_text(r#"{"jsonrpc":"2.0","id":77,"method":"process/list"}"#).await;
    assert_eq!(client.response(77).await["result"], json!({ "processes": [] }));
    let escaped =
        with(setting.fixture.command("p", &["printf", "%s", "a\nb"]), "cwd", json!(setting.fixture.ws("")));
    assert_eq!(client.run(escaped).await.out(), "a\nb");
}

/// The start of each generation, the write of each, and the spelling of paths that comes back.
async fn three_generations(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::write(fixture.ws("f"), "x").expect("written");
    let plain = json!(fixture.ws(""));
    let v0 = json!({ "processId": "v0", "argv": ["cat"], "cwd": plain, "env": {}, "pipeStdin": true });
    let v2 = with(with(v0.clone(), "processId", json!("v2")), "cwd", json!(uri(&fixture.ws(""))));
    for (id, start, write_id) in [("v0", v0, None), ("v2", v2, Some("w1"))] {
        client.call("process/start", start).await;
        let mut write = json!({ "processId": id, "chunk": "eA==" });
        for _ in 0..2 {
            if let Some(write_id) = write_id {
                write["writeId"] = json!(write_id);
            }
            let written = client.call("process/write", write.clone()).await;
            assert_eq!(written, json!({ "status": "accepted", "accepted": true }), "v0 and v1 read one each");
        }
        client.call("process/closeStdin", json!({ "processId": id })).await;
        let transcript = client.follow(id).await;
        assert_eq!(
            transcript.out(),
            if write_id.is_some() { "x" } else { "xx" },
            "only a writeId makes a repetition"
        );
    }
}

/// The client of a session that nobody can come back to is gone.
#[tokio::test]
async fn case_40_a_session_of_v0_ends_with_its_connection() {
    for transport in [Transport::Ws, Transport::Unix, Transport::Stdio] {
        let mut setting = Setting::start(transport).await;
        let marker = format!("600.7401{}", transport as u8);
        let (client, fixture) = (&mut setting.client, &setting.fixture);
        // A descendant that nobody would find by its group.
        let script = format!("setsid sleep {marker} & echo up; sleep {marker}");
        client.call("process/start", fixture.shell("p", &script)).await;
        client.wait_for("p", "up").await;
        setting.client = setting.fixture.bare_client().await;
        let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
        while alive(&marker) > 0 {
            looks.tick().await;
        }
    }
}

#[tokio::test]
async fn a_line_over_the_limit_ends_its_own_connection_only() {
    let sockets = scratch();
    let path = sockets.path().join("sock");
    let fixture = Fixture::with(|config| {
        config.limits.message_bytes = 8192;
        config.listen = vec![ListenUrl::Unix(path.clone())];
    })
    .await;
    let mut other = Client::linked(Lines::connect(&path).await);
    other.open().await;
    let mut client = Client::linked(Lines::connect(&path).await);
    client.open().await;
    client.send_text(&"x".repeat(8193)).await;
    let error = client.response_to_nothing().await["error"].take();
    assert_eq!(error["code"], -32600);
    assert!(error["message"].as_str().expect("a message").contains("limits.messageBytes"), "{error}");
    client.closed().await;
    other.call("process/list", json!({})).await;
    fixture.server.shutdown().await;
    assert!(!path.exists(), "the file goes with the server");
}

#[tokio::test]
async fn what_ends_a_line_connection_says_why() {
    let mut setting = Setting::start(Transport::Unix).await;
    setting.client.notify("nonsense", json!({})).await;
    let error = setting.client.response_to_nothing().await["error"].take();
    assert!(error["message"].as_str().expect("a message").contains("nonsense"), "{error}");
    setting.client.closed().await;
}

#[tokio::test]
async fn a_launch_is_refused_at_the_unix_socket() {
    // In the workspace, where a launch finds it: the server must not count on that it cannot.
    let fixture = Fixture::with(|config| {
        config.listen = vec![ListenUrl::Unix(config.workspace_root().join("sock"))];
    })
    .await;
    let path = fixture.ws("sock");
    assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    let mut outsider = Client::linked(Lines::connect(&path).await);
    outsider.open().await;
    let script =
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('sock'); print(s.makefile().readline())";
    let seen = outsider.run(fixture.command("p", &["python3", "-c", script])).await;
    assert!(seen.out().contains("launches may not"), "{:?} {:?}", seen.out(), seen.err());
}

#[tokio::test]
async fn connections_of_a_unix_socket_are_bounded() {
    let sockets = scratch();
    let path = sockets.path().join("sock");
    let fixture = Fixture::with(|config| {
        config.limits.connections = 1;
        config.listen = vec![ListenUrl::Unix(path.clone())];
    })
    .await;
    let mut first = Client::linked(Lines::connect(&path).await);
    first.open().await;
    let mut second = Client::linked(Lines::connect(&path).await);
    let refused = second.response_to_nothing().await;
    assert_eq!(refused["error"]["data"]["limit"], "limits.connections");
    second.closed().await;
    first.call("process/list", json!({})).await;
    drop(fixture);
}

#[tokio::test]
async fn the_last_line_needs_no_newline_and_the_answer_to_it_arrives() {
    let setting = Setting::start(Transport::Unix).await;
    let path = setting.socket_path();
    let mut stream = UnixStream::connect(&path).await.expect("connected");
    stream.write_all(b"nonsense").await.expect("sent");
    stream.shutdown().await.expect("half closed");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with(r#"{"id":-1,"error""#) && answer.ends_with('\n'), "{answer}");
}

#[tokio::test]
async fn the_end_of_stdin_is_the_end_of_a_server_that_has_nothing_else() {
    let workspace = scratch();
    let ended = tokio::task::spawn_blocking(move || {
        let mut child = serve_stdio(workspace.path());
        drop(child.stdin.take());
        let mut said = String::new();
        child.stdout.take().expect("stdout").read_to_string(&mut said).expect("text");
        (child.wait().expect("ended"), said)
    });
    let (status, said) = ended.await.expect("a result");
    assert!(status.success(), "{status}");
    assert_eq!(said, "", "stdout is the client's alone");
}
