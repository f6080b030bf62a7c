//! Does what the operations say to a real server, and compares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};

use super::reference::{ACCEPTED, Kind, Model, Process, SLOTS};
use super::{Ending, Op};
use crate::common::{Client, Fixture, alive, decode, encode, with};
use crate::resume::{open, refusal, until};

/// Whoever is to stay away does so for this long.
const TTL: Duration = Duration::from_secs(1);

pub(crate) struct Drive {
    fixture: Fixture,
    client: Client,
    session: String,
    /// In the command line of everything that is started.
    mark: String,
    model: Model,
    /// Every event that was told, by slot and seq.
    heard: [BTreeMap<u64, Value>; SLOTS],
    /// The last one that was acknowledged.
    acknowledged: [u64; SLOTS],
    /// What is next on this connection, once anything has come.
    next: [Option<u64>; SLOTS],
    writes: u32,
    /// Whether the connection may be lost before the end.
    may_reconnect: bool,
}

impl Drive {
    pub(crate) async fn start(ending: Ending) -> Drive {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let may_reconnect = !matches!(ending, Ending::Expired);
        let fixture = Fixture::with(|config| {
            if !may_reconnect {
                config.limits.detached_ttl = TTL;
            }
            config.limits.terminate_grace = Duration::from_millis(100);
        })
        .await;
        let (client, session) = fixture.resumable().await;
        let mark = format!("model-{}-{}-", std::process::id(), NEXT.fetch_add(1, Relaxed));
        Drive {
            fixture,
            client,
            session,
            mark,
            model: Model::default(),
            heard: Default::default(),
            acknowledged: [0; SLOTS],
            next: [Some(1); SLOTS],
            writes: 0,
            may_reconnect,
        }
    }

    pub(crate) async fn take(&mut self, op: Op) {
        match op {
            Op::Start(slot, kind) => self.start_one(slot, kind).await,
            // What is written to a terminal comes back in a way that is the terminal's own.
            Op::Write(slot, ..) | Op::CloseStdin(slot) | Op::Burst(slot, _) if self.is_terminal(slot) => {}
            Op::Write(slot, bytes, twice) => self.write(slot, &bytes, twice).await,
            Op::CloseStdin(slot) => {
                let expected = self.model.close_stdin(slot);
                let closed = self.client.call("process/closeStdin", id(slot)).await;
                assert_eq!(closed["status"], expected);
                self.expect_end(slot).await;
            }
            Op::Burst(slot, bytes) => self.burst(slot, &bytes).await,
            Op::Read(slot) => self.read(slot).await,
            Op::Acknowledge(slot) => self.acknowledge(slot).await,
            Op::Interrupt(slot) => {
                self.model.interrupt(slot);
                self.client.call("process/signal", with(id(slot), "signal", json!("interrupt"))).await;
                self.expect_end(slot).await;
            }
            Op::Terminate(slot) => {
                let expected = self.model.terminate(slot);
                let ended = self.client.call("process/terminate", with(id(slot), "graceMs", json!(0))).await;
                assert_eq!(ended["running"], expected);
                self.expect_end(slot).await;
            }
            Op::Resize(slot, rows) => {
                let params = json!({ "processId": name(slot), "rows": rows, "cols": 80 });
                let asked = self.client.request("process/resize", params).await;
                let outcome = self.client.outcome(asked).await;
                assert_eq!(outcome.map(drop).map_err(code), self.model.resize(slot, rows));
            }
            Op::List => self.list().await,
            Op::Reconnect if self.may_reconnect => {
                self.hear();
                self.client = self.fixture.bare_client().await;
                self.resumed().await;
            }
            Op::Reconnect => {}
            Op::Rival => self.rival().await,
            Op::TakeOver => {
                self.hear();
                // The first one is there, and reads nothing.
                let second = self.fixture.bare_client().await;
                let silent = std::mem::replace(&mut self.client, second);
                self.resumed().await;
                drop(silent);
            }
        }
        self.hear();
    }

    pub(crate) async fn end(mut self, ending: Ending) {
        for slot in 0..SLOTS {
            self.read(slot).await;
        }
        self.hear();
        match ending {
            Ending::Ended => {
                self.client.call("session/end", json!({})).await;
                drop(self.client);
            }
            Ending::Expired => {
                // It goes with the session, and so tells when.
                let witness = self.fixture.command("witness", &["sleep", "600"]);
                let mark = format!("{} witness", self.mark);
                self.client.call("process/start", with(witness, "arg0", json!(mark))).await;
                // The kernel shows a new program's arguments a moment after it has closed what told of the exec.
                until(|| alive(&mark) == 1).await;
                drop(self.client);
            }
            Ending::Shutdown => {
                // The server waits for whoever is told why its connection ends to hang up.
                let leave = async {
                    self.client.closed().await;
                    drop(self.client);
                };
                tokio::join!(self.fixture.server.shutdown(), leave);
            }
        }
        until(|| alive(&self.mark) == 0).await;
        if !matches!(ending, Ending::Shutdown) {
            let mut late = self.fixture.bare_client().await;
            let (code, message) = refusal(&mut late, &self.session).await;
            assert_eq!(code, -32600, "{message}");
            drop(late);
            self.fixture.server.shutdown().await;
        }
    }

    fn command(&self, slot: usize, kind: Kind) -> Value {
        let shell = |script| vec!["/bin/sh", "-c", script];
        let argv = match kind {
            Kind::Cat => vec!["cat"],
            Kind::Deaf | Kind::Terminal => vec!["sleep", "600"],
            Kind::Quick => shell("printf quick; exit 3"),
            Kind::Stubborn => shell("trap '' TERM INT; echo up; while :; do sleep 600; done"),
        };
        let params = with(self.fixture.command(&name(slot), &argv), "arg0", json!(self.mark));
        match kind {
            Kind::Cat | Kind::Deaf => with(params, "pipeStdin", json!(true)),
            Kind::Terminal => with(params, "tty", json!(true)),
            Kind::Quick | Kind::Stubborn => params,
        }
    }

    async fn start_one(&mut self, slot: usize, kind: Kind) {
        let asked = self.client.request("process/start", self.command(slot, kind)).await;
        let outcome = self.client.outcome(asked).await;
        self.compare_start(slot, kind, outcome);
        if kind == Kind::Stubborn {
            // It ignores signals only once it says so.
            self.read(slot).await;
        }
        self.expect_end(slot).await;
    }

    fn compare_start(&mut self, slot: usize, kind: Kind, outcome: Result<Value, Value>) {
        let expected = if self.model.start(slot, kind) { Ok(()) } else { Err(-32600) };
        assert_eq!(outcome.map(drop).map_err(code), expected);
    }

    async fn write(&mut self, slot: usize, bytes: &[u8], twice: bool) {
        let expected = self.model.write(slot, bytes);
        let params = self.write_params(slot, bytes);
        for _ in 0..=u32::from(twice && expected == ACCEPTED) {
            let written = self.client.call("process/write", params.clone()).await;
            assert_eq!(written["status"], expected);
        }
    }

    fn write_params(&mut self, slot: usize, bytes: &[u8]) -> Value {
        self.writes += 1;
        json!({ "processId": name(slot), "chunk": encode(bytes), "writeId": self.writes.to_string() })
    }

    async fn burst(&mut self, slot: usize, bytes: &[u8]) {
        let write = self.write_params(slot, bytes);
        let start = self.client.request("process/start", self.command(slot, Kind::Cat)).await;
        let written = self.client.request("process/write", write).await;
        let closed = self.client.request("process/closeStdin", id(slot)).await;
        let outcome = self.client.outcome(start).await;
        self.compare_start(slot, Kind::Cat, outcome);
        let expected = [self.model.write(slot, bytes), self.model.close_stdin(slot)];
        for (asked, expected) in [written, closed].into_iter().zip(expected) {
            assert_eq!(self.client.outcome(asked).await.expect("a status")["status"], expected);
        }
        self.expect_end(slot).await;
    }

    /// Where it is to end, it ends as it is to.
    async fn expect_end(&mut self, slot: usize) {
        let Some(end) = self.process(slot).and_then(|process| process.end) else { return };
        let waited = self.client.call("process/wait", id(slot)).await;
        assert_eq!((&waited["exited"], &waited["closed"]), (&json!(true), &json!(true)), "{waited}");
        let code = waited["exitCode"].as_i64().expect("a code");
        assert!(end.codes.contains(&code), "{waited}, not {end:?}");
    }

    /// Reads all of it from the start, and waits for what is to come.
    async fn read(&mut self, slot: usize) {
        let Some(process) = self.process(slot).cloned() else {
            let error = self.client.refused("process/read", id(slot)).await;
            assert_eq!(error["code"], -32600, "{error}");
            return;
        };
        let (mut output, mut after) = (Vec::new(), 0);
        loop {
            let wait = if output.len() < process.output.len() { 20_000 } else { 0 };
            let params = json!({ "processId": name(slot), "afterSeq": after, "waitMs": wait });
            let read = self.client.call("process/read", params).await;
            assert_eq!(read["droppedBytes"], 0, "{read}");
            for chunk in read["chunks"].as_array().expect("chunks") {
                after += 1;
                assert_eq!(chunk["seq"], after, "{read}");
                output.extend(decode(&chunk["chunk"]));
                if let Some(told) = self.heard[slot].get(&after) {
                    assert_eq!(told["params"]["chunk"], chunk["chunk"]);
                }
            }
            if read["closed"] == true {
                // The exit and the end have numbers too.
                assert_eq!(read["nextSeq"], after + 3, "{read}");
                break;
            }
            if process.end.is_none() && output.len() >= process.output.len() {
                break;
            }
        }
        assert!(process.output.starts_with(&output), "something else was said");
        assert!(process.cut || output.len() == process.output.len(), "something is missing");
    }

    async fn acknowledge(&mut self, slot: usize) {
        self.hear();
        let Some(last) = self.heard[slot].keys().next_back().copied() else { return };
        self.client.notify("process/ack", json!({ "processId": name(slot), "seq": last })).await;
        self.acknowledged[slot] = last;
        // Once this is answered it has been heard.
        self.client.call("environment/status", json!({})).await;
    }

    async fn list(&mut self) {
        let listed = self.client.call("process/list", json!({})).await;
        let mut states = BTreeMap::new();
        for process in listed["processes"].as_array().expect("a list") {
            states.insert(process["processId"].as_str().expect("an id").to_owned(), process["state"].clone());
        }
        let expected = (0..SLOTS).filter_map(|slot| {
            let ended = self.process(slot)?.end.is_some();
            Some((name(slot), json!(if ended { "closed" } else { "running" })))
        });
        assert_eq!(states, expected.collect());
    }

    async fn rival(&mut self) {
        let mut rival = self.fixture.bare_client().await;
        let mut told = Vec::new();
        let reads = async {
            loop {
                told.push(self.client.notification().await);
            }
        };
        let (code, message) = tokio::select! {
            () = reads => unreachable!("it reads for ever"),
            refusal = refusal(&mut rival, &self.session) => refusal,
        };
        assert_eq!(code, -32010, "{message}");
        for notification in told {
            self.note(notification);
        }
    }

    /// The client has a new connection, and its session back.
    async fn resumed(&mut self) {
        let session = json!(self.session);
        assert_eq!(open(&mut self.client, &session).await, self.session);
        // It goes on behind what was acknowledged; where nothing was, behind what there was at that time.
        self.next = self.acknowledged.map(|seq| (seq > 0).then_some(seq + 1));
    }

    /// Takes what has come unasked.
    fn hear(&mut self) {
        while let Some(notification) = self.client.arrived() {
            self.note(notification);
        }
    }

    /// One event: its number is the next one, and it says what it said before.
    fn note(&mut self, notification: Value) {
        let params = &notification["params"];
        let slot = (0..SLOTS).find(|slot| params["processId"] == name(*slot)).expect("a process of ours");
        let seq = params["seq"].as_u64().expect("a seq");
        assert_eq!(seq, self.next[slot].unwrap_or(seq), "{notification}");
        self.next[slot] = Some(seq + 1);
        if notification["method"] == "process/exited" {
            let end = self.process(slot).and_then(|process| process.end).expect("one that is to end");
            assert_eq!(params["cause"], end.cause, "{notification}");
        }
        let before = self.heard[slot].insert(seq, notification.clone());
        assert!(before.is_none_or(|before| before == notification), "{notification}");
    }

    fn is_terminal(&self, slot: usize) -> bool {
        self.process(slot).is_some_and(|process| process.kind == Kind::Terminal)
    }

    fn process(&self, slot: usize) -> Option<&Process> {
        self.model.slots[slot].as_ref()
    }
}

fn name(slot: usize) -> String {
    format!("p{slot}")
}

fn id(slot: usize) -> Value {
    json!({ "processId": name(slot) })
}

fn code(error: Value) -> i64 {
    error["code"].as_i64().expect("a code")
}
