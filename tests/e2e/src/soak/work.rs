//! What is done to the server: each kind of work in a loop of its own, all at once, each checking what it gets.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::client::encode;
use crate::server::clean_environment;
use crate::{Client, Server, programs};

/// How often each was done.
#[derive(Debug, Default)]
pub struct Done {
    launches: Cell<u64>,
    terminals: Cell<u64>,
    floods: Cell<u64>,
    cut_floods: Cell<u64>,
    files: Cell<u64>,
    disconnects: Cell<u64>,
    clients_killed: Cell<u64>,
    backgrounds: Cell<u64>,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "done: {} launches, {} terminals, {} floods of {} MiB, {} of {} MiB over {} lost connections each, {} file \
             transfers, {} lost connections, {} clients killed, {} sessions that left something in the background",
            self.launches.get(),
            self.terminals.get(),
            self.floods.get(),
            FLOOD >> 20,
            self.cut_floods.get(),
            CUT_FLOOD >> 20,
            CUTS,
            self.files.get(),
            self.disconnects.get(),
            self.clients_killed.get(),
            self.backgrounds.get()
        )
    }
}

/// Bytes of one flood.
const FLOOD: usize = 32 << 20;

/// Bytes of a flood whose connection is lost on the way, and how often it is.
const CUT_FLOOD: usize = 8 << 20;
const CUTS: usize = 4;

/// Bytes of one file, and of one block.
const FILE: usize = 1 << 20;
const BLOCKS: usize = 8;

/// Does all of it until then.
///
/// # Panics
/// Where an answer is wrong, or does not come.
pub async fn all(server: &Server, end: Instant) -> Done {
    let done = Done::default();
    tokio::join!(
        again("launches", end, &done.launches, |n| launches(server, n)),
        again("terminals", end, &done.terminals, |n| terminals(server, n)),
        again("a flood", end, &done.floods, |_| flood(server)),
        again("a flood that is cut", end, &done.cut_floods, |_| cut_flood(server)),
        again("files", end, &done.files, |n| files(server, n)),
        again("a lost connection", end, &done.disconnects, |_| disconnect(server)),
        again("a killed client", end, &done.clients_killed, |_| kill_client(server)),
        again("the background", end, &done.backgrounds, |_| background(server)),
    );
    done
}

async fn again<F: Future<Output = ()>>(name: &str, end: Instant, done: &Cell<u64>, work: impl Fn(u64) -> F) {
    while Instant::now() < end {
        let started = Instant::now();
        let answer = tokio::time::timeout(crate::GIVE_UP, work(done.get())).await;
        answer.unwrap_or_else(|_| panic!("{name}, number {}: no answer", done.get()));
        done.set(done.get() + 1);
        // The load is mixed: what is quick does not drown what is slow.
        sleep(started.elapsed().min(Duration::from_millis(100))).await;
    }
}

fn shell(server: &Server, process: &str, script: &str) -> Value {
    json!({
        "processId": process, "argv": ["sh", "-c", script], "cwd": server.workspace(), "tty": false,
        "env": { "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb" },
    })
}

async fn resumable(server: &Server, session: Value) -> (Client, Value) {
    let mut client = Client::connect(server).await;
    let params = json!({ "clientName": "soak", "resumeSessionId": session });
    let session = client.call("initialize", params).await.unwrap()["sessionId"].take();
    client.notify("initialized", json!({})).await;
    (client, session)
}

async fn launches(server: &Server, n: u64) {
    let mut client = Client::open(server).await;
    for i in 0..10 {
        let done = client.run(shell(server, &format!("p{i}"), &format!("echo {n}; exit {i}"))).await;
        assert_eq!((done.stdout, done.exited["exitCode"].as_i64()), (format!("{n}\n"), Some(i)));
    }
    let mut missing = shell(server, "missing", "");
    missing["argv"] = json!(["no-such-program"]);
    let error = client.call("process/start", missing).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "spawnNotFound", "{error}");
}

async fn terminals(server: &Server, n: u64) {
    let mut client = Client::open(server).await;
    let mut params = shell(server, "t", &format!("printf {n}"));
    params["tty"] = json!(true);
    assert_eq!(client.run(params).await.stdout, n.to_string());
    let mut params = shell(server, "u", "");
    params["tty"] = json!(true);
    // No shell: one that is interrupted just before it starts a command waits for that command first.
    params["argv"] = json!(["cat"]);
    client.call("process/start", params).await.unwrap();
    client.call("process/resize", json!({ "processId": "u", "rows": 50, "cols": 132 })).await.unwrap();
    client.call("process/signal", json!({ "processId": "u", "signal": "interrupt" })).await.unwrap();
    assert_eq!(client.of_process("u", "exited").await["exitCode"], 130);
}

async fn flood(server: &Server) {
    let mut client = Client::open(server).await;
    let done = client.run(shell(server, "flood", &format!("head -c {FLOOD} /dev/zero | tr '\\0' x"))).await;
    assert_eq!((done.stdout.len(), done.code()), (FLOOD, 0));
}

/// Nothing is missing and nothing stays behind, however much was waiting to be sent when the connection was lost.
async fn cut_flood(server: &Server) {
    let (mut client, session) = resumable(server, Value::Null).await;
    let params = shell(server, "p", &format!("head -c {CUT_FLOOD} /dev/zero | tr '\\0' x; exit 7"));
    // The acknowledgement of nothing comes right behind: from then on nothing may be dropped.
    let started = client.request("process/start", params).await;
    client.notify("process/ack", json!({ "processId": "p", "seq": 0 })).await;
    client.response(&started).await;
    let (mut bytes, mut seq) = (0, 0_u64);
    for part in 1..=CUTS + 1 {
        while bytes < CUT_FLOOD * part / (CUTS + 1) {
            let params = client.of_process("p", "output").await;
            let came = params["seq"].as_u64().unwrap();
            if came <= seq {
                continue;
            }
            assert_eq!(came, seq + 1, "an event is missing");
            seq = came;
            bytes += crate::client::decode(&params["chunk"]).len();
            if seq % 4 == 0 {
                client.notify("process/ack", json!({ "processId": "p", "seq": seq })).await;
            }
        }
        if part <= CUTS {
            drop(client);
            client = resumable(server, session.clone()).await.0;
            // What was acknowledged last may have been lost with the connection, and the process waits for it.
            client.notify("process/ack", json!({ "processId": "p", "seq": seq })).await;
        }
    }
    client.notify("process/ack", json!({ "processId": "p", "seq": seq })).await;
    assert_eq!((bytes, &client.of_process("p", "exited").await["exitCode"]), (CUT_FLOOD, &json!(7)));
    client.of_process("p", "closed").await;
    client.call("session/end", json!({})).await.unwrap();
}

async fn files(server: &Server, n: u64) {
    let mut client = Client::open(server).await;
    let path = server.workspace().join("file");
    let content = encode(vec![n as u8; FILE]);
    client.call("fs/writeFile", json!({ "path": path, "dataBase64": content })).await.unwrap();
    let read = client.call("fs/readFile", json!({ "path": path })).await.unwrap();
    assert!(read["dataBase64"] == content, "another content");
    client.call("fs/open", json!({ "handleId": "h", "path": path, "mode": "replace" })).await.unwrap();
    for block in 0..BLOCKS {
        let params = json!({ "handleId": "h", "offset": block * FILE, "chunk": content });
        client.call("fs/writeBlock", params).await.unwrap();
    }
    client.call("fs/close", json!({ "handleId": "h" })).await.unwrap();
    let metadata = client.call("fs/getMetadata", json!({ "path": path })).await.unwrap();
    assert_eq!(metadata["size"], BLOCKS * FILE);
    client.call("fs/watch", json!({ "watchId": "w", "path": server.workspace() })).await.unwrap();
    client.call("fs/remove", json!({ "path": path })).await.unwrap();
}

/// The connection is lost in the middle; what comes after it goes on where it was. The command ends once the client that
/// came back tells it to: an exited process is kept for a time, and a busy machine may have none for the client in it.
async fn disconnect(server: &Server) {
    let (mut client, session) = resumable(server, Value::Null).await;
    let script = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done; read go; echo end";
    let mut params = shell(server, "p", script);
    params["pipeStdin"] = json!(true);
    client.call("process/start", params).await.unwrap();
    client.of_process("p", "output").await;
    drop(client);
    let (mut client, _) = resumable(server, session).await;
    let expected: String = (0..200).map(|i| format!("{i}\n")).collect();
    let (mut output, mut seq) = (Vec::new(), 0_u64);
    while output.len() < expected.len() {
        let params = json!({ "processId": "p", "afterSeq": seq, "waitMs": 10_000 });
        let read = client.call("process/read", params).await.unwrap();
        for chunk in read["chunks"].as_array().unwrap() {
            seq += 1;
            assert_eq!(chunk["seq"], seq);
            output.extend(crate::client::decode(&chunk["chunk"]));
        }
    }
    client.call("process/write", json!({ "processId": "p", "chunk": encode("\n") })).await.unwrap();
    loop {
        // What was written after the client came back was sent as well as read.
        let is_new = |frame: &Value| {
            frame["params"]["processId"] == "p" && frame["params"]["seq"].as_u64() > Some(seq)
        };
        let frame = client.find(is_new).await;
        seq += 1;
        let params = &frame["params"];
        assert_eq!(params["seq"], seq);
        match frame["method"].as_str() {
            Some("process/output") => output.extend(crate::client::decode(&params["chunk"])),
            Some("process/exited") => assert_eq!(params["exitCode"], 0),
            _ => break,
        }
    }
    assert_eq!(String::from_utf8(output).unwrap(), expected + "end\n");
    client.call("session/end", json!({})).await.unwrap();
}

/// A real client that has no time to say good-bye; its session expires.
async fn kill_client(server: &Server) {
    let scratch = server.scratch();
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, scratch);
    command
        .args(["exec", "--sidecar-url", server.url()])
        .arg("--token-file")
        .arg(scratch.state().join("e2e-token"));
    command.args(["--", "sh", "-c", "yes & sleep 600"]).current_dir(scratch.workspace());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(500)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    sleep(Duration::from_secs(2)).await;
}

/// What the session leaves behind goes with it.
async fn background(server: &Server) {
    let mut client = Client::open(server).await;
    let left = client
        .run(shell(server, "p", "setsid sh -c 'trap \"\" TERM; sleep 600' >/dev/null 2>&1 & echo up"))
        .await;
    assert_eq!(left.stdout, "up\n");
}
