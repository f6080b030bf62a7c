//! `fs/watch`, `fs/unwatch`, `fs/watchMissing`.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Client, Fixture, uri};

fn watch(id: impl Into<Value>, path: impl AsRef<Path>) -> Value {
    json!({ "watchId": id.into(), "path": path.as_ref() })
}

fn missing(id: impl Into<Value>, missing: &[PathBuf], present: &[PathBuf]) -> Value {
    json!({ "watchId": id.into(), "missing": missing, "present": present })
}

/// What changes, up to and with `last`.
async fn changes(client: &mut Client, id: &str, last: &Path) -> BTreeSet<PathBuf> {
    let mut seen = BTreeSet::new();
    while !seen.contains(last) {
        let notification = client.notification().await;
        assert_eq!(notification["method"], "fs/changed");
        let params = &notification["params"];
        assert_eq!((&params["watchId"], &params["overflow"]), (&json!(id), &json!(false)));
        let paths = params["paths"].as_array().expect("paths");
        seen.extend(paths.iter().map(|path| PathBuf::from(path.as_str().expect("a path"))));
    }
    seen
}

#[tokio::test]
async fn what_changes_below_a_directory_is_told() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir_all(fixture.ws("tree/a/b")).expect("made");
    std::fs::write(fixture.ws("tree/a/b/old"), "").expect("written");
    let tree = |name: &str| fixture.ws("tree").join(name);
    assert_eq!(client.call("fs/watch", watch("w", fixture.ws("tree"))).await, json!({ "watching": true }));
    std::fs::write(fixture.ws("beside"), "").expect("written");
    std::fs::write(tree("new"), "").expect("written");
    assert_eq!(changes(&mut client, "w", &tree("new")).await, [tree("new")].into());
    std::fs::write(tree("a/b/old"), "content").expect("written");
    assert_eq!(changes(&mut client, "w", &tree("a/b/old")).await, [tree("a/b/old")].into());
    std::fs::rename(tree("a/b/old"), tree("a/renamed")).expect("renamed");
    let renamed = changes(&mut client, "w", &tree("a/renamed")).await;
    assert_eq!(renamed, [tree("a/b/old"), tree("a/renamed")].into());
    std::fs::remove_file(tree("a/renamed")).expect("removed");
    changes(&mut client, "w", &tree("a/renamed")).await;
    // A directory that appears is watched as a whole, and so is one that moves.
    std::fs::create_dir_all(tree("x/y")).expect("made");
    std::fs::write(tree("x/y/1"), "").expect("written");
    changes(&mut client, "w", &tree("x/y/1")).await;
    std::fs::rename(tree("x"), tree("a/x")).expect("moved");
    changes(&mut client, "w", &tree("a/x/y/1")).await;
    std::fs::write(tree("a/x/y/2"), "").expect("written");
    let written = changes(&mut client, "w", &tree("a/x/y/2")).await;
    assert!(written.iter().all(|path| !path.starts_with(tree("x"))), "by its new name: {written:?}");
    // What a launch does is seen as well, and a tree that moves out of sight is not.
    std::fs::rename(tree("a/x"), fixture.ws("x")).expect("moved");
    changes(&mut client, "w", &tree("a/x")).await;
    std::fs::write(fixture.ws("x/y/3"), "").expect("written");
    client.run(fixture.shell("p", "touch tree/last")).await;
    let last = changes(&mut client, "w", &tree("last")).await;
    assert_eq!(last, [tree("last")].into());
    assert_eq!(client.call("fs/unwatch", json!({ "watchId": "w" })).await, json!({}));
    assert_eq!(client.call("fs/unwatch", json!({ "watchId": "w" })).await, json!({}));
}

#[tokio::test]
async fn what_the_server_writes_beside_a_file_is_not_told() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.call("fs/watch", watch("w", fixture.ws(""))).await;
    for name in ["new", "new", "last"] {
        let params = json!({ "path": fixture.ws(name), "dataBase64": "" });
        assert_eq!(client.call("fs/writeFile", params).await["atomic"], true);
    }
    let seen = changes(&mut client, "w", &fixture.ws("last")).await;
    assert_eq!(seen, [fixture.ws("new"), fixture.ws("last")].into());
    // Of all else that looks so, it is.
    let like = [".sidecar-0.tmp", ".sidecar-0123456789abcdef.tmp2", "sidecar-0123456789abcdef.tmp"];
    for name in like {
        std::fs::write(fixture.ws(name), "").expect("written");
    }
    std::fs::create_dir(fixture.ws(".sidecar-0123456789abcdef.tmp")).expect("made");
    let seen = changes(&mut client, "w", &fixture.ws(".sidecar-0123456789abcdef.tmp")).await;
    assert!(like.iter().all(|name| seen.contains(&fixture.ws(name))), "{seen:?}");
}

#[tokio::test]
async fn changes_come_in_the_spelling_of_the_request() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let root = uri(&fixture.ws(""));
    let root = root.trim_end_matches('/');
    client.call("fs/watch", json!({ "watchId": 7, "path": root })).await;
    std::fs::write(fixture.ws("a b"), "").expect("written");
    let notification = client.notification().await;
    let params = json!({ "watchId": 7, "paths": [format!("{root}/a%20b")], "overflow": false });
    assert_eq!(notification, json!({ "method": "fs/changed", "params": params }));
}

#[tokio::test]
async fn too_much_at_once_is_an_overflow() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir(fixture.ws("full")).expect("made");
    for number in 0..1500 {
        std::fs::write(fixture.ws("full").join(number.to_string()), "").expect("written");
    }
    std::fs::create_dir(fixture.ws("tree")).expect("made");
    client.call("fs/watch", watch("w", fixture.ws("tree"))).await;
    std::fs::rename(fixture.ws("full"), fixture.ws("tree/full")).expect("moved");
    let params = client.notification().await["params"].take();
    assert_eq!((&params["watchId"], &params["overflow"]), (&json!("w"), &json!(true)));
    assert!(params["paths"].as_array().expect("paths").len() <= 1000);
}

#[tokio::test]
async fn nothing_is_told_of_what_may_not_be_listed() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    symlink(fixture.outside(""), fixture.ws("out")).expect("linked");
    std::fs::write(fixture.ws("file"), "").expect("written");
    std::fs::create_dir(fixture.ws("closed")).expect("made");
    std::fs::set_permissions(fixture.ws("closed"), Permissions::from_mode(0o000)).expect("set");
    std::fs::read_dir(fixture.outside("")).expect("positive control: the server may list it");
    for (path, code) in [
        (fixture.outside(""), -32600),
        (fixture.ws("out"), -32600),
        (fixture.ws("closed"), -32600),
        ("/".into(), -32600),
        ("/proc/self".into(), -32600),
        (fixture.ws("missing"), -32004),
        (fixture.ws("file"), -32004),
    ] {
        let error = client.refused("fs/watch", watch("w", &path)).await;
        assert_eq!(error["code"], code, "{}: {error}", path.display());
    }
    // The symlink and the closed directory are in the tree, and not what they lead to.
    client.call("fs/watch", watch("w", fixture.ws(""))).await;
    std::fs::write(fixture.outside("secret"), "").expect("written");
    std::fs::set_permissions(fixture.ws("closed"), Permissions::from_mode(0o755)).expect("set");
    std::fs::write(fixture.ws("closed/file"), "").expect("written");
    std::fs::write(fixture.ws("last"), "").expect("written");
    let seen = changes(&mut client, "w", &fixture.ws("last")).await;
    assert_eq!(seen, [fixture.ws("closed"), fixture.ws("last")].into());
}

#[tokio::test]
async fn the_root_itself_may_go() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir(fixture.ws("tree")).expect("made");
    client.call("fs/watch", watch("w", fixture.ws("tree"))).await;
    std::fs::remove_dir(fixture.ws("tree")).expect("removed");
    assert_eq!(changes(&mut client, "w", &fixture.ws("tree")).await, [fixture.ws("tree")].into());
}

#[tokio::test]
async fn watches_are_counted_and_named() {
    let fixture = Fixture::with(|config| config.limits.watches = 2).await;
    let mut client = fixture.client().await;
    client.call("fs/watch", watch("a", fixture.ws(""))).await;
    let error = client.refused("fs/watch", watch("a", fixture.ws(""))).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("watch \"a\" already exists")));
    client.call("fs/watchMissing", missing(1, &[fixture.ws("x")], &[])).await;
    for (method, params) in
        [("fs/watch", watch(2, fixture.ws(""))), ("fs/watchMissing", missing(2, &[fixture.ws("y")], &[]))]
    {
        let error = client.refused(method, params).await;
        assert_eq!((&error["code"], &error["data"]["limit"]), (&json!(-32011), &json!("limits.watches")));
    }
    client.call("fs/unwatch", json!({ "watchId": "a" })).await;
    client.call("fs/watch", watch(2, fixture.ws(""))).await;
    // Each connection has its own.
    let mut other = fixture.client().await;
    other.call("fs/watch", watch(2, fixture.ws(""))).await;
    let many: Vec<PathBuf> = (0..257).map(|number| fixture.ws(&number.to_string())).collect();
    assert_eq!(other.refused("fs/watchMissing", missing(3, &many, &[])).await["code"], -32602);
    assert_eq!(other.refused("fs/watch", json!({ "watchId": 3, "path": "x" })).await["code"], -32602);
}

async fn told_once(client: &mut Client, id: Value) {
    let told = json!({ "method": "fs/missingChanged", "params": { "watchId": id } });
    assert_eq!(client.notification().await, told);
}

#[tokio::test]
async fn a_missing_path_that_appears_is_told_once() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let deep = fixture.ws("a/b/.git");
    let watching = client.call("fs/watchMissing", missing(1, &[fixture.ws("x"), deep.clone()], &[])).await;
    assert_eq!(watching, json!({ "watching": true }));
    client.call("fs/watchMissing", missing("also", std::slice::from_ref(&deep), &[])).await;
    // What else happens there is not told.
    std::fs::create_dir_all(fixture.ws("a/b")).expect("made");
    std::fs::write(fixture.ws("a/b/file"), "").expect("written");
    std::fs::create_dir(fixture.ws("a/b/git")).expect("made");
    std::fs::rename(fixture.ws("a/b/git"), &deep).expect("renamed");
    let mut told = [client.notification().await, client.notification().await];
    told.sort_by_key(|notification| notification["params"]["watchId"].is_string());
    assert_eq!(told.map(|mut told| told["params"]["watchId"].take()), [json!(1), json!("also")]);
    std::fs::write(fixture.ws("x"), "").expect("written");
    // The id is free again; what is there already is told at once, and only after the answer.
    let id = client.request("fs/watchMissing", missing(1, &[deep], &[])).await;
    assert_eq!(client.outcome(id).await.expect("watching"), json!({ "watching": true }));
    told_once(&mut client, json!(1)).await;
    client.call("fs/watch", watch("end", fixture.ws(""))).await;
    std::fs::write(fixture.ws("y"), "").expect("written");
    assert_eq!(client.notification().await["params"]["watchId"], "end", "nothing twice");
}

#[tokio::test]
async fn a_present_path_that_goes_is_told() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for (id, remove) in [(1, false), (2, true)] {
        std::fs::create_dir_all(fixture.ws("a/b")).expect("made");
        std::fs::write(fixture.ws("a/b/file"), "").expect("written");
        let params = missing(id, &[fixture.ws("none")], &[fixture.ws("a/b/file"), fixture.ws("")]);
        client.call("fs/watchMissing", params).await;
        // The file itself, or a directory on the way to it.
        if remove {
            std::fs::remove_file(fixture.ws("a/b/file")).expect("removed");
        } else {
            std::fs::rename(fixture.ws("a"), fixture.ws("moved")).expect("moved");
        }
        told_once(&mut client, json!(id)).await;
    }
}

#[tokio::test]
async fn missing_paths_may_lie_outside_of_every_root() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let git = fixture.outside("repo/.git");
    let paths = [
        "file:///.git".to_owned(),
        "file:///tmp/.nothing/.git".to_owned(),
        "file:///proc/self/fd/0/.git".to_owned(),
        "file:///root/.nothing".to_owned(),
        uri(&git),
    ];
    let params = json!({ "watchId": 1, "missing": paths, "present": null });
    assert_eq!(client.call("fs/watchMissing", params).await, json!({ "watching": true }));
    // The one bit, and nothing of what leads to it.
    std::fs::create_dir(fixture.outside("repo")).expect("made");
    std::fs::create_dir(&git).expect("made");
    told_once(&mut client, json!(1)).await;
    // What everybody sees differently in /proc is neither there nor missing.
    let params = json!({ "watchId": 2, "missing": ["/proc/self/environ", "/proc/self/fd/0"], "present": ["/proc/self/x"] });
    client.call("fs/watchMissing", params).await;
    client.call("fs/watchMissing", missing(3, &[git], &[])).await;
    told_once(&mut client, json!(3)).await;
}

#[tokio::test]
async fn a_slow_reader_loses_no_change_and_delays_nobody() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.call("fs/watch", watch("w", fixture.ws(""))).await;
    // The lane is full of output that nobody takes yet.
    client.call("process/start", fixture.shell("p", "yes | head -c 4000000")).await;
    for number in 0..50 {
        std::fs::write(fixture.ws(&format!("file-{number}")), "").expect("written");
    }
    let mut other = fixture.client().await;
    other.call("fs/watch", watch("o", fixture.ws(""))).await;
    std::fs::write(fixture.ws("last"), "").expect("written");
    changes(&mut other, "o", &fixture.ws("last")).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 51 {
        let notification = client.notification().await;
        if notification["method"] == "fs/changed" {
            let paths = notification["params"]["paths"].as_array().expect("paths").clone();
            seen.extend(paths.iter().map(Value::to_string));
        }
    }
}

#[tokio::test]
async fn watches_of_one_directory_do_not_disturb_each_other() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir(fixture.ws("sub")).expect("made");
    for (id, root) in [("all", ""), ("sub", "sub"), ("more", "")] {
        client.call("fs/watch", watch(id, fixture.ws(root))).await;
    }
    client.call("fs/watchMissing", missing(1, &[fixture.ws("sub/x")], &[])).await;
    for id in [json!("more"), json!(1)] {
        client.call("fs/unwatch", json!({ "watchId": id })).await;
    }
    std::fs::write(fixture.ws("sub/x"), "").expect("written");
    let mut told = BTreeSet::new();
    while told.len() < 2 {
        let params = client.notification().await["params"].take();
        assert_eq!(params["paths"], json!([fixture.ws("sub/x")]));
        told.insert(params["watchId"].as_str().expect("an id").to_owned());
    }
    assert_eq!(told, ["all".to_owned(), "sub".to_owned()].into());
}
