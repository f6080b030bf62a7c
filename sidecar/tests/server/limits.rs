//! Each limit, by its key: what it refuses, by what name, and that it is counted.

use std::collections::BTreeSet;

use sandbox_sidecar::config::Config;
use sandbox_sidecar::config::source::Raw;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::admin::Scrape;
use crate::auth::Listening;
use crate::common::{Client, encode, scratch};
use crate::lines::Lines;

/// Limits that refuse what one request, one session or one connection asks for: a value of the key, and what is one too many.
const REFUSE: &[(&str, u64, Ask)] = &[
    ("limits.connections", 1, Ask::Connection),
    ("limits.sessions", 1, Ask::Session),
    ("limits.requests", 1, Ask::Request),
    ("limits.requestBytes", 100_000, Ask::Input),
    ("limits.processes", 1, Ask::Process),
    ("limits.handles", 1, Ask::Handle),
    ("limits.watches", 1, Ask::Watch),
    ("limits.watchDirectories", 1, Ask::Tree),
];

/// Limits that end or pass over what comes before there are requests, or is none: what is done at this value, and the reason
/// that it is counted by.
const SHED: &[(&str, u64, Shed, &str)] = &[
    ("limits.handshakes", 1, Shed::Idlers, "handshakes"),
    ("limits.handshakeSeconds", 1, Shed::Idler, "handshakeSeconds"),
    ("limits.initializeSeconds", 1, Shed::Silent, "initializeSeconds"),
    ("limits.authFailures", 1, Shed::Guesses, "authFailures"),
    ("limits.authFailuresInAll", 1, Shed::Guesses, "authFailures"),
    ("limits.messageBytes", 4096, Shed::Long, "messageBytes"),
    ("limits.watchEvents", 1, Shed::Changes, "watchEvents"),
];

/// Limits beyond which something waits or is forgotten, and times. What shows them stands beside each.
const NEITHER: &[&str] = &[
    // It waits: `answers_that_nobody_reads_do_not_pile_up`.
    "limits.responseBytes",
    // `droppedBytes`, and a counter of its own: `output_that_is_dropped_and_output_that_waits`.
    "limits.retainedBytes",
    "limits.retainedChunks",
    "limits.exitedTtlSeconds",
    "limits.detachedTtlSeconds",
    "limits.drainSeconds",
    "limits.terminateGraceSeconds",
    "limits.pingSeconds",
];

#[derive(Debug, Clone, Copy)]
enum Ask {
    Connection,
    Session,
    Request,
    Input,
    Process,
    Handle,
    Watch,
    Tree,
}

#[derive(Debug, Clone, Copy)]
enum Shed {
    /// Some that connect and say nothing.
    Idlers,
    /// One that does.
    Idler,
    /// Somebody who was let in and says nothing.
    Silent,
    /// Wrong tokens.
    Guesses,
    /// A message that is too long.
    Long,
    /// Many changes below a directory that is watched.
    Changes,
}

/// A server that has this limit by its key, with a unix socket too.
struct Limited {
    listening: Listening,
    socket: TempDir,
}

impl Limited {
    async fn to(key: &'static str, value: u64) -> Limited {
        let socket = scratch();
        let url = format!("unix://{}", socket.path().join("sock").display());
        let mut flags = vec![
            ("adminListen", Raw::Text("127.0.0.1:0".into())),
            ("listen", Raw::List(vec![url, "ws://127.0.0.1:0".into()])),
            (key, Raw::Number(value)),
        ];
        if key == "limits.requestBytes" {
            // There is room for a message of that size in any case.
            flags.push(("limits.messageBytes", Raw::Number(value)));
        }
        Limited { listening: Listening::start(flags).await, socket }
    }

    async fn bare_client(&self) -> Client {
        Client::linked(Lines::connect(&self.socket.path().join("sock")).await)
    }

    async fn client(&self) -> Client {
        let mut client = self.bare_client().await;
        client.open().await;
        client
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.listening.addr()).await.expect("connected")
    }

    fn ws(&self, name: &str) -> String {
        self.listening.dirs[0].path().join(name).display().to_string()
    }

    fn sleep(&self, id: &str) -> Value {
        json!({ "processId": id, "argv": ["sleep", "1000"], "cwd": self.ws(""), "env": { "PATH": "/usr/bin:/bin" },
                "pipeStdin": true })
    }

    async fn rejected(&self, reason: &str) -> f64 {
        Scrape::of(&self.listening.server)
            .await
            .get(&format!("sidecar_rejected_total{{reason=\"{reason}\"}}"))
    }
}

/// What there is room for is served; the error of what there is no room for.
async fn one_too_many(limited: &Limited, ask: Ask) -> Value {
    let mut client = limited.client().await;
    let open = |id: &str| json!({ "handleId": id, "path": limited.ws("file"), "mode": "read" });
    let watch = |id: &str| json!({ "watchId": id, "path": limited.ws("") });
    match ask {
        Ask::Connection => limited.bare_client().await.response_to_nothing().await["error"].take(),
        Ask::Session => {
            let mut other = limited.bare_client().await;
            other.refused("initialize", json!({ "clientName": "other" })).await
        }
        Ask::Request => {
            client.call("process/start", limited.sleep("p")).await;
            let wait = json!({ "processId": "p", "waitMs": 600_000 });
            client.request("process/read", wait.clone()).await;
            client.refused("process/read", wait).await
        }
        Ask::Input => {
            client.call("process/start", limited.sleep("p")).await;
            // More than a pipe holds: it waits, and what comes behind it has no room.
            let write = json!({ "processId": "p", "chunk": encode(vec![0; 70_000]) });
            client.request("process/write", write.clone()).await;
            client.refused("process/write", write).await
        }
        Ask::Process => {
            client.call("process/start", limited.sleep("p")).await;
            client.refused("process/start", limited.sleep("q")).await
        }
        Ask::Handle => {
            std::fs::write(limited.ws("file"), "").expect("written");
            client.call("fs/open", open("a")).await;
            client.refused("fs/open", open("b")).await
        }
        Ask::Watch => {
            client.call("fs/watch", watch("a")).await;
            client.refused("fs/watch", watch("b")).await
        }
        Ask::Tree => {
            client.call("fs/watch", watch("a")).await;
            client.call("fs/unwatch", json!({ "watchId": "a" })).await;
            std::fs::create_dir(limited.ws("second")).expect("made");
            client.refused("fs/watch", watch("a")).await
        }
    }
}

#[tokio::test]
async fn what_a_limit_refuses_is_told_by_its_key_and_counted() {
    for (key, value, ask) in REFUSE {
        let limited = Limited::to(key, *value).await;
        let reason = key.strip_prefix("limits.").expect("a limit");
        let before = limited.rejected(reason).await;
        let error = one_too_many(&limited, *ask).await;
        assert_eq!(
            (&error["code"], &error["data"]["limit"]),
            (&json!(-32011), &json!(key)),
            "{key}: {error}"
        );
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(key), "{key}: {message}");
        assert_eq!((before, limited.rejected(reason).await), (0.0, 1.0), "{key}");
        limited.listening.server.shutdown().await;
    }
}

async fn shed(limited: &Limited, shed: Shed) {
    match shed {
        Shed::Idlers | Shed::Idler => {
            let first = limited.tcp().await;
            let second = if matches!(shed, Shed::Idlers) { Some(limited.tcp().await) } else { None };
            assert_eq!(ended(first).await, "", "it was let go without a word");
            drop(second);
        }
        Shed::Silent => drop(limited.bare_client().await.closed().await),
        Shed::Guesses => {
            let guess = [("authorization", "Bearer guess")];
            let mut answers = Vec::new();
            for _ in 0..3 {
                answers.push(limited.listening.upgrade(&guess).await);
            }
            assert_eq!(answers, [401, 429, 429]);
        }
        Shed::Long => {
            let mut client = limited.client().await;
            client.send_text(&"x".repeat(5000)).await;
            let error = client.response_to_nothing().await["error"].take();
            assert!(error["message"].as_str().is_some_and(|m| m.contains("limits.messageBytes")), "{error}");
            client.closed().await;
        }
        Shed::Changes => {
            let mut client = limited.client().await;
            client.call("fs/watch", json!({ "watchId": "w", "path": limited.ws("") })).await;
            // Two at once, as one process that nobody interrupts to tell of the first would do: the rest is told as an overflow.
            let mut number = 0;
            loop {
                for _ in 0..100 {
                    number += 1;
                    std::fs::write(limited.ws(&number.to_string()), "").expect("written");
                }
                if client.notification().await["params"]["overflow"] == true {
                    break;
                }
            }
        }
    }
}

/// What the other side says before it ends the connection.
async fn ended(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn what_a_limit_sheds_is_counted_by_its_name() {
    for (key, value, what, reason) in SHED {
        let limited = Limited::to(key, *value).await;
        let before = limited.rejected(reason).await;
        shed(&limited, *what).await;
        assert!(before == 0.0 && limited.rejected(reason).await >= 1.0, "{key}");
        limited.listening.server.shutdown().await;
    }
}

#[test]
fn no_limit_is_in_neither_table() {
    let config = Config::embedded(scratch().path().to_owned()).expect("valid");
    let keys: BTreeSet<String> =
        config.effective().map(|entry| entry.key).filter(|key| key.starts_with("limits.")).collect();
    let refuse = REFUSE.iter().map(|(key, ..)| *key);
    let shed = SHED.iter().map(|(key, ..)| *key);
    let here: BTreeSet<String> =
        refuse.chain(shed).chain(NEITHER.iter().copied()).map(str::to_owned).collect();
    assert_eq!(keys, here);
}
