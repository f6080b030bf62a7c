//! A client that asks for much and reads nothing: what it costs the server is bounded, and nothing is lost once it reads.

use std::fs;

use e2e::client::{decode, encode, outcome};
use e2e::soak::measure::peak_kib;
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
