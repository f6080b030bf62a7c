//! Sessions that outlive their connections: who gets them back, for how long, and what goes on meanwhile.

use std::time::Duration;

use sandbox_sidecar::config::AuthMode;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::admin::{Scrape, with_admin};
use crate::common::{Client, Fixture, alive, decode, encode, scratch, with};
use crate::lines::{Lines, Setting, Transport};

/// Does the handshake; gives the session's id. `Value::Null`: a new session.
pub(crate) async fn open(client: &mut Client, session: &Value) -> String {
    let id = initialize(client, session).await;
    client.notify("initialized", json!({})).await;
    id
}

async fn initialize(client: &mut Client, session: &Value) -> String {
    let params = json!({ "clientName": "test", "resumeSessionId": session });
    let result = client.call("initialize", params).await;
    result["sessionId"].as_str().expect("an id").to_owned()
}

/// Why a session is not to be had.
pub(crate) async fn refusal(client: &mut Client, session: &str) -> (i64, String) {
    let params = json!({ "clientName": "test", "resumeSessionId": session });
    let error = client.refused("initialize", params).await;
    (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a message").to_owned())
}

impl Fixture {
    /// A client with a session that can be resumed.
    pub(crate) async fn resumable(&self) -> (Client, String) {
        let mut client = self.bare_client().await;
        let id = open(&mut client, &Value::Null).await;
        (client, id)
    }

    /// A client that has come back.
    pub(crate) async fn resume(&self, session: &str) -> Client {
        let mut client = self.bare_client().await;
        assert_eq!(open(&mut client, &json!(session)).await, session);
        client
    }
}

/// Waits for what has no event to wait for.
pub(crate) async fn until(what: impl Fn() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while !what() {
        looks.tick().await;
    }
}

fn cat(fixture: &Fixture, id: &str) -> Value {
    with(fixture.command(id, &["cat"]), "pipeStdin", json!(true))
}

fn write(id: &str, text: &str, write_id: &str) -> Value {
    json!({ "processId": id, "chunk": encode(text), "writeId": write_id })
}

#[tokio::test]
async fn a_session_goes_on_where_it_was() {
    for transport in [Transport::Ws, Transport::Unix] {
        let mut setting = Setting::bare(transport).await;
        let session = open(&mut setting.client, &Value::Null).await;
        setting.client.call("process/start", cat(&setting.fixture, "p")).await;
        setting.client.call("process/write", write("p", "one\n", "w1")).await;
        setting.client.wait_for("p", "one").await;
        setting.client = setting.reconnect().await;
        assert_eq!(open(&mut setting.client, &json!(session)).await, session);
        // The answer was lost, as far as this client knows; the effect was not.
        for (text, write_id) in [("one\n", "w1"), ("two\n", "w2")] {
            let written = setting.client.call("process/write", write("p", text, write_id)).await;
            assert_eq!(written["status"], "accepted");
        }
        setting.client.wait_for("p", "two").await;
        let read = setting.client.call("process/read", json!({ "processId": "p" })).await;
        let text: Vec<u8> =
            read["chunks"].as_array().expect("chunks").iter().flat_map(|c| decode(&c["chunk"])).collect();
        assert_eq!(text, b"one\ntwo\n", "once each, over {transport:?}");
    }
}

#[tokio::test]
async fn what_was_asked_for_is_done_though_nobody_hears_of_it() {
    let fixture = Fixture::start().await;
    let (mut client, session) = fixture.resumable().await;
    client.call("process/start", fixture.command("told", &["sleep", "600"])).await;
    client.request("process/start", cat(&fixture, "p")).await;
    client.request("process/write", write("p", "early\n", "w")).await;
    client.request("process/terminate", json!({ "processId": "told" })).await;
    drop(client);
    let mut client = fixture.resume(&session).await;
    let again = client.refused("process/start", cat(&fixture, "p")).await;
    assert!(again["message"].as_str().expect("a message").contains("already exists"), "{again}");
    client.wait_for("p", "early").await;
    let ended = client.call("process/wait", json!({ "processId": "told" })).await;
    assert_eq!(ended["signal"], "SIGTERM");
}

#[tokio::test]
async fn the_end_is_known_to_whoever_comes_back() {
    let fixture = Fixture::with(|config| config.limits.exited_ttl = Duration::from_secs(1)).await;
    let (mut client, session) = fixture.resumable().await;
    let go = fixture.ws("go");
    let script =
        format!("until [ -e {} ]; do sleep 0.05; done; echo out; touch {0}-done; exit 7", go.display());
    client.call("process/start", fixture.shell("p", &script)).await;
    drop(client);
    std::fs::write(&go, "").expect("written");
    until(|| fixture.ws("go-done").exists()).await;
    // It is kept while nobody is there to ask for it, when one of another client that ended later is forgotten.
    let mut other = fixture.client().await;
    other.run(fixture.shell("q", "exit 7")).await;
    while other.call("process/list", json!({})).await["processes"] != json!([]) {
        other.refused("process/wait", json!({ "processId": "nobody" })).await;
    }
    let mut client = fixture.resume(&session).await;
    let read = client.call("process/read", json!({ "processId": "p", "waitMs": 20_000 })).await;
    assert_eq!(decode(&read["chunks"][0]["chunk"]), b"out\n");
    let ended = client.call("process/wait", json!({ "processId": "p" })).await;
    assert_eq!((&ended["exitCode"], &ended["closed"]), (&json!(7), &json!(true)));
}

#[tokio::test]
async fn case_40_nobody_comes_back_in_time() {
    let fixture = Fixture::with(|config| config.limits.detached_ttl = Duration::from_secs(1)).await;
    let (mut kept, _) = fixture.resumable().await;
    let (mut lost, session) = fixture.resumable().await;
    for (client, marker) in [(&mut kept, "600.7501"), (&mut lost, "600.7502")] {
        let script = format!("setsid sleep {marker} & echo up; sleep {marker}");
        client.call("process/start", fixture.shell("p", &script)).await;
        client.wait_for("p", "up").await;
    }
    drop(lost);
    until(|| alive("600.7502") == 0).await;
    let (code, message) = refusal(&mut fixture.bare_client().await, &session).await;
    assert_eq!(code, -32600);
    assert!(message.contains("unknown or expired") && message.contains("detachedTtlSeconds"), "{message}");
    assert!(alive("600.7501") > 0, "the session of a client that is there does not expire");
    kept.call("process/list", json!({})).await;
}

#[tokio::test]
async fn without_the_key_or_without_time_a_session_ends_with_its_connection() {
    let never = Fixture::with(|config| {
        with_admin(config);
        config.limits.detached_ttl = Duration::ZERO;
    })
    .await;
    let fixture = Fixture::with(with_admin).await;
    for (fixture, params) in [
        (&fixture, json!({ "clientName": "v0" })),
        (&never, json!({ "clientName": "v2", "resumeSessionId": null })),
    ] {
        let mut client = fixture.bare_client().await;
        let id = client.call("initialize", params).await["sessionId"].as_str().expect("an id").to_owned();
        client.notify("initialized", json!({})).await;
        client.call("process/start", fixture.shell("p", "echo up; sleep 600.7503")).await;
        client.wait_for("p", "up").await;
        drop(client);
        until(|| alive("600.7503") == 0).await;
        // Not only its processes.
        while Scrape::of(&fixture.server).await.get("sidecar_sessions{state=\"attached\"}") > 0.0 {}
        let (code, message) = refusal(&mut fixture.bare_client().await, &id).await;
        assert_eq!(code, -32600, "{message}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_come_back_says_so() {
    let fixture = Fixture::start().await;
    let (mut client, id) = fixture.resumable().await;
    client.call("process/start", fixture.command("p", &["sleep", "600.7506"])).await;
    assert_eq!(alive("600.7506"), 1);
    assert_eq!(client.call("session/end", json!({})).await, json!({}));
    assert_eq!(alive("600.7506"), 1, "the session ends with its connection");
    drop(client);
    until(|| alive("600.7506") == 0).await;
    let mut other = fixture.bare_client().await;
    let (code, message) = refusal(&mut other, &id).await;
    assert_eq!(code, -32600);
    assert!(message.contains("unknown or expired session"), "{message}");
}

#[tokio::test]
async fn why_a_session_is_not_known() {
    let (fixture, restarted) = (Fixture::start().await, Fixture::start().await);
    let (_client, session) = fixture.resumable().await;
    let mut plain = fixture.bare_client().await;
    let fleeting = plain.call("initialize", json!({ "clientName": "v0" })).await;
    let mut client = restarted.bare_client().await;
    for (id, why) in [(session.as_str(), "restarted"), ("gone", "no id of this sidecar"), ("", "no id of")] {
        let (code, message) = refusal(&mut client, id).await;
        assert_eq!(code, -32600);
        assert!(message.starts_with("unknown or expired session") && message.contains(why), "{message}");
    }
    let fleeting = fleeting["sessionId"].as_str().expect("an id");
    let (_, message) = refusal(&mut fixture.bare_client().await, fleeting).await;
    assert!(message.contains("its client sent no resumeSessionId"), "{message}");
    open(&mut client, &Value::Null).await;
}

#[tokio::test]
async fn another_caller_does_not_get_it() {
    let dir = scratch();
    let file = dir.path().join("tokens");
    std::fs::write(&file, "one:first-token\ntwo:second-token\n").expect("written");
    let fixture = Fixture::with(|config| {
        config.auth = AuthMode::TokenFile(file.clone());
        config.listen = vec!["ws://127.0.0.1:0".parse().expect("a URL")];
    })
    .await;
    let mut owner = shown(&fixture, "first-token").await;
    let session = open(&mut owner, &Value::Null).await;
    owner.call("process/start", cat(&fixture, "p")).await;
    for mut other in [shown(&fixture, "second-token").await, fixture.bare_client().await] {
        let (code, message) = refusal(&mut other, &session).await;
        assert_eq!(code, -32600);
        assert!(message.contains("another caller"), "{message}");
    }
    drop(owner);
    let mut other = shown(&fixture, "second-token").await;
    assert!(refusal(&mut other, &session).await.1.contains("another caller"), "nor when it is detached");
    // The same name, with another token: it was rotated meanwhile.
    std::fs::write(&file, "one:third-token\n").expect("written");
    let mut owner = shown(&fixture, "third-token").await;
    open(&mut owner, &json!(session)).await;
    owner.call("process/write", write("p", "mine\n", "w")).await;
    owner.wait_for("p", "mine").await;
}

/// A client that shows a token.
async fn shown(fixture: &Fixture, token: &str) -> Client {
    let addr = fixture.server.local_addrs()[0];
    let mut request = format!("ws://{addr}/").into_client_request().expect("a request");
    let value = format!("Bearer {token}").parse().expect("a value");
    request.headers_mut().insert("authorization", value);
    let stream = TcpStream::connect(addr).await.expect("connected");
    let (socket, _) = tokio_tungstenite::client_async(request, stream).await.expect("let in");
    Client::over(socket.into_inner()).await
}

#[tokio::test]
async fn sessions_are_bounded_and_counted_detached_or_not() {
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.limits.sessions = 2;
    })
    .await;
    let state = |state: &str| format!("sidecar_sessions{{state=\"{state}\"}}");
    let (first, session) = fixture.resumable().await;
    let (_second, _) = fixture.resumable().await;
    drop(first);
    let scrape = loop {
        let scrape = Scrape::of(&fixture.server).await;
        if scrape.get(&state("detached")) > 0.0 {
            break scrape;
        }
    };
    assert_eq!(scrape.get(&state("attached")), 1.0);
    let mut third = fixture.bare_client().await;
    let error = third.refused("initialize", json!({ "clientName": "x" })).await;
    assert_eq!((&error["code"], &error["data"]["limit"]), (&json!(-32011), &json!("limits.sessions")));
    open(&mut third, &json!(session)).await;
    let scrape = Scrape::of(&fixture.server).await;
    assert_eq!((scrape.get(&state("attached")), scrape.get(&state("detached"))), (2.0, 0.0));
    assert_eq!(scrape.get("sidecar_rejected_total{reason=\"sessions\"}"), 1.0);
}

#[tokio::test]
async fn shutdown_ends_what_is_detached_and_nothing_is_resumed_then() {
    let fixture = Fixture::start().await;
    let (mut client, session) = fixture.resumable().await;
    let mut late = fixture.bare_client().await;
    client.call("process/start", fixture.shell("p", "echo up; sleep 600.7504")).await;
    client.wait_for("p", "up").await;
    drop(client);
    let (mut client, session_too) = fixture.resumable().await;
    client
        .call("process/start", fixture.shell("p", "trap '' TERM; echo up; while :; do sleep 600.7505; done"))
        .await;
    client.wait_for("p", "up").await;
    let shutdown = fixture.server.shutdown();
    let asks = async {
        until(|| alive("600.7504") == 0).await;
        // The other one has ignored SIGTERM: the server is still on its way out.
        refusal(&mut late, &session).await
    };
    let ((), (_, message)) = tokio::join!(shutdown, asks);
    assert!(message.contains("shutting down"), "{message}");
    assert_eq!(alive("600.7505"), 0, "{session_too}");
}

#[tokio::test]
async fn handles_and_watches_stay_with_their_connection() {
    let fixture = Fixture::start().await;
    std::fs::write(fixture.ws("f"), "old").expect("written");
    let (mut client, session) = fixture.resumable().await;
    let handle = json!({ "handleId": "h", "path": fixture.ws("f"), "mode": "replace" });
    client.call("fs/open", handle.clone()).await;
    client.call("fs/writeBlock", json!({ "handleId": "h", "offset": 0, "chunk": encode("new") })).await;
    client.call("fs/watch", json!({ "watchId": "w", "path": fixture.ws("") })).await;
    drop(client);
    let mut client = fixture.resume(&session).await;
    let error = client.refused("fs/readBlock", json!({ "handleId": "h", "offset": 0, "len": 1 })).await;
    assert_eq!(error["code"], -32004);
    assert_eq!(std::fs::read(fixture.ws("f")).expect("there"), b"old");
    client.call("fs/watch", json!({ "watchId": "w", "path": fixture.ws("") })).await;
    client.call("fs/open", handle).await;
    client.call("fs/close", json!({ "handleId": "h" })).await;
}

impl Setting {
    /// Another connection over the same transport; it has said nothing yet.
    pub(crate) async fn reconnect(&self) -> Client {
        match self.transport {
            Transport::Ws => crate::lines::over_tcp(self.fixture.server.local_addrs()[0]).await,
            Transport::Unix => Client::linked(Lines::connect(&self.socket_path()).await),
            Transport::Stdio => panic!("there is only one"),
        }
    }
}

/// What a connection leaves behind in the queue of a process that never reads counts until that is gone.
#[tokio::test]
async fn input_that_nobody_reads_does_not_pile_up_over_reconnects() {
    const LIMIT: usize = 1 << 20;
    let fixture = Fixture::with(|config| config.limits.request_bytes = LIMIT).await;
    let (mut client, session) = fixture.resumable().await;
    let deaf = with(fixture.command("p", &["sleep", "600"]), "pipeStdin", json!(true));
    client.call("process/start", deaf).await;
    // A quarter of the limit, more than a pipe holds.
    let chunk = encode(vec![b'x'; LIMIT / 4 * 3 / 4]);
    let mut refusal = None;
    for round in 0..10 {
        let write = client.request("process/write", json!({ "processId": "p", "chunk": chunk })).await;
        // Once this is answered, the write before it was queued or refused.
        client.call("environment/status", json!({})).await;
        if round >= 3 {
            refusal = Some(client.outcome(write).await.expect_err("there is no room"));
            break;
        }
        drop(client);
        client = fixture.resume(&session).await;
    }
    let refusal = refusal.expect("a refusal");
    assert_eq!(refusal["code"], -32011, "{refusal}");
    assert_eq!(refusal["data"]["limit"], "limits.requestBytes", "{refusal}");
    client.call("process/terminate", json!({ "processId": "p", "graceMs": 0 })).await;
    client.call("process/wait", json!({ "processId": "p" })).await;
    // The room is there again.
    client.call("process/start", cat(&fixture, "q")).await;
    client.call("process/write", json!({ "processId": "q", "chunk": chunk })).await;
}
