//! A client that asks for much and reads nothing: what it costs the server is bounded, and nothing is lost once it reads.

use std::fs;
use std::time::Duration;

use e2e::client::{decode, encode, outcome};
use e2e::soak::measure::{anonymous_kib, peak_kib};
use e2e::{Client, Server, until};
use serde_json::{Value, json};

/// Requests of each kind. Their answers together are some 500 MiB.
const REQUESTS: usize = 100;

/// Bytes of the file, of a block, and of the output.
const BYTES: usize = 1 << 20;

/// Entries of the directory.
const ENTRIES: usize = 2000;

/// What the answers may cost at any time: `limits.responseBytes`, what is being made by four threads, and what an
/// allocator keeps of it.
const MAY_COST_KIB: u64 = 32 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_do_not_pile_up() {
    let server = Server::start();
    let content: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    fs::write(server.workspace().join("file"), &content).unwrap();
    let directory = server.workspace().join("directory");
    fs::create_dir(&directory).unwrap();
    for n in 0..ENTRIES {
        fs::write(directory.join(format!("entry-{n}")), "").unwrap();
    }
    let file = server.workspace().join("file");
    let mut client = Client::open(&server).await;
    client.call("fs/open", json!({ "handleId": "h", "path": file, "mode": "read" })).await.unwrap();
    let argv = ["head", "-c", "1048576", "/dev/zero"];
    let env = json!({ "PATH": "/usr/bin:/bin" });
    let start = json!({ "processId": "p", "argv": argv, "cwd": server.workspace(), "env": env });
    assert_eq!(client.run(start).await.stdout.len(), BYTES);

    let kinds = [
        ("fs/readFile", json!({ "path": file })),
        ("fs/readBlock", json!({ "handleId": "h", "offset": 0, "len": BYTES })),
        ("fs/readDirectory", json!({ "path": directory })),
        ("process/read", json!({ "processId": "p" })),
        ("process/snapshot", json!({ "processId": "p" })),
    ];
    let encoded = encode(&content);
    let check = |method: &str, result: &Value| match method {
        "fs/readFile" => assert!(result["dataBase64"] == encoded, "another content"),
        "fs/readBlock" => assert!(result["chunk"] == encoded, "another block"),
        "fs/readDirectory" => assert_eq!(result["entries"].as_array().unwrap().len(), ENTRIES),
        "process/read" => {
            let chunks = result["chunks"].as_array().unwrap().iter();
            assert_eq!(chunks.map(|chunk| decode(&chunk["chunk"]).len()).sum::<usize>(), BYTES);
        }
        _ => assert!(!result["streams"].as_array().unwrap().is_empty()),
    };
    // What is made once and kept is there then.
    for (method, params) in &kinds {
        check(method, &client.call(method, params.clone()).await.unwrap());
    }
    let before = peak_kib(server.pid());

    let mut asked = Vec::new();
    for _ in 0..REQUESTS {
        for (method, params) in &kinds {
            asked.push((*method, client.request(method, params.clone()).await));
        }
    }
    // It comes to the threads behind all that was asked of them before it.
    let last = server.workspace().join("last");
    let made = client.request("fs/createDirectory", json!({ "path": last })).await;
    until("the last request is served", || last.exists()).await;
    let stalled = peak_kib(server.pid());
    assert!(stalled < before + MAY_COST_KIB, "unread answers cost {} KiB", stalled - before);

    for (method, id) in asked {
        check(method, &outcome(client.response(&id).await).unwrap());
    }
    outcome(client.response(&made).await).unwrap();
    let peak = peak_kib(server.pid());
    assert!(peak < before + MAY_COST_KIB, "answers that are read late cost {} KiB", peak - before);
}

/// What a reader that stalls may cost: two megabytes, half of which is the output that is retained.
const STALLED_MAY_COST_KIB: u64 = 2_000_000 / 1024;

/// A gigabyte is written, and nobody reads: the command is held up, and what the server has of it is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_that_nobody_reads_costs_no_more_than_two_megabytes() {
    for tty in [false, true] {
        let server = Server::start();
        let mut client = Client::open(&server).await;
        let start = |id: &str, script: &str| {
            json!({ "processId": id, "argv": ["/bin/sh", "-c", script], "cwd": server.workspace(), "tty": tty,
                    "pipeStdin": true, "env": { "PATH": "/usr/bin:/bin" } })
        };
        // What a launch makes once and for ever.
        client.run(start("first", "echo x")).await;
        let flood = start("flood", "read line; exec head -c 1000000000 /dev/zero");
        client.call("process/start", flood).await.unwrap();
        let list = client.call("process/list", json!({})).await.unwrap();
        let listed =
            list["processes"].as_array().unwrap().iter().find(|process| process["processId"] == "flood");
        let pid = listed.unwrap()["pid"].as_u64().unwrap();
        let before = anonymous_kib(server.pid());

        client.request("process/write", json!({ "processId": "flood", "chunk": encode(b"\n") })).await;
        // It is held up once it has had no turn over a number of looks; before, it is another program.
        let mut looks = tokio::time::interval(Duration::from_millis(10));
        let (mut most, mut turns, mut same) = (0, String::new(), 0);
        while same < 30 {
            looks.tick().await;
            most = most.max(anonymous_kib(server.pid()));
            let status =
                fs::read_to_string(format!("/proc/{pid}/status")).expect("it is held up, and does not end");
            let now: String = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
            same = if status.starts_with("Name:\thead") && now == turns { same + 1 } else { 0 };
            turns = now;
        }
        let cost = most.saturating_sub(before);
        println!("tty {tty}: {cost} KiB");
        assert!(cost <= STALLED_MAY_COST_KIB, "tty {tty}: {cost} KiB");
    }
}
