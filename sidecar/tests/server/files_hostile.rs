//! `fs/*` against what a launch may have left there: symlinks out, FIFOs, devices, huge files. Each denial has a
//! positive control: the sidecar's own process could do the same thing.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::common::{Fixture, encode, with};

#[tokio::test]
async fn symlinks_lead_nowhere_that_a_launch_could_not_go() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let secret = fixture.outside("secret");
    std::fs::write(&secret, "secret").expect("positive control: the server's own process may write there");
    symlink(&secret, fixture.ws("file")).expect("linked");
    symlink(fixture.outside(""), fixture.ws("dir")).expect("linked");
    symlink(fixture.outside("new"), fixture.ws("dangling")).expect("linked");
    let data = encode("owned");
    let calls = [
        ("fs/readFile", json!({ "path": fixture.ws("file") })),
        ("fs/readFile", json!({ "path": fixture.ws("dir/secret") })),
        ("fs/readFile", json!({ "path": secret })),
        ("fs/writeFile", json!({ "path": fixture.ws("file"), "dataBase64": data })),
        ("fs/writeFile", json!({ "path": fixture.ws("dangling"), "dataBase64": data })),
        ("fs/writeFile", json!({ "path": fixture.ws("dir/new"), "dataBase64": data })),
        ("fs/writeFile", json!({ "path": fixture.outside("new"), "dataBase64": data })),
        ("fs/createDirectory", json!({ "path": fixture.ws("dir/new") })),
        ("fs/readDirectory", json!({ "path": fixture.ws("dir") })),
        ("fs/remove", json!({ "path": fixture.ws("dir/secret") })),
        (
            "fs/copy",
            json!({ "sourcePath": fixture.ws("file/../secret"), "destinationPath": fixture.ws("c"), "recursive": false }),
        ),
        (
            "fs/copy",
            json!({ "sourcePath": fixture.ws("dir/secret"), "destinationPath": fixture.ws("c"), "recursive": false }),
        ),
        (
            "fs/copy",
            json!({ "sourcePath": "/etc/passwd", "destinationPath": fixture.ws("dir/new"), "recursive": false }),
        ),
    ];
    for (method, params) in calls {
        let error = client.refused(method, params.clone()).await;
        let code = error["code"].as_i64().expect("a code");
        assert!([-32600, -32004].contains(&code), "{method} {params}: {error}");
    }
    assert_eq!(std::fs::read_to_string(&secret).expect("still there"), "secret");
    assert!(!fixture.outside("new").exists() && !fixture.ws("c").exists());
    let error = client.refused("fs/readFile", json!({ "path": secret })).await;
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32600), &json!("permissionDenied")));
    assert!(error["data"]["hint"].as_str().expect("a hint").starts_with("readRoots"), "{error}");
    // The symlink itself is the workspace's own.
    client.call("fs/remove", json!({ "path": fixture.ws("file") })).await;
    assert!(secret.exists());
}

#[tokio::test]
async fn a_request_can_tighten_its_file_operations() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let write = |mode: Value| {
        with(
            json!({ "path": fixture.ws("file"), "dataBase64": encode("x") }),
            "sandbox",
            json!({ "mode": mode }),
        )
    };
    assert_eq!(client.refused("fs/writeFile", write(json!("readOnly"))).await["code"], -32600);
    assert!(!fixture.ws("file").exists());
    client.call("fs/writeFile", write(json!("workspaceWrite"))).await;
    let read = with(json!({ "path": fixture.ws("file") }), "sandbox", json!({ "mode": "readOnly" }));
    assert_eq!(client.call("fs/readFile", read).await["dataBase64"], encode("x"));
    assert_eq!(client.refused("fs/writeFile", write(json!("nonsense"))).await["code"], -32602);
}

#[tokio::test]
async fn the_servers_own_proc_is_closed() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    symlink("/proc/self/root/etc/passwd", fixture.ws("magic")).expect("linked");
    symlink("/proc/self/cwd", fixture.ws("cwd")).expect("linked");
    let calls = [
        ("fs/readFile", "/proc/self/maps".into()),
        ("fs/readFile", fixture.ws("magic")),
        ("fs/readDirectory", "/proc/self/fd".into()),
        ("fs/readDirectory", fixture.ws("cwd")),
        ("fs/readFile", "/proc/self/fd/0".into()),
    ];
    for (method, path) in calls {
        let error = client.refused(method, json!({ "path": path })).await;
        assert!(error["code"] == -32600 || error["code"] == -32603, "{}: {error}", path.display());
    }
}

#[tokio::test]
async fn deep_trees_are_bounded_and_said_to_be() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let deep = |name: &str, depth: usize| fixture.ws(name).join("d/".repeat(depth));
    std::fs::create_dir_all(deep("fine", 100)).expect("made");
    client.call("fs/remove", json!({ "path": fixture.ws("fine") })).await;
    assert!(!fixture.ws("fine").exists());
    std::fs::create_dir_all(deep("deep", 500)).expect("made");
    let error = client.refused("fs/remove", json!({ "path": fixture.ws("deep") })).await;
    assert!(error["message"].as_str().expect("a message").contains("directories in one another"), "{error}");
}
