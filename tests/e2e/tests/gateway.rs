//! The gateway: clients in a directory that the sidecar does not have, files in one that they do not have.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::client::{decode, encode, outcome};
use e2e::gateway::{Gateway, TOKEN, apart};
use e2e::server::clean_environment;
use e2e::{Client, Scratch, programs};
use serde_json::{Value, json};

async fn open(gateway: &Gateway) -> (Client, Value) {
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    let greeting =
        client.call("initialize", json!({ "clientName": "e2e", "resumeSessionId": null })).await.unwrap();
    client.notify("initialized", json!({})).await;
    (client, greeting)
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display().to_string().replace(' ', "%20"))
}

#[tokio::test]
async fn paths_are_those_of_the_client() {
    let (server, local) = apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    let (mut client, greeting) = open(&gateway).await;
    assert_eq!(greeting["environmentInfo"]["cwd"], uri(&local));
    let info = client.call("environment/info", json!({})).await.unwrap();
    assert_eq!(info["sidecar"]["workspaceRoot"], uri(&local));

    let file = local.join("a b");
    let data = encode("x");
    client.call("fs/writeFile", json!({ "path": file, "dataBase64": data })).await.unwrap();
    assert_eq!(fs::read(server.workspace().join("a b")).unwrap(), b"x");
    let walked = client.call("fs/walk", json!({ "path": uri(&local), "options": {} })).await.unwrap();
    let paths: Vec<&Value> = walked["entries"].as_array().unwrap().iter().map(|e| &e["path"]).collect();
    assert!(paths.contains(&&json!(uri(&file))), "{walked}");
    let canonical = client.call("fs/canonicalize", json!({ "path": file })).await.unwrap();
    assert_eq!(canonical["path"], json!(file));
    let missing = client.call("fs/readFile", json!({ "path": local.join("none") })).await.unwrap_err();
    assert_eq!((&missing["code"], &missing["data"]["path"]), (&json!(-32004), &json!(local.join("none"))));

    // In the parent of the root there is nothing, though the file is there on the server's side.
    let outside = server.workspace().join("hello.txt");
    let probe = client.call("fs/getMetadata", json!({ "path": outside })).await.unwrap_err();
    assert_eq!(probe["code"], -32004);
    let launch = json!({ "processId": "out", "argv": ["true"], "cwd": server.workspace(), "env": {} });
    let refused = client.call("process/start", launch).await.unwrap_err();
    let words = refused["message"].as_str().unwrap();
    for root in [local.clone(), server.workspace()] {
        assert!(words.contains(root.to_str().unwrap()), "{words}");
    }

    client.call("fs/watch", json!({ "watchId": "w", "path": local })).await.unwrap();
    fs::write(server.workspace().join("changed"), "x").unwrap();
    let seen = client
        .find(|frame| {
            frame["method"] == "fs/changed"
                && frame["params"]["paths"].as_array().unwrap().contains(&json!(local.join("changed")))
        })
        .await;
    assert_eq!(seen["params"]["watchId"], "w");
}

#[tokio::test]
async fn what_it_does_not_know_it_passes_on() {
    let (server, local) = apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    client.send_text("no JSON").await;
    let error = client.find(|frame| frame["id"] == -1).await;
    assert_eq!(error["error"]["code"], -32600);
    let early = client.call("process/list", json!({})).await.unwrap_err();
    assert_eq!(early["message"], "client must call initialize before using exec methods");
    client.initialize().await;
    client.notify("initialized", json!({})).await;
    client.send(&json!({ "id": "my own", "method": "future/method", "params": { "path": "/x" } })).await;
    let answer = outcome(client.response(&json!("my own")).await).unwrap_err();
    assert_eq!(answer["code"], -32601);
    client.notify("future/notification", json!({})).await;
    let (code, reason) = client.closed().await.unwrap();
    assert_eq!(code, 1002);
    assert!(reason.contains("future/notification"), "{reason}");
}

#[tokio::test]
async fn who_shows_no_token_is_not_let_in() {
    use e2e::client::dial;
    let (server, local) = apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    assert!(dial(gateway.url(), Some(TOKEN), &[]).await.is_ok());
    for token in [None, Some("wrong"), server.token()] {
        let error = dial(gateway.url(), token, &[]).await.unwrap_err().to_string();
        assert!(error.contains("401"), "{error}");
    }
    let error = dial(gateway.url(), Some(TOKEN), &[("origin", "https://example.org")]).await.unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
}

#[test]
fn it_is_open_to_nobody_by_mistake() {
    let scratch = Scratch::new();
    let start = |args: &[&str]| {
        let mut command = Command::new(programs::agent_client());
        clean_environment(&mut command, &scratch);
        let output = command.arg("gateway").args(args).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let sidecar = ["--sidecar-url", "ws://127.0.0.1:1"];
    for (args, part) in [
        (&["--listen", "ws://127.0.0.1:0"][..], "--listen-token-file"),
        (&["--listen", "ws://0.0.0.0:0", "--insecure-no-auth"], "loopback"),
        (&["--listen", "tcp://127.0.0.1:0"], "ws://IP:PORT"),
    ] {
        let (code, stderr) = start(&[args, &sidecar].concat());
        assert_eq!(code, Some(125), "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
    let (code, stderr) = start(&[]);
    assert_eq!(code, Some(125), "{stderr}");
    assert!(stderr.contains("set sidecar_url or kube"), "{stderr}");
    // A client that never comes leaves nothing to complain of.
    assert_eq!(start(&sidecar), (Some(0), String::new()));
}

#[tokio::test]
async fn a_client_that_speaks_of_no_session_leaves_nothing_running() {
    let (server, local) = apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    let mut client = Client::connect_to(gateway.url(), TOKEN).await;
    client.initialize().await;
    client.notify("initialized", json!({})).await;
    let argv = ["sh", "-c", "echo $$; exec sleep 600"];
    let env = json!({ "PATH": "/usr/bin:/bin" });
    client
        .call("process/start", json!({ "processId": "p", "argv": argv, "cwd": local, "env": env }))
        .await
        .unwrap();
    let output = client.of_process("p", "output").await;
    let pid: i32 = String::from_utf8(decode(&output["chunk"])).unwrap().trim().parse().unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    drop(client);
    let process = PathBuf::from(format!("/proc/{pid}"));
    e2e::until("the end of what the client left", || !process.exists()).await;
}
