//! `fs/walk`.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::common::Fixture;

/// Names below the start with their kinds, sorted.
fn names(fixture: &Fixture, walked: &Value) -> Vec<String> {
    let start = fixture.ws("tree").display().to_string();
    let mut names: Vec<String> = walked["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| {
            let path = entry["path"].as_str().expect("a path");
            let name = path.strip_prefix(&start).expect("below the start").trim_start_matches('/');
            format!("{name} {}", entry["kind"].as_str().expect("a kind"))
        })
        .collect();
    names.sort();
    names
}

fn make(fixture: &Fixture, directories: &[&str], files: &[&str]) {
    for name in directories {
        std::fs::create_dir_all(fixture.ws("tree").join(name)).expect("made");
    }
    for name in files {
        std::fs::write(fixture.ws("tree").join(name), "").expect("written");
    }
}

#[tokio::test]
async fn a_tree_parents_first() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    make(&fixture, &["a/b", ".hidden"], &["a/b/file", ".hidden/x", ".dot"]);
    symlink("a", fixture.ws("tree/link")).expect("linked");
    symlink("nowhere", fixture.ws("tree/a/dangling")).expect("linked");
    let made = client.run(fixture.shell("p", "mkfifo tree/fifo")).await;
    assert_eq!(made.code(), 0, "{}", made.err());
    let walked = client.call("fs/walk", json!({ "path": fixture.ws("tree") })).await;
    assert_eq!((&walked["truncated"], &walked["errors"]), (&json!(false), &json!([])));
    assert_eq!(
        names(&fixture, &walked),
        [
            ".dot file",
            ".hidden directory",
            ".hidden/x file",
            "a directory",
            "a/b directory",
            "a/b/file file",
            "a/dangling symlink",
            "fifo other",
            "link symlink",
        ]
    );
    let entries = walked["entries"].as_array().expect("entries");
    let at = |name: &str| {
        let path = json!(fixture.ws("tree").join(name));
        entries.iter().position(|entry| entry["path"] == path).expect("listed")
    };
    assert!(at("a") < at("a/b") && at("a/b") < at("a/b/file"));
    let options = json!({ "pruneHiddenDirectories": true, "maxDepth": 2 });
    let walked = client.call("fs/walk", json!({ "path": fixture.ws("tree"), "options": options })).await;
    assert_eq!(walked["truncated"], false, "the client asked for no more");
    assert_eq!(
        names(&fixture, &walked),
        [".dot file", "a directory", "a/b directory", "a/dangling symlink", "fifo other", "link symlink"]
    );
}

#[tokio::test]
async fn bounds_are_kept_and_told() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    make(&fixture, &["a/b", "c", &format!("d{}", "/d".repeat(70))], &["a/1", "a/2", "c/3"]);
    let mut walk = async |options: Value| {
        client.call("fs/walk", json!({ "path": fixture.ws("tree"), "options": options })).await
    };
    let count = |walked: &Value| walked["entries"].as_array().expect("entries").len();
    let walked = walk(json!({ "maxDepth": 0 })).await;
    assert_eq!((count(&walked), &walked["truncated"]), (0, &json!(false)));
    let walked = walk(json!({ "maxEntries": 2 })).await;
    assert_eq!((count(&walked), &walked["truncated"]), (2, &json!(true)));
    let walked = walk(json!({ "maxDirectories": 1 })).await;
    assert_eq!((count(&walked), &walked["truncated"]), (3, &json!(true)));
    // 64 levels of d, and the six entries beside them.
    let walked = walk(json!({ "maxDepth": 1_000_000 })).await;
    assert_eq!((count(&walked), &walked["truncated"]), (64 + 6, &json!(true)));
}

#[tokio::test]
async fn symlink_loops_end() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    make(&fixture, &["a/b"], &["a/b/file"]);
    symlink("..", fixture.ws("tree/a/up")).expect("linked");
    symlink("a", fixture.ws("tree/link")).expect("linked");
    symlink("self", fixture.ws("tree/self")).expect("linked");
    symlink(fixture.outside(""), fixture.ws("tree/out")).expect("linked");
    std::fs::write(fixture.outside("secret"), "").expect("positive control: the server may list it");
    let options = json!({ "followDirectorySymlinks": true });
    let walked = client.call("fs/walk", json!({ "path": fixture.ws("tree"), "options": options })).await;
    let names = names(&fixture, &walked);
    // Each directory once, by whichever name it is met first.
    assert_eq!(names.iter().filter(|name| name.ends_with("b/file file")).count(), 1, "{names:?}");
    for name in ["a directory", "link symlink", "self symlink", "out symlink"] {
        assert!(names.iter().any(|listed| listed == name), "{name}: {names:?}");
    }
    assert_eq!(walked["truncated"], false);
    let errors = walked["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["path"], json!(fixture.ws("tree/out")));
    assert!(!walked.to_string().contains("secret"));
}

#[tokio::test]
async fn what_cannot_be_listed_is_told_beside_the_rest() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    make(&fixture, &["a", "closed", "z"], &["a/file", "closed/file", "z/file"]);
    std::fs::set_permissions(fixture.ws("tree/closed"), Permissions::from_mode(0o000)).expect("set");
    let walked = client.call("fs/walk", json!({ "path": fixture.ws("tree") })).await;
    assert_eq!(
        names(&fixture, &walked),
        ["a directory", "a/file file", "closed directory", "z directory", "z/file file"]
    );
    let error = json!({ "path": fixture.ws("tree/closed"), "message": "Permission denied (os error 13)" });
    assert_eq!(walked["errors"], json!([error]));
    std::fs::set_permissions(fixture.ws("tree/closed"), Permissions::from_mode(0o755)).expect("set");
}

#[tokio::test]
async fn the_start_must_be_a_directory_that_can_be_listed() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "").expect("written");
    symlink(fixture.outside(""), fixture.ws("out")).expect("linked");
    std::fs::read_dir(fixture.outside("")).expect("positive control: the server may list it");
    for (path, code) in [
        (fixture.ws("missing"), -32004),
        (fixture.ws("file"), -32004),
        (fixture.ws("out"), -32600),
        (fixture.outside(""), -32600),
        ("/".into(), -32600),
        ("/proc/self".into(), -32600),
    ] {
        let error = client.refused("fs/walk", json!({ "path": path })).await;
        assert_eq!(error["code"], code, "{}: {error}", path.display());
    }
}
