//! Floods of connections that are no clients: they are shed, a good client is served meanwhile, and nothing of them stays.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use e2e::gateway::{self, Gateway};
use e2e::http::UPGRADE;
use e2e::scrape::{metrics, sum};
use e2e::server::TOKEN;
use e2e::{Client, GIVE_UP, Scratch, Server};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Places of those that were not let in yet, in these tests.
const PLACES: usize = 16;

/// Connections of one flood.
const FLOOD: usize = 300;

/// Nothing but its places sheds a connection of such a server.
const PATIENT: &str = "limits.handshakes = 16\nlimits.handshakeSeconds = 3600\n";

/// Gets in, and does something.
async fn good(server: &Server) {
    let mut client = Client::open(server).await;
    let env = json!({ "PATH": "/usr/bin:/bin" });
    let start = json!({ "processId": "p", "argv": ["echo", "hello"], "cwd": server.workspace(), "env": env });
    assert_eq!(client.run(start).await.stdout, "hello\n");
}

async fn connect(url: &str) -> TcpStream {
    TcpStream::connect(url.strip_prefix("ws://").unwrap()).await.unwrap()
}

async fn count(server: &Server, family: &str, labels: &[(&str, &str)]) -> f64 {
    sum(&metrics(&server.admin_url()).await, family, labels)
}

async fn shed(server: &Server, reason: &str) -> f64 {
    count(server, "sidecar_rejected_total", &[("reason", reason)]).await
}

/// How many descriptors it has once it is ready, and has made what the first launch makes once and for ever.
async fn at_rest(server: &Server) -> f64 {
    server.wait_for_log("\"ready\"");
    good(server).await;
    count(server, "process_open_fds", &[]).await
}

/// Waits until the server has no more descriptors than before.
async fn settled(server: &Server, before: f64) {
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let settling = async {
        while count(server, "process_open_fds", &[]).await > before {
            looks.tick().await;
        }
    };
    timeout(GIVE_UP, settling).await.expect("the descriptors of the flood are closed");
}

/// Reads until the other side has ended the connection.
async fn ended(mut stream: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut answer = Vec::new();
    // A reset is an end too.
    let _ = timeout(GIVE_UP, stream.read_to_end(&mut answer)).await.expect("the connection is ended");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_only_hold_on_keep_nobody_out() {
    let server = Server::builder().config(PATIENT).start();
    let before = at_rest(&server).await;
    let mut held = Vec::new();
    for n in 0..FLOOD {
        let mut stream = connect(server.url()).await;
        let begun: &[u8] = [&b""[..], b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "][n % 3];
        // It may have lost its place by now.
        let _ = stream.write_all(begun).await;
        held.push(stream);
        if n % 60 == 59 {
            good(&server).await;
        }
    }
    while shed(&server, "handshakes").await < (FLOOD - PLACES) as f64 {
        tokio::task::yield_now().await;
    }
    for first in held.drain(..FLOOD - PLACES) {
        ended(first).await;
    }
    good(&server).await;
    drop(held);
    settled(&server, before).await;
}

/// All of it is there when the server gets to look: the good client's request, and a flood right behind it.
#[tokio::test(flavor = "multi_thread")]
async fn who_arrives_amid_a_flood_is_heard() {
    let server = Server::builder().config(PATIENT).start();
    at_rest(&server).await;
    heard_amid_a_flood(server.url(), TOKEN, |signal| server.signal(signal)).await;
}

async fn heard_amid_a_flood(url: &str, token: &str, send: impl Fn(Signal)) {
    send(Signal::SIGSTOP);
    let mut client = connect(url).await;
    client.write_all(upgrade(token).as_bytes()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..FLOOD {
        held.push(connect(url).await);
    }
    send(Signal::SIGCONT);
    assert_eq!(answered(&mut client).await, "HTTP/1.1 101", "the good client has lost its place");
}

/// How an answer begins; nothing where the connection has ended.
async fn answered(client: &mut TcpStream) -> String {
    let mut answer = [0; 12];
    let read = timeout(GIVE_UP, client.read_exact(&mut answer)).await.expect("an answer");
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&answer).into_owned())
}

/// Who comes takes the place of the one that has held on for longest, and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn those_that_only_hold_on_keep_nobody_out_of_a_gateway() {
    /// So many places it has, and so many clients.
    const PLACES: usize = 64;
    let (server, local) = gateway::apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    let upgrade = upgrade(gateway::TOKEN);
    let (first, rest) = upgrade.as_bytes().split_at(20);
    let mut held = Vec::new();
    for _ in 0..PLACES {
        let mut stream = connect(gateway.url()).await;
        stream.write_all(first).await.unwrap();
        held.push(stream);
    }
    let mut good = Client::connect_to(gateway.url(), gateway::TOKEN).await;
    assert!(ended(held.remove(0)).await.is_empty());
    for stream in &mut held {
        // Fails where it has lost its place after all; the answer tells.
        let _ = stream.write_all(rest).await;
        assert_eq!(answered(stream).await, "HTTP/1.1 101", "it had its place still");
    }
    // Positive control: clients are counted too, and whoever is one too many is told so.
    let mut more = connect(gateway.url()).await;
    more.write_all(upgrade.as_bytes()).await.unwrap();
    assert_eq!(answered(&mut more).await, "HTTP/1.1 503");
    good.initialize().await;
    good.notify("initialized", json!({})).await;
    good.call("process/list", json!({})).await.expect("who was let in loses nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_arrives_amid_a_flood_is_heard_by_a_gateway() {
    let (server, local) = gateway::apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    heard_amid_a_flood(gateway.url(), gateway::TOKEN, |signal| gateway.signal(signal)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_port_answers_in_a_flood() {
    let server = Server::start();
    let admin = server.admin_url();
    let before = at_rest(&server).await;
    let mut held = Vec::new();
    for n in 0..FLOOD {
        held.push(connect(&admin).await);
        if n % 60 == 59 {
            metrics(&admin).await;
            good(&server).await;
        }
    }
    ended(held.remove(0)).await;
    assert!(shed(&server, "handshakes").await > 0.0);
    drop(held);
    settled(&server, before).await;
}

/// Whoever goes on for ever, a byte now and then, is cut off all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_has_a_deadline() {
    let server = Server::builder().config("limits.handshakeSeconds = 2\n").start();
    let mut client = Client::open(&server).await;
    let silent = connect(server.url()).await;
    let (from, mut to) = connect(server.url()).await.into_split();
    let trickle = tokio::spawn(async move {
        let _ = to.write_all(b"GET / HTTP/1.1\r\nX-Slow: ").await;
        let mut pauses = tokio::time::interval(Duration::from_millis(100));
        while to.write_all(b"x").await.is_ok() {
            pauses.tick().await;
        }
    });
    assert_eq!((ended(silent).await, ended(from).await), (vec![], vec![]));
    timeout(GIVE_UP, trickle).await.expect("nothing more is taken").unwrap();
    assert!(shed(&server, "handshakeSeconds").await >= 2.0);
    client.call("process/list", json!({})).await.expect("who was let in has no such deadline");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_let_in_has_to_begin() {
    let scratch = Scratch::new();
    let socket = scratch.state().join("api.sock");
    let server = Server::builder().scratch(scratch).config("limits.initializeSeconds = 5\n");
    let server = server.arg("--listen").arg(format!("unix://{}", socket.display())).start();
    let mut good = Client::open(&server).await;
    let mut silent = Client::connect(&server).await;
    let mut half = Client::connect(&server).await;
    half.call("initialize", json!({ "clientName": "half" })).await.unwrap();
    let mut junk = Client::connect(&server).await;
    for _ in 0..100 {
        junk.send_text("junk").await;
    }
    for client in [&mut silent, &mut half, &mut junk] {
        let (code, reason) = client.closed().await.expect("a reason");
        assert!(code == 1008 && reason.contains("limits.initializeSeconds"), "{code} {reason}");
    }
    let line = ended(UnixStream::connect(&socket).await.unwrap()).await;
    assert!(String::from_utf8_lossy(&line).contains("limits.initializeSeconds"));
    assert_eq!(shed(&server, "initializeSeconds").await, 4.0);
    good.call("process/list", json!({})).await.expect("who has begun stays");
}

/// Bytes that look like nothing in particular, the same in each run.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// The request of a client that may connect.
fn upgrade(token: &str) -> String {
    let mut upgrade = format!("GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n");
    for (name, value) in UPGRADE {
        upgrade.push_str(&format!("{name}: {value}\r\n"));
    }
    upgrade + "\r\n"
}

/// What comes from who is no client.
fn junk(upgrade: &[u8]) -> Vec<Vec<u8>> {
    let many = |text: &str, times: usize| text.repeat(times).into_bytes();
    let frames = |frames: &[u8]| [upgrade, frames].concat();
    vec![
        noise(64 << 10),
        many("\0", 64 << 10),
        many("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1000),
        many("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 1000),
        [&b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"[..], &noise(64 << 10)].concat(),
        [&b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"[..], &noise(64 << 10)].concat(),
        [&b"GET / HTTP/1.1\r\n"[..], &many("X-Header: x\r\n", 100_000)].concat(),
        [&b"GET / HTTP/1.1\r\nX-Header: "[..], &many("x", 1 << 20)].concat(),
        [&b"GET /"[..], &many("x", 1 << 20)].concat(),
        // A TLS client's first bytes.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        frames(&noise(64 << 10)),
        // A frame that is said to have 2^63 bytes; one that is not masked; a ping that is too long.
        frames(b"\x81\xff\x80\0\0\0\0\0\0\0\0\0\0\0"),
        frames(b"\x81\x05hello"),
        frames(b"\x89\xfe\x10\0\0\0\0\0"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn junk_is_shed_and_leaves_nothing() {
    let server =
        Server::builder().config("limits.handshakeSeconds = 5\nlimits.initializeSeconds = 5\n").start();
    let admin = server.admin_url();
    let before = at_rest(&server).await;
    let upgrade = upgrade(TOKEN);
    for _ in 0..3 {
        let mut sent = Vec::new();
        // Scrapes may share a connection, so there the end of what is sent is the end of some.
        for (url, most) in [(server.url(), 4096), (&admin, 1 << 20)] {
            for bytes in junk(upgrade.as_bytes()) {
                let stream = connect(url).await;
                sent.push(tokio::spawn(async move {
                    let (from, mut to) = stream.into_split();
                    let (answer, _) = tokio::join!(ended(from), to.write_all(&bytes));
                    assert!(answer.len() < most, "{}", String::from_utf8_lossy(&answer));
                }));
            }
        }
        good(&server).await;
        for answer in sent {
            answer.await.unwrap();
        }
    }
    good(&server).await;
    settled(&server, before).await;
}
