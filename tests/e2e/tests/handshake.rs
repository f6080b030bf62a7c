//! Who may connect, what comes first, and what a wrong frame gets.

use std::process::{Command, Stdio};

use e2e::client::{Client, dial, encode};
use e2e::http::{self, UPGRADE};
use e2e::server::{TOKEN, clean_environment};
use e2e::{Scratch, Server, programs};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message};

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

fn start(process: &str, argv: &[&str], server: &Server) -> Value {
    json!({"processId": process, "argv": argv, "cwd": server.workspace(), "env": {}, "tty": false})
}

#[tokio::test]
async fn a_token_is_asked_for() {
    let server = Server::start();
    for token in [None, Some(""), Some("wrong"), Some(&TOKEN[1..]), Some(&TOKEN[..TOKEN.len() - 1])] {
        match dial(server.url(), token, &[]).await {
            Err(Error::Http(answer)) => assert_eq!(answer.status(), 401, "{token:?}"),
            other => panic!("{token:?}: {other:?}"),
        }
    }
    let other_scheme = format!("Basic {TOKEN}");
    match dial(server.url(), None, &[("authorization", &other_scheme)]).await {
        Err(Error::Http(answer)) => assert_eq!(answer.status(), 401),
        other => panic!("{other:?}"),
    }
    dial(server.url(), Some(TOKEN), &[]).await.expect("the right token opens");
}

#[tokio::test]
async fn no_token_is_asked_for_when_that_is_turned_off() {
    let server = Server::builder().insecure().start();
    dial(server.url(), None, &[]).await.expect("no token is needed");
}

#[tokio::test]
async fn a_browser_page_is_refused() {
    for server in [Server::start(), Server::builder().insecure().start()] {
        for origin in ["http://127.0.0.1", "https://example.com", "null"] {
            match dial(server.url(), server.token(), &[("origin", origin)]).await {
                Err(Error::Http(answer)) => assert_eq!(answer.status(), 403, "{origin}"),
                other => panic!("{origin}: {other:?}"),
            }
        }
        dial(server.url(), server.token(), &[]).await.expect("without an Origin it opens");
    }
}

#[tokio::test]
async fn health_needs_no_token_and_tells_nothing() {
    let server = Server::start();
    server.wait_for_log("\"ready\"");
    for path in ["/readyz", "/livez", "/healthz"] {
        let answer = http::get(server.url(), path, &[]).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        for secret in [TOKEN, server.workspace().to_str().unwrap(), env!("CARGO_PKG_VERSION")] {
            assert!(!answer.body.contains(secret), "{path}: {answer:?}");
        }
    }
    // The positive control of the two: the upgrade on the same port does ask.
    assert_eq!(http::get(server.url(), "/", &UPGRADE).await.status, 401);
}

#[test]
fn an_open_listener_without_a_token_is_refused() {
    for address in ["0.0.0.0", "[::]"] {
        let scratch = Scratch::new();
        let mut command = Command::new(programs::sandbox_sidecar());
        command.args(["serve", "--insecure-no-auth", "--listen", &format!("ws://{address}:0")]);
        command.arg("--workspace-root").arg(scratch.workspace());
        clean_environment(&mut command, &scratch);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{address}: {stderr}");
        assert!(stderr.contains("insecureNoAuth"), "{stderr}");
        assert!(output.stdout.is_empty(), "nothing listens");
    }
}

#[tokio::test]
async fn calls_wait_for_the_handshake() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    for (before, group, method, params) in [
        ("call initialize", "exec", "process/start", start("p", &["true"], &server)),
        ("call initialize", "exec", "environment/info", json!({})),
        ("call initialize", "filesystem", "fs/getMetadata", json!({"path": server.workspace()})),
        ("send initialized", "exec", "process/start", start("p", &["true"], &server)),
        ("send initialized", "filesystem", "fs/getMetadata", json!({"path": server.workspace()})),
    ] {
        if before == "send initialized" && group == "exec" {
            client.initialize().await;
        }
        let error = client.call(method, params).await.unwrap_err();
        assert_eq!(error["code"], INVALID_REQUEST, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("client must {before} before using {group} methods")),
            "{message}"
        );
    }
    client.notify("initialized", json!({})).await;
    assert_eq!(client.run(start("p", &["true"], &server)).await.code(), 0);
}

#[tokio::test]
async fn a_second_initialize_is_refused() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let error = client.call("initialize", json!({"clientName": "e2e"})).await.unwrap_err();
    assert_eq!(error["code"], INVALID_REQUEST, "{error}");
    client.call("environment/info", json!({})).await.expect("the session lives on");
}

#[tokio::test]
async fn initialized_before_initialize_ends_the_connection() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    client.notify("initialized", json!({})).await;
    let (_, reason) = client.closed().await.expect("a close frame");
    assert!(reason.contains("initialize"), "{reason}");
}

#[tokio::test]
async fn what_is_out_of_the_protocol_ends_the_connection() {
    let server = Server::start();
    for frame in [json!({"method": "nonsense", "params": {}}), json!({"id": 99, "result": {}})] {
        let mut client = Client::open(&server).await;
        client.send(&frame).await;
        let (_, reason) = client.closed().await.expect("a close frame");
        assert!(!reason.is_empty(), "{frame}");
    }
}

#[tokio::test]
async fn initialize_tells_the_environment() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let result = client.initialize().await;
    assert_eq!(result["protocolVersion"], "exec-server.v0");
    assert!(!result["sessionId"].as_str().unwrap().is_empty());
    client.notify("initialized", json!({})).await;
    let info = client.call("environment/info", json!({})).await.unwrap();
    assert_eq!(info, result["environmentInfo"]);
    assert_eq!(info["platformOs"], "linux");
    let workspace = format!("file://{}", server.workspace().to_str().unwrap());
    assert_eq!(info["cwd"], workspace);
    assert_eq!(info["sidecar"]["workspaceRoot"], workspace);
    assert_eq!(info["sidecar"]["defaultProfile"], "workspaceWriteNoNetwork");
    let status = client.call("environment/status", json!({})).await.unwrap();
    assert_eq!(status, json!({"status": "ready"}));
}

#[tokio::test]
async fn frames_that_are_no_messages_are_answered() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for text in ["", "{", "[1,2]", "3", "{}", r#"{"id":1.5,"method":"m"}"#, r#"{"id":1}"#] {
        client.send_text(text).await;
        let frame = client.next().await.expect("the connection lives on");
        assert_eq!(frame["id"], -1, "{text}: {frame}");
        assert_eq!(frame["error"]["code"], INVALID_REQUEST, "{text}: {frame}");
    }
    client.call("environment/status", json!({})).await.expect("the session lives on");
}

#[tokio::test]
async fn ids_are_echoed_as_they_came() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for id in [json!(0), json!(-7), json!("7"), json!(""), json!(u64::MAX)] {
        client.send(&json!({"id": id, "method": "environment/status"})).await;
        let frame = client.next().await.unwrap();
        assert_eq!(frame, json!({"id": id, "result": {"status": "ready"}}));
    }
    // A binary frame that holds the same JSON, and the tolerated member.
    let text = r#"{"jsonrpc":"2.0","id":"b","method":"environment/status","params":{}}"#;
    client.send_message(Message::binary(text.as_bytes().to_vec())).await;
    assert_eq!(client.next().await.unwrap()["id"], "b");
}

#[tokio::test]
async fn methods_that_are_not_offered() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for method in ["http/request", "capabilities/list", "capabilityRoots/read", "process/nonsense", ""] {
        let error = client.call(method, json!({})).await.unwrap_err();
        assert_eq!(error["code"], METHOD_NOT_FOUND, "{method}: {error}");
    }
}

#[tokio::test]
async fn sessions_that_do_not_exist() {
    let server = Server::start();
    let mut client = Client::connect(&server).await;
    let params = json!({"clientName": "e2e", "resumeSessionId": "00000000-0000-4000-8000-000000000000"});
    let error = client.call("initialize", params).await.unwrap_err();
    assert_eq!(error["code"], INVALID_REQUEST, "{error}");
    assert!(error["message"].as_str().unwrap().contains("session"), "{error}");
}

#[tokio::test]
async fn processes_that_do_not_exist() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let error = client.call("process/read", json!({"processId": "nope"})).await.unwrap_err();
    assert_eq!(error["code"], INVALID_REQUEST, "{error}");
    assert_eq!(error["message"], "unknown process id nope");
    let write = json!({"processId": "nope", "chunk": encode("x")});
    let written = client.call("process/write", write).await.unwrap();
    assert_eq!(written, json!({"status": "unknownProcess", "accepted": false}));
    let ended = client.call("process/terminate", json!({"processId": "nope"})).await.unwrap();
    assert_eq!(ended, json!({"running": false}));
}

#[tokio::test]
async fn process_ids_are_unique() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let mut waiting = start("p", &["cat"], &server);
    waiting["pipeStdin"] = json!(true);
    client.call("process/start", waiting).await.unwrap();
    let error = client.call("process/start", start("p", &["true"], &server)).await.unwrap_err();
    assert_eq!(error["code"], INVALID_REQUEST, "{error}");
    assert_eq!(error["message"], "process p already exists");
    // The first one is untouched, and another session has ids of its own.
    let written =
        client.call("process/write", json!({"processId": "p", "chunk": encode("x\n")})).await.unwrap();
    assert_eq!(written["status"], "accepted");
    let mut other = Client::open(&server).await;
    assert_eq!(other.run(start("p", &["true"], &server)).await.code(), 0);
    client.call("process/terminate", json!({"processId": "p"})).await.unwrap();
    assert_eq!(client.finish("p").await.stdout, "x\n");
}

#[tokio::test]
async fn params_that_are_wrong() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let good = start("p", &["true"], &server);
    let with = |key: &str, value: Value| {
        let mut params = good.clone();
        params[key] = value;
        params
    };
    let error = client.call("process/start", with("argv", json!([]))).await.unwrap_err();
    assert_eq!(error["code"], INVALID_PARAMS, "{error}");
    assert_eq!(error["message"], "argv must not be empty");
    for params in [
        with("argv", json!("true")),
        with("argv", json!(["a\0b"])),
        with("cwd", json!("relative")),
        with("cwd", json!("file://elsewhere/x")),
        with("env", json!({"": "x"})),
        with("env", json!({"A=B": "x"})),
        with("env", json!({"A": "x\0y"})),
        with("processId", json!("")),
        with("processId", json!("x".repeat(257))),
        with("sandbox", json!({"mode": "nonsense"})),
        json!([]),
        json!({}),
    ] {
        let error = client.call("process/start", params.clone()).await.unwrap_err();
        assert_eq!(error["code"], INVALID_PARAMS, "{params}: {error}");
    }
    let error = client.call("fs/readFile", json!({"path": "relative"})).await.unwrap_err();
    assert_eq!(error["code"], INVALID_PARAMS, "{error}");
    assert_eq!(client.run(good).await.code(), 0, "the same without the fault runs");
}

#[tokio::test]
async fn a_network_that_cannot_be_managed_is_refused() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for (key, value) in [
        ("managedNetwork", json!({"mode": "full"})),
        ("networkProxy", json!({"url": "x"})),
        ("enforceManagedNetwork", json!(true)),
    ] {
        let mut params = start("p", &["true"], &server);
        params[key] = value;
        let error = client.call("process/start", params).await.unwrap_err();
        assert_eq!(error["code"], INVALID_REQUEST, "{key}: {error}");
    }
    let mut params = start("p", &["true"], &server);
    params["managedNetwork"] = Value::Null;
    params["networkProxy"] = Value::Null;
    params["enforceManagedNetwork"] = json!(false);
    assert_eq!(client.run(params).await.code(), 0);
}
