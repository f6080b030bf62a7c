//! `fs/*`: what it does, and what it says when it cannot.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Client, Fixture, decode, encode, scratch, uri};

async fn read(client: &mut Client, path: &Path) -> Vec<u8> {
    decode(&client.call("fs/readFile", json!({ "path": path })).await["dataBase64"])
}

async fn write(client: &mut Client, path: &Path, bytes: impl AsRef<[u8]>) -> Value {
    client.call("fs/writeFile", json!({ "path": path, "dataBase64": encode(bytes) })).await
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("there").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

#[tokio::test]
async fn bytes_go_in_and_come_back() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let path = fixture.ws("a b é");
    assert_eq!(write(&mut client, &path, &content).await, json!({ "atomic": true }));
    assert!(read(&mut client, &path).await == content);
    write(&mut client, &path, "").await;
    assert_eq!(read(&mut client, &path).await, b"");
    let by_uri = json!({ "path": uri(&fixture.ws("a%20b%20%C3%A9")) });
    assert_eq!(client.call("fs/readFile", by_uri).await["dataBase64"], "");
}

#[tokio::test]
async fn a_write_changes_the_content_and_nothing_else() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let path = fixture.ws("file");
    std::fs::write(&path, "old").expect("written");
    set_mode(&path, 0o640);
    assert_eq!(write(&mut client, &path, "new").await["atomic"], true);
    assert_eq!(mode(&path), 0o640);
    // A hard link keeps its inode.
    let link = fixture.ws("hard");
    std::fs::hard_link(&path, &link).expect("linked");
    assert_eq!(write(&mut client, &path, "both").await["atomic"], false);
    assert_eq!(std::fs::read_to_string(&link).expect("read"), "both");
    // A symlink stays one, and its target is written, missing or not.
    symlink("target", fixture.ws("soft")).expect("linked");
    for text in ["made", "again"] {
        write(&mut client, &fixture.ws("soft"), text).await;
        assert!(fixture.ws("soft").symlink_metadata().expect("there").is_symlink());
        assert_eq!(std::fs::read_to_string(fixture.ws("target")).expect("read"), text);
    }
    assert_eq!(std::fs::read_dir(fixture.ws("")).expect("listed").count(), 4, "nothing is left behind");
}

#[tokio::test]
async fn modes_and_parents_of_new_files() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let path = fixture.ws("a/b/script");
    let params = json!({ "path": path, "dataBase64": "", "mode": 0o700, "createParents": true });
    client.call("fs/writeFile", params).await;
    assert_eq!(mode(&path), 0o700);
    let error = client.refused("fs/writeFile", json!({ "path": fixture.ws("x/y"), "dataBase64": "" })).await;
    assert_eq!(error["code"], -32004);
    let error = client.refused("fs/writeFile", json!({ "path": fixture.ws("x"), "dataBase64": "%" })).await;
    assert_eq!(error["code"], -32600);
}

#[tokio::test]
async fn an_unwritable_directory_is_written_in_place() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let dir = fixture.ws("dir");
    std::fs::create_dir(&dir).expect("made");
    std::fs::write(dir.join("file"), "a longer old content").expect("written");
    set_mode(&dir, 0o555);
    assert_eq!(write(&mut client, &dir.join("file"), "new").await["atomic"], false);
    assert_eq!(std::fs::read_to_string(dir.join("file")).expect("read"), "new");
    let error = client.refused("fs/writeFile", json!({ "path": dir.join("other"), "dataBase64": "" })).await;
    assert_eq!((&error["code"], &error["data"]["errno"]), (&json!(-32600), &json!(13)));
    set_mode(&dir, 0o755);
}

#[tokio::test]
async fn errors_say_what_and_where() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "").expect("written");
    let missing = fixture.ws("missing");
    for (method, path) in [
        ("fs/readFile", missing.display().to_string()),
        ("fs/getMetadata", uri(&missing)),
        ("fs/readDirectory", uri(&missing)),
    ] {
        let error = client.refused(method, json!({ "path": path })).await;
        assert_eq!(error["code"], -32004);
        assert_eq!(error["message"], "No such file or directory (os error 2)");
        assert_eq!(error["data"], json!({ "kind": "notFound", "errno": 2, "path": path }));
    }
    let error = client.refused("fs/getMetadata", json!({ "path": fixture.ws("file/below") })).await;
    assert_eq!((&error["code"], &error["data"]["errno"]), (&json!(-32004), &json!(20)));
    let error = client.refused("fs/readDirectory", json!({ "path": fixture.ws("file") })).await;
    assert_eq!(error["code"], -32004);
    let error = client.refused("fs/readFile", json!({ "path": fixture.ws("") })).await;
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32600), &json!("wrongType")));
}

#[tokio::test]
async fn metadata() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "12345").expect("written");
    set_mode(&fixture.ws("file"), 0o604);
    symlink("file", fixture.ws("link")).expect("linked");
    symlink("nowhere", fixture.ws("dangling")).expect("linked");
    let of = |name: &str| json!({ "path": fixture.ws(name) });
    let file = client.call("fs/getMetadata", of("file")).await;
    let kinds = |m: &Value| (m["isFile"] == true, m["isDirectory"] == true, m["isSymlink"] == true);
    assert_eq!(kinds(&file), (true, false, false));
    assert_eq!((&file["size"], &file["mode"]), (&json!(5), &json!(0o604)));
    let modified = fixture.ws("file").metadata().expect("there").mtime();
    assert_eq!(file["modifiedAtMs"].as_i64().expect("a time") / 1000, modified);
    let link = client.call("fs/getMetadata", of("link")).await;
    assert_eq!(kinds(&link), (true, false, true));
    assert_eq!((&link["size"], &link["symlinkTarget"]), (&json!(5), &json!("file")));
    assert_eq!(kinds(&client.call("fs/getMetadata", of("")).await), (false, true, false));
    assert_eq!(client.refused("fs/getMetadata", of("dangling")).await["code"], -32004);
}

#[tokio::test]
async fn directories() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let make = |name: &str, recursive: Value| json!({ "path": fixture.ws(name), "recursive": recursive });
    client.call("fs/createDirectory", make("a/b", Value::Null)).await;
    client.call("fs/createDirectory", make("a/b", json!(true))).await;
    assert_eq!(
        client.refused("fs/createDirectory", make("a/b", json!(false))).await["data"]["kind"],
        "alreadyExists"
    );
    assert_eq!(client.refused("fs/createDirectory", make("x/y", json!(false))).await["code"], -32004);
    symlink("b", fixture.ws("a/link")).expect("linked");
    symlink("nowhere", fixture.ws("a/dangling")).expect("linked");
    let listing = client.call("fs/readDirectory", json!({ "path": fixture.ws("a") })).await;
    assert_eq!(listing["truncated"], false);
    let mut entries: Vec<String> =
        listing["entries"].as_array().expect("entries").iter().map(Value::to_string).collect();
    entries.sort();
    assert_eq!(
        entries,
        [
            r#"{"fileName":"b","isDirectory":true,"isFile":false,"isSymlink":false}"#,
            r#"{"fileName":"dangling","isDirectory":false,"isFile":false,"isSymlink":true}"#,
            r#"{"fileName":"link","isDirectory":true,"isFile":false,"isSymlink":true}"#,
        ]
    );
}

#[tokio::test]
async fn remove() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let remove = |name: &str, recursive: Value, force: Value| json!({ "path": fixture.ws(name), "recursive": recursive, "force": force });
    client.call("fs/remove", remove("missing", Value::Null, Value::Null)).await;
    assert_eq!(
        client.refused("fs/remove", remove("missing", Value::Null, json!(false))).await["code"],
        -32004
    );
    std::fs::create_dir_all(fixture.ws("tree/a/b/c")).expect("made");
    std::fs::write(fixture.ws("tree/a/file"), "").expect("written");
    std::fs::create_dir(fixture.ws("kept")).expect("made");
    std::fs::write(fixture.ws("kept/file"), "").expect("written");
    symlink(fixture.ws("kept"), fixture.ws("tree/link")).expect("linked");
    symlink("kept", fixture.ws("link")).expect("linked");
    client.call("fs/remove", remove("link", Value::Null, Value::Null)).await;
    assert_eq!(
        client.refused("fs/remove", remove("tree", json!(false), Value::Null)).await["data"]["errno"],
        39
    );
    client.call("fs/remove", remove("tree", Value::Null, Value::Null)).await;
    assert!(
        !fixture.ws("tree").exists() && fixture.ws("kept/file").exists(),
        "symlinks are removed, not followed"
    );
}

#[tokio::test]
async fn roots_are_not_removed() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "").expect("written");
    let above = fixture.ws("").parent().expect("a parent").to_owned();
    for path in [fixture.ws(""), above, "/".into(), "/tmp".into(), fixture.ws("x/..")] {
        let error = client.refused("fs/remove", json!({ "path": path })).await;
        assert_eq!(error["code"], -32600, "{}: {error}", path.display());
    }
    assert!(fixture.ws("file").exists());
}

#[tokio::test]
async fn what_holds_a_root_is_not_removed() {
    let holder = scratch();
    let held = holder.path().join("a/root");
    std::fs::create_dir_all(&held).expect("made");
    let fixture = Fixture::with(|config| config.sandbox.roots.read_roots.push(held)).await;
    let mut client = fixture.client().await;
    for path in [holder.path().join("a/root"), holder.path().join("a"), holder.path().to_owned()] {
        let error = client.refused("fs/remove", json!({ "path": path })).await;
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.starts_with("is a root of the sandbox policy, or holds one"),
            "{}: {error}",
            path.display()
        );
    }
}

#[tokio::test]
async fn a_directory_that_is_copied_onto_keeps_its_mode() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for (name, bits) in [("from/sub", 0o700), ("to/sub", 0o755), ("from/new", 0o750)] {
        std::fs::create_dir_all(fixture.ws(name)).expect("made");
        set_mode(&fixture.ws(name), bits);
    }
    let params =
        json!({ "sourcePath": fixture.ws("from"), "destinationPath": fixture.ws("to"), "recursive": true });
    client.call("fs/copy", params).await;
    assert_eq!((mode(&fixture.ws("to/sub")), mode(&fixture.ws("to/new"))), (0o755, 0o750));
}

#[tokio::test]
async fn what_can_be_removed_is_and_the_first_error_is_told() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for name in ["tree/a", "tree/closed/inner", "tree/z"] {
        std::fs::create_dir_all(fixture.ws(name)).expect("made");
        std::fs::write(fixture.ws(name).join("file"), "").expect("written");
    }
    set_mode(&fixture.ws("tree/closed/inner"), 0o555);
    let error = client.refused("fs/remove", json!({ "path": fixture.ws("tree") })).await;
    assert_eq!(error["data"]["path"], json!(fixture.ws("tree/closed/inner/file")), "{error}");
    assert!(!fixture.ws("tree/a").exists() && !fixture.ws("tree/z").exists());
    set_mode(&fixture.ws("tree/closed/inner"), 0o755);
}

#[tokio::test]
async fn copy() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let copy = |from: &str, to: &str, recursive: bool| json!({ "sourcePath": fixture.ws(from), "destinationPath": fixture.ws(to), "recursive": recursive });
    std::fs::create_dir_all(fixture.ws("tree/sub")).expect("made");
    std::fs::write(fixture.ws("tree/sub/file"), "content").expect("written");
    set_mode(&fixture.ws("tree/sub/file"), 0o750);
    set_mode(&fixture.ws("tree/sub"), 0o500);
    symlink("sub/file", fixture.ws("tree/link")).expect("linked");
    client.call("fs/copy", copy("tree", "copy", true)).await;
    assert_eq!(std::fs::read_to_string(fixture.ws("copy/sub/file")).expect("read"), "content");
    assert_eq!((mode(&fixture.ws("copy/sub/file")), mode(&fixture.ws("copy/sub"))), (0o750, 0o500));
    assert_eq!(std::fs::read_link(fixture.ws("copy/link")).expect("a link"), Path::new("sub/file"));
    // An existing file is overwritten, whatever its length.
    std::fs::write(fixture.ws("old"), "something longer").expect("written");
    client.call("fs/copy", copy("tree/sub/file", "old", false)).await;
    assert_eq!(
        (std::fs::read_to_string(fixture.ws("old")).expect("read").as_str(), mode(&fixture.ws("old"))),
        ("content", 0o750)
    );
    client.call("fs/copy", copy("tree/link", "old", false)).await;
    assert!(fixture.ws("old").symlink_metadata().expect("there").is_symlink());
    for (from, to, recursive) in [
        ("tree", "x", false),
        ("tree", "tree/sub2", true),
        ("tree", "tree", true),
        ("copy/sub/file", "copy/sub/file", false),
    ] {
        let error = client.refused("fs/copy", copy(from, to, recursive)).await;
        assert_eq!(error["code"], -32600, "{from} → {to}: {error}");
    }
    assert_eq!(std::fs::read_to_string(fixture.ws("copy/sub/file")).expect("read"), "content");
    assert_eq!(client.refused("fs/copy", copy("missing", "x", true)).await["code"], -32004);
    for dir in ["tree/sub", "copy/sub"] {
        set_mode(&fixture.ws(dir), 0o755);
    }
}

#[tokio::test]
async fn what_can_be_copied_is_and_the_first_error_is_told() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir_all(fixture.ws("tree/b")).expect("made");
    for name in ["tree/a", "tree/b/c", "tree/closed"] {
        std::fs::write(fixture.ws(name), name).expect("written");
    }
    set_mode(&fixture.ws("tree/closed"), 0);
    let params =
        json!({ "sourcePath": fixture.ws("tree"), "destinationPath": fixture.ws("copy"), "recursive": true });
    let error = client.refused("fs/copy", params).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32600), &json!(fixture.ws("tree/closed"))));
    assert!(fixture.ws("copy/a").exists() && fixture.ws("copy/b/c").exists());
}

#[tokio::test]
async fn the_workspace_can_be_removed_and_made_again() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    write(&mut client, &fixture.ws("file"), "one").await;
    std::fs::remove_dir_all(fixture.ws("")).expect("removed");
    let error = client.refused("fs/readFile", json!({ "path": fixture.ws("file") })).await;
    assert!(error["message"].as_str().expect("a message").contains("workspace"), "{error}");
    std::fs::create_dir(fixture.ws("")).expect("made");
    write(&mut client, &fixture.ws("file"), "two").await;
    assert_eq!(read(&mut client, &fixture.ws("file")).await, b"two");
    assert_eq!(client.run(fixture.command("p", &["cat", "file"])).await.out(), "two");
}
