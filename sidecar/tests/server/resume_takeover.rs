//! A session that another connection still has: who is asked whether it lives, and what becomes of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
    DuplexStream, ReadBuf, copy_bidirectional,
};
use tokio::net::UnixStream;
use tokio::time::{Interval, interval};

use crate::common::{Client, Fixture, encode, with};
use crate::lines::{Setting, Transport};
use crate::resume::{open, refusal};

#[tokio::test]
async fn whoever_is_there_keeps_its_session() {
    let fixture = Fixture::start().await;
    let (mut first, session) = fixture.resumable().await;
    let mut second = fixture.bare_client().await;
    first.call("process/start", with(fixture.command("p", &["cat"]), "pipeStdin", json!(true))).await;
    // A client that waits for something answers pings.
    let waits = json!({ "processId": "p", "waitMs": 600_000 });
    let waiting = first.request("process/read", waits).await;
    let (code, message) = tokio::select! {
        outcome = first.outcome(waiting) => panic!("nothing was written: {outcome:?}"),
        refusal = refusal(&mut second, &session) => refusal,
    };
    assert_eq!(code, -32010);
    assert!(message.contains("attached to another connection"), "{message}");
    first.call("process/write", json!({ "processId": "p", "chunk": encode("x") })).await;
    assert_eq!(first.outcome(waiting).await.expect("output")["chunks"].as_array().expect("chunks").len(), 1);
    // Whoever was refused may ask again, or for a session of its own.
    open(&mut second, &Value::Null).await;
}

#[tokio::test]
async fn whoever_is_silent_loses_it() {
    for transport in [Transport::Ws, Transport::Unix] {
        let mut setting = Setting::bare(transport).await;
        let session = open(&mut setting.client, &Value::Null).await;
        let start = with(setting.fixture.command("p", &["cat"]), "pipeStdin", json!(true));
        setting.client.call("process/start", start).await;
        let mut second = setting.reconnect().await;
        open(&mut second, &json!(session)).await;
        second.call("process/write", json!({ "processId": "p", "chunk": encode("mine") })).await;
        second.wait_for("p", "mine").await;
        assert_eq!(second.notification().await["params"]["seq"], 1);
        // What the first one still says is not heard.
        if transport == Transport::Ws {
            let close = setting.client.closed().await.expect("a close frame");
            assert!(close.reason.contains("resumed on another connection"), "{close:?}");
        } else {
            let error = setting.client.response_to_nothing().await["error"].take();
            let message = error["message"].as_str().expect("a message").to_owned();
            assert!(message.contains("resumed on another connection"), "{message}");
            setting.client.closed().await;
        }
        second.call("process/list", json!({})).await;
    }
}

#[tokio::test]
async fn on_lines_a_blank_one_is_the_ping_and_the_pong() {
    let setting = Setting::bare(Transport::Unix).await;
    let mut first = BufReader::new(UnixStream::connect(setting.socket_path()).await.expect("connected"));
    let initialize =
        json!({ "id": 1, "method": "initialize", "params": { "clientName": "x", "resumeSessionId": null } });
    first
        .write_all(format!("{initialize}\n{{\"method\":\"initialized\"}}\n").as_bytes())
        .await
        .expect("sent");
    let mut line = String::new();
    first.read_line(&mut line).await.expect("an answer");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    let session = answer["result"]["sessionId"].as_str().expect("an id").to_owned();
    let mut second = setting.reconnect().await;
    let answers = async {
        line.clear();
        first.read_line(&mut line).await.expect("a line");
        assert_eq!(line, "\n");
        first.write_all(b"\n").await.expect("sent");
    };
    let ((), (code, _)) = tokio::join!(answers, refusal(&mut second, &session));
    assert_eq!(code, -32010);
}

#[tokio::test]
async fn whoever_hangs_up_meanwhile_makes_way_at_once() {
    let fixture = Fixture::start().await;
    let (first, session) = fixture.resumable().await;
    let mut second = fixture.bare_client().await;
    let params = json!({ "clientName": "x", "resumeSessionId": session });
    let asked = second.request("initialize", params).await;
    drop(first);
    second.outcome(asked).await.expect("resumed");
}

/// What it had read makes room for the server's next bytes, whoever is there.
#[tokio::test]
async fn whoever_reads_and_hangs_up_meanwhile_makes_way_too() {
    let fixture = Fixture::start().await;
    let mut far = fixture.server.connect_in_process();
    let (mut near, io) = tokio::io::duplex(1 << 20);
    let script = "i=0; while :; do head -c 65536 /dev/zero; i=$((i+1)); echo $i > blocks; done";
    let opened = async {
        let mut first = Client::over(io).await;
        let session = open(&mut first, &Value::Null).await;
        first.call("process/start", fixture.shell("p", script)).await;
        (first, session)
    };
    let (_first, session) = tokio::select! {
        ended = copy_bidirectional(&mut far, &mut near) => panic!("the connection has ended: {ended:?}"),
        opened = opened => opened,
    };
    // From here on nobody reads; the flood comes to a stop.
    let blocks = || std::fs::read_to_string(fixture.ws("blocks")).unwrap_or_default();
    let (mut looks, mut still, mut last) = (interval(Duration::from_millis(20)), 0, String::new());
    while last.is_empty() || still < 10 {
        looks.tick().await;
        let now = blocks();
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
    let mut second = fixture.bare_client().await;
    let asked = second.request("initialize", json!({ "clientName": "x", "resumeSessionId": session })).await;
    // Until the server has come to that.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let mut room = vec![0; 1 << 20];
    for _ in 0..2 {
        // The second time it is what the server has put into the room.
        assert!(far.read(&mut room).await.expect("bytes") > 0);
    }
    drop(far);
    second.outcome(asked).await.expect("resumed");
}

/// A way to the server by which little comes at a time.
struct Slow {
    io: DuplexStream,
    pace: Interval,
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.pace.poll_tick(cx));
        let mut little = [0; 512];
        let len = into.remaining().min(little.len());
        let mut little = ReadBuf::new(&mut little[..len]);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut little))?;
        into.put_slice(little.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Slow {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// The pipe of an in-process connection holds seconds of what this client reads, so it comes to no ping in time.
#[tokio::test]
async fn whoever_reads_slowly_keeps_its_session() {
    let fixture = Fixture::start().await;
    let slow = Slow { io: fixture.server.connect_in_process(), pace: interval(Duration::from_millis(10)) };
    let mut first = Client::over(slow).await;
    let session = open(&mut first, &Value::Null).await;
    first.call("process/start", fixture.command("p", &["yes"])).await;
    first.notification().await;
    let mut second = fixture.bare_client().await;
    let reads = async {
        loop {
            first.notification().await;
        }
    };
    let (code, _) = tokio::select! {
        () = reads => unreachable!("it reads for ever"),
        refusal = refusal(&mut second, &session) => refusal,
    };
    assert_eq!(code, -32010);
}
