//! Who gets in over TCP.

use std::net::SocketAddr;

use sandbox_sidecar::config::source::Raw;
use sandbox_sidecar::config::{Config, Inputs};
use sandbox_sidecar::{Server, StartError, State};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::admin::Scrape;
use crate::common::{Client, scratch};

/// A server with listeners, and its workspace and state directory.
pub(crate) struct Listening {
    pub(crate) server: Server,
    token: String,
    pub(crate) dirs: [TempDir; 2],
}

impl Listening {
    /// The last of several flags of one key counts.
    pub(crate) async fn start(extra: Vec<(&'static str, Raw)>) -> Listening {
        let dirs = [scratch(), scratch()];
        let state = dirs[1].path().display().to_string();
        let mut flags = vec![
            ("adminListen", Raw::Text(String::new())),
            ("audit.sink", Raw::Text("none".into())),
            ("listen", Raw::List(vec!["ws://127.0.0.1:0".into()])),
            ("stateDir", Raw::Text(state)),
        ];
        flags.extend(extra);
        let inputs = Inputs { cwd: dirs[0].path().to_owned(), flags, ..Inputs::default() };
        let config = Config::load(&inputs).expect("valid");
        let server = Server::start(config).await.expect("the server starts");
        let token = std::fs::read_to_string(dirs[1].path().join("token")).unwrap_or_default();
        Listening { server, token: token.trim().to_owned(), dirs }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.local_addrs()[0]
    }

    /// The status of an upgrade with these headers; 101 where it got in and could do the handshake.
    pub(crate) async fn upgrade(&self, headers: &[(&'static str, &str)]) -> u16 {
        let mut request = format!("ws://{}/", self.addr()).into_client_request().expect("a request");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a value"));
        }
        let stream = TcpStream::connect(self.addr()).await.expect("connected");
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, response)) => {
                let mut client = Client::over(socket.into_inner()).await;
                client.call("initialize", json!({ "clientName": "tcp" })).await;
                response.status().as_u16()
            }
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                assert!(response.body().as_ref().is_none_or(|body| body.len() < 64), "no details");
                response.status().as_u16()
            }
            Err(e) => panic!("{e}"),
        }
    }

    async fn http(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.addr()).await.expect("connected");
        let text = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    async fn status(&self, request: &str) -> u16 {
        let answer = self.http(request).await;
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    }
}

#[tokio::test]
async fn the_generated_token_opens_and_nothing_else_does() {
    let listening = Listening::start(vec![]).await;
    let right = format!("Bearer {}", listening.token);
    assert_eq!(listening.token.len(), 64);
    assert_eq!(listening.upgrade(&[("authorization", &right)]).await, 101);
    assert_eq!(listening.upgrade(&[]).await, 401);
    assert_eq!(listening.upgrade(&[("authorization", "Bearer wrong")]).await, 401);
    assert_eq!(listening.upgrade(&[("authorization", &listening.token)]).await, 401);
}

#[tokio::test]
async fn case_39_a_browser_page_stays_out() {
    let origins = Raw::List(vec!["https://good.example".into()]);
    let listening = Listening::start(vec![("allowedOrigins", origins)]).await;
    let right = format!("Bearer {}", listening.token);
    let with = |origin| [("authorization", right.as_str()), ("origin", origin)];
    assert_eq!(listening.upgrade(&with("https://evil.example")).await, 403);
    assert_eq!(listening.upgrade(&with("null")).await, 403);
    assert_eq!(listening.upgrade(&with("https://good.example")).await, 101);
}

#[test]
fn case_39_a_listener_for_everybody_wants_a_token() {
    let load = |extra: Option<(&'static str, Raw)>| {
        let dirs = [scratch(), scratch()];
        let mut flags = vec![
            ("listen", Raw::List(vec!["ws://0.0.0.0:0".into()])),
            ("stateDir", Raw::Text(dirs[1].path().display().to_string())),
        ];
        flags.extend(extra);
        Config::load(&Inputs { cwd: dirs[0].path().to_owned(), flags, ..Inputs::default() })
    };
    let error = load(Some(("insecureNoAuth", Raw::Bool(true)))).expect_err("refused").to_string();
    assert!(error.contains("insecureNoAuth") && error.contains("tokenFile"), "{error}");
    load(None).expect("with a token it may listen");
}

#[tokio::test]
async fn without_auth_anybody_on_loopback_gets_in() {
    let listening = Listening::start(vec![("insecureNoAuth", Raw::Bool(true))]).await;
    assert_eq!(listening.upgrade(&[]).await, 101);
    assert_eq!(listening.upgrade(&[("origin", "http://localhost")]).await, 403);
}

#[tokio::test]
async fn health_needs_no_token_and_tells_only_the_state() {
    let listening = Listening::start(vec![]).await;
    assert_eq!(listening.status("GET /livez").await, 200);
    assert_eq!(listening.status("GET /readyz").await, 503);
    listening.server.set_state(State::Ready);
    assert!(listening.http("GET /readyz").await.ends_with("\r\n\r\nok\n"));
    assert_eq!(listening.status("HEAD /healthz").await, 200);
    assert_eq!(listening.status("GET /").await, 401);
    listening.server.shutdown().await;
}

#[tokio::test]
async fn what_is_no_upgrade_is_told_so() {
    let listening = Listening::start(vec![("insecureNoAuth", Raw::Bool(true))]).await;
    let answer = listening.http("GET /").await;
    assert!(
        answer.starts_with("HTTP/1.1 426 ") && answer.to_ascii_lowercase().contains("upgrade: websocket"),
        "{answer}"
    );
    assert_eq!(listening.status("POST /").await, 426);
}

#[tokio::test]
async fn connections_are_bounded() {
    let mut config = Config::embedded(scratch().keep()).expect("valid");
    config.listen = vec!["ws://127.0.0.1:0".parse().expect("a URL")];
    config.limits.connections = 1;
    let root = config.workspace_root().to_owned();
    let server = Server::start(config).await.expect("the server starts");
    let listening = Listening { server, token: String::new(), dirs: [scratch(), scratch()] };
    let request = format!("ws://{}/", listening.addr()).into_client_request().expect("a request");
    let stream = TcpStream::connect(listening.addr()).await.expect("connected");
    let (first, _) = tokio_tungstenite::client_async(request, stream).await.expect("the first gets in");
    assert_eq!(listening.upgrade(&[]).await, 503);
    assert_eq!(listening.status("GET /livez").await, 200);
    drop(first);
    std::fs::remove_dir_all(root).expect("removed");
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let listening = Listening::start(vec![]).await;
    let workspace = scratch();
    let mut config = Config::embedded(workspace.path().to_owned()).expect("valid");
    config.listen = vec![format!("ws://{}", listening.addr()).parse().expect("a URL")];
    match Server::start(config).await {
        Err(StartError::Listen { url, .. }) => assert_eq!(url.tcp(), Some(listening.addr())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_gets_in_and_who_does_not_is_counted_and_recorded_by_the_tokens_name() {
    let dir = scratch();
    let (tokens, trail) = (dir.path().join("tokens"), dir.path().join("audit.log"));
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(&tokens, format!("alice:{token}\n")).expect("written");
    let listening = Listening::start(vec![
        ("adminListen", Raw::Text("127.0.0.1:0".into())),
        ("audit.sink", Raw::Text(format!("file:{}", trail.display()))),
        ("tokenFile", Raw::Text(tokens.display().to_string())),
    ])
    .await;
    let right = format!("Bearer {token}");
    assert_eq!(listening.upgrade(&[("authorization", &right)]).await, 101);
    assert_eq!(listening.upgrade(&[]).await, 401);
    assert_eq!(listening.upgrade(&[("authorization", "Bearer guess")]).await, 401);
    assert_eq!(listening.upgrade(&[("authorization", &right), ("origin", "https://x.example")]).await, 403);
    std::fs::remove_file(&tokens).expect("removed");
    assert_eq!(listening.upgrade(&[("authorization", &right)]).await, 401);
    listening.server.reload().await;
    let scrape = Scrape::of(&listening.server).await;
    for reason in ["missing", "wrong", "unavailable"] {
        assert_eq!(
            scrape.get(&format!("sidecar_auth_failures_total{{reason=\"{reason}\"}}")),
            1.0,
            "{reason}"
        );
    }
    assert_eq!(scrape.get("sidecar_rejected_total{reason=\"origin\"}"), 1.0);
    assert_eq!(scrape.get("sidecar_config_reloads_total{outcome=\"failed\"}"), 1.0);
    listening.server.shutdown().await;
    let trail = std::fs::read_to_string(&trail).expect("a trail");
    assert!(!trail.contains(token) && !trail.contains("guess"), "no token is recorded");
    let events: Vec<Value> = trail.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |event: &str| events.iter().filter(|value| value["event"] == event).collect::<Vec<_>>();
    assert_eq!((of("session.open").len(), of("auth.failure").len()), (1, 3));
    assert_eq!(
        (&of("session.open")[0]["principal"], &of("session.open")[0]["client"]),
        (&json!("alice"), &json!("tcp"))
    );
    assert!(of("auth.failure")[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")));
}
