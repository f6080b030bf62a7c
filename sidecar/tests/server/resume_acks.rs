//! Output over lost connections: nothing lost and nothing twice for a client that acknowledges, every byte accounted for
//! to one that does not.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::common::{Client, Fixture, decode, with};
use crate::lines::{Setting, Transport};
use crate::resume::{open, until};

/// What a client has of one process, over all its connections.
struct Follower {
    id: &'static str,
    /// The newest event that it has.
    seq: u64,
    output: Sha256,
    bytes: usize,
    exited: Value,
    closed: bool,
    /// Bytes of events that came although they were there.
    repeated: usize,
}

impl Follower {
    fn new(id: &'static str) -> Follower {
        let (output, exited) = (Sha256::new(), Value::Null);
        Follower { id, seq: 0, output, bytes: 0, exited, closed: false, repeated: 0 }
    }

    /// Takes the next event.
    async fn take(&mut self, client: &mut Client) {
        self.note(&client.notification().await);
    }

    /// Panics where an event is missing.
    fn note(&mut self, notification: &Value) {
        let params = &notification["params"];
        assert_eq!(params["processId"], self.id);
        let seq = params["seq"].as_u64().expect("a seq");
        if seq <= self.seq {
            self.repeated += params.get("chunk").map_or(0, |chunk| decode(chunk).len());
            return;
        }
        assert_eq!(seq, self.seq + 1, "an event is missing before {notification}");
        self.seq = seq;
        match notification["method"].as_str().expect("a method") {
            "process/output" => self.add(&decode(&params["chunk"])),
            "process/exited" => self.exited = params.clone(),
            _ => self.closed = true,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.output.update(bytes);
        self.bytes += bytes.len();
    }

    async fn ack(&self, client: &mut Client) {
        client.notify("process/ack", json!({ "processId": self.id, "seq": self.seq })).await;
    }

    /// Follows to the end, acknowledging each event.
    async fn finish(mut self, client: &mut Client) -> (usize, String, Value) {
        while !self.closed {
            self.take(client).await;
            self.ack(client).await;
        }
        (self.bytes, hex(self.output), self.exited)
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Starts a process that nothing is dropped from: the acknowledgement of nothing comes right behind.
async fn start(client: &mut Client, params: Value) -> Follower {
    let started = client.request("process/start", params).await;
    let follower = Follower::new("p");
    follower.ack(client).await;
    client.outcome(started).await.expect("started");
    follower
}

/// A flood that tells its own hash when it is over.
fn flood(fixture: &Fixture, blocks: usize) -> Value {
    let script = format!(
        "head -c {} /dev/urandom > flood; sha256sum < flood > sum; cat flood; exit 7",
        blocks * 65_536
    );
    with(fixture.shell("p", &script), "cwd", json!(fixture.ws("")))
}

fn sum(fixture: &Fixture) -> String {
    let text = std::fs::read_to_string(fixture.ws("sum")).expect("a sum");
    text.split(' ').next().expect("a hash").to_owned()
}

#[tokio::test]
async fn case_07_a_cut_of_several_seconds() {
    const LINES: usize = 100;
    let mut setting = Setting::bare(Transport::Ws).await;
    let session = open(&mut setting.client, &Value::Null).await;
    let script = "for i in $(seq 100); do echo line $i; echo $i >> written; sleep .1; done";
    let mut follower = start(&mut setting.client, setting.fixture.shell("p", script)).await;
    let expected: String = (1..=LINES).map(|i| format!("line {i}\n")).collect();
    while follower.bytes < 50 {
        follower.take(&mut setting.client).await;
        follower.ack(&mut setting.client).await;
    }
    // Nobody is there until it is nearly over.
    setting.client = setting.reconnect().await;
    let written = setting.fixture.ws("written");
    until(|| std::fs::read_to_string(&written).is_ok_and(|text| text.lines().count() >= 90)).await;
    open(&mut setting.client, &json!(session)).await;
    let (bytes, hash, exited) = follower.finish(&mut setting.client).await;
    assert_eq!((bytes, &exited["exitCode"]), (expected.len(), &json!(0)));
    assert_eq!(hash, hex(Sha256::new().chain_update(&expected)));
}

#[tokio::test]
async fn case_07_a_flood_over_cut_connections() {
    for (transport, blocks) in [(Transport::Ws, 800), (Transport::Unix, 160)] {
        let mut setting = Setting::bare(transport).await;
        let session = open(&mut setting.client, &Value::Null).await;
        let mut follower = start(&mut setting.client, flood(&setting.fixture, blocks)).await;
        for cut in 1..=5 {
            while follower.bytes < cut * blocks * 8_192 {
                follower.take(&mut setting.client).await;
                if follower.seq % 4 == 0 {
                    follower.ack(&mut setting.client).await;
                }
            }
            setting.client = setting.reconnect().await;
            open(&mut setting.client, &json!(session)).await;
            // What was acknowledged last may have been lost with the connection, and the process waits for it.
            follower.ack(&mut setting.client).await;
        }
        // What is told again is at most what was retained for want of an acknowledgement.
        assert!(follower.repeated <= 5 * (1 << 20), "{} bytes came twice", follower.repeated);
        let (bytes, hash, exited) = follower.finish(&mut setting.client).await;
        assert_eq!((bytes, &exited["exitCode"]), (blocks * 65_536, &json!(7)), "{transport:?}");
        assert_eq!(hash, sum(&setting.fixture), "{transport:?}");
    }
}

#[tokio::test]
async fn twenty_random_cuts() {
    let fixture = Fixture::with(|config| config.limits.retained_bytes = 64 << 10).await;
    // The same numbers each time.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut client, session) = fixture.resumable().await;
    let script = "i=0; while [ $i -lt 6000 ]; do echo line $i; echo err $i >&2; i=$((i+1)); done; exit 7";
    let mut follower = start(&mut client, fixture.shell("p", script)).await;
    let mut acked = 0;
    for _ in 0..20 {
        for _ in 0..random(60) {
            if follower.closed {
                break;
            }
            follower.take(&mut client).await;
            // Never with so much outstanding that the process would wait for it.
            if random(3) == 0 || follower.bytes - acked > 32 << 10 {
                follower.ack(&mut client).await;
                acked = follower.bytes;
            }
        }
        // With what was not read yet, or not sent; with acknowledgements that may have arrived, or not.
        drop(client);
        client = fixture.resume(&session).await;
    }
    let all: usize = (0..6000).map(|i| format!("line {i}\nerr {i}\n").len()).sum();
    if !follower.closed {
        let (bytes, _, exited) = follower.finish(&mut client).await;
        assert_eq!((bytes, &exited["exitCode"]), (all, &json!(7)));
    } else {
        assert_eq!((follower.bytes, &follower.exited["exitCode"]), (all, &json!(7)));
    }
}

#[tokio::test]
async fn a_detached_process_waits_with_a_full_ring() {
    let fixture = Fixture::with(|config| config.limits.retained_bytes = 128 << 10).await;
    let (mut client, session) = fixture.resumable().await;
    let script = "i=0; while [ $i -lt 40 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i > blocks; done";
    let mut follower = start(&mut client, fixture.shell("p", script)).await;
    drop(client);
    let blocks =
        || std::fs::read_to_string(fixture.ws("blocks")).ok().and_then(|n| n.trim().parse::<usize>().ok());
    // 128 KiB in the ring, 64 KiB in the pipe; how it is cut is the kernel's affair, so the ring holds less, not more.
    until(|| blocks().is_some_and(|blocks| blocks >= 2)).await;
    let mut client = fixture.resume(&session).await;
    let list = client.call("process/list", json!({})).await;
    assert_eq!(list["processes"][0]["state"], "running");
    let read = client.call("process/read", json!({ "processId": "p" })).await;
    assert_eq!(read["droppedBytes"], 0);
    assert!(blocks().expect("blocks") < 8, "it waits");
    // Attached, and still not acknowledged: it waits all the same. This one answers only when nothing more comes.
    while follower.bytes < 64 << 10 {
        follower.take(&mut client).await;
    }
    let (bytes, _, exited) = follower.finish(&mut client).await;
    assert_eq!((bytes, &exited["exitCode"]), (40 << 16, &json!(0)));
    assert_eq!(blocks(), Some(40));
}

#[tokio::test]
async fn the_end_is_told_again_until_it_is_acknowledged() {
    let fixture = Fixture::start().await;
    let (mut client, session) = fixture.resumable().await;
    let mut follower = start(&mut client, fixture.shell("p", "echo out; exit 7")).await;
    while !follower.closed {
        follower.take(&mut client).await;
    }
    for acked in [0, 1, 2] {
        drop(client);
        client = fixture.resume(&session).await;
        client.notify("process/ack", json!({ "processId": "p", "seq": acked })).await;
        let first = client.notification().await;
        let mut again = Follower::new("p");
        again.seq = first["params"]["seq"].as_u64().expect("a seq") - 1;
        assert!(again.seq <= acked, "{acked}");
        again.note(&first);
        while !again.closed {
            again.take(&mut client).await;
        }
        assert_eq!(again.seq, 3);
    }
    client.notify("process/ack", json!({ "processId": "p", "seq": u64::MAX })).await;
    client.call("process/list", json!({})).await;
    drop(client);
    let mut client = fixture.resume(&session).await;
    client.call("process/start", fixture.shell("q", "echo out")).await;
    assert_eq!(client.notification().await["params"]["processId"], "q", "nothing of p was left to be told");
}

#[tokio::test]
async fn acks_before_the_handshake_is_done_spare_what_they_cover() {
    let fixture = Fixture::start().await;
    let (mut client, session) = fixture.resumable().await;
    let mut follower = start(&mut client, fixture.shell("p", "echo out; exit 7")).await;
    while !follower.closed {
        follower.take(&mut client).await;
    }
    drop(client);
    let mut client = fixture.bare_client().await;
    client.call("initialize", json!({ "clientName": "x", "resumeSessionId": session })).await;
    client.notify("process/ack", json!({ "processId": "p", "seq": 2 })).await;
    client.notify("initialized", json!({})).await;
    let closed = client.notification().await;
    assert_eq!((&closed["method"], &closed["params"]["seq"]), (&json!("process/closed"), &json!(3)));
    let mut early = fixture.bare_client().await;
    early.notify("process/ack", json!({ "processId": "p", "seq": 2 })).await;
    let close = early.closed().await.expect("a close frame");
    assert!(close.reason.contains("before initialize"), "{close:?}");
    let mut bad = fixture.client().await;
    bad.notify("process/ack", json!({ "processId": "p" })).await;
    let close = bad.closed().await.expect("a close frame");
    assert!(close.reason.contains("process/ack") && close.reason.contains("seq"), "{close:?}");
}

/// As the stock client does it: events by number, and one `process/read` for what came meanwhile.
#[tokio::test]
async fn a_client_that_reads_instead_of_acknowledging() {
    let fixture = Fixture::start().await;
    let (mut client, session) = fixture.resumable().await;
    let script = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); sleep 0.01; done; exit 7";
    client.call("process/start", fixture.shell("p", script)).await;
    let mut events = Events::default();
    for _ in 0..8 {
        while !events.closed && !events.told(10) {
            events.note(client.notification().await);
        }
        drop(client);
        client = fixture.resume(&session).await;
        let params = json!({ "processId": "p", "afterSeq": events.last, "waitMs": 0 });
        let read = client.call("process/read", params).await;
        assert_eq!(read["droppedBytes"], 0);
        for chunk in read["chunks"].as_array().expect("chunks") {
            events.insert(chunk["seq"].as_u64().expect("a seq"), decode(&chunk["chunk"]));
        }
        if read["closed"] == true {
            // Two numbers without a chunk: the exit and the close.
            events.closed = true;
            assert_eq!(read["exitCode"], 7);
        }
    }
    while !events.closed {
        events.note(client.notification().await);
    }
    let expected: String = (0..200).map(|i| format!("{i}\n")).collect();
    assert_eq!(String::from_utf8(events.text).expect("text"), expected);
}

#[derive(Default)]
struct Events {
    pending: std::collections::BTreeMap<u64, Vec<u8>>,
    last: u64,
    text: Vec<u8>,
    told: usize,
    closed: bool,
}

impl Events {
    fn note(&mut self, notification: Value) {
        self.told += 1;
        let params = &notification["params"];
        let seq = params["seq"].as_u64().expect("a seq");
        self.closed |= notification["method"] == "process/closed";
        self.insert(seq, if params["chunk"].is_string() { decode(&params["chunk"]) } else { Vec::new() });
    }

    fn insert(&mut self, seq: u64, bytes: Vec<u8>) {
        if seq > self.last {
            self.pending.insert(seq, bytes);
        }
        while let Some(bytes) = self.pending.remove(&(self.last + 1)) {
            self.last += 1;
            self.text.extend(bytes);
        }
    }

    /// Whether so many notifications have come since the last time.
    fn told(&mut self, count: usize) -> bool {
        let enough = self.told >= count;
        if enough {
            self.told = 0;
        }
        enough
    }
}

#[tokio::test]
async fn without_acks_each_byte_is_there_or_counted() {
    let fixture = Fixture::with(|config| config.limits.retained_bytes = 64 << 10).await;
    let (mut client, session) = fixture.resumable().await;
    // Waits in between, so that the client has an exact place to come back to.
    let script = "for i in 1 2 3; do echo before $i; done; until [ -e go ]; do sleep 0.05; done; \
                  i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done; touch done; exit 7";
    client.call("process/start", fixture.shell("p", script)).await;
    let mut follower = Follower::new("p");
    while follower.bytes < "before 1\nbefore 2\nbefore 3\n".len() {
        follower.take(&mut client).await;
    }
    drop(client);
    std::fs::write(fixture.ws("go"), "").expect("written");
    // It does not wait for anybody.
    until(|| fixture.ws("done").exists()).await;
    let mut client = fixture.resume(&session).await;
    client.call("process/wait", json!({ "processId": "p" })).await;
    let expected: usize = (0..30_000).map(|i| format!("{i}\n").len()).sum();
    for (after, bytes) in [(follower.seq, expected), (0, expected + follower.bytes)] {
        let read = client.call("process/read", json!({ "processId": "p", "afterSeq": after })).await;
        let chunks = read["chunks"].as_array().expect("chunks");
        let kept: usize = chunks.iter().map(|chunk| decode(&chunk["chunk"]).len()).sum();
        let dropped = usize::try_from(read["droppedBytes"].as_u64().expect("a number")).expect("small");
        assert!(kept <= 64 << 10 && dropped > 0, "{kept} kept");
        assert_eq!(kept + dropped, bytes);
        assert_eq!((&read["exitCode"], &read["closed"]), (&json!(7), &json!(true)));
    }
}
