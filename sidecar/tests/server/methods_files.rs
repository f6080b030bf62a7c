//! The rows of fs/*.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::common::{Client, Fixture, encode, uri, with};
use crate::methods::Expect::{Bad, Good, Limit, Os};
use crate::methods::Row;

pub(crate) fn rows(fixture: &Fixture) -> Vec<Row> {
    std::fs::write(fixture.outside("secret"), "").expect("written");
    std::fs::write(fixture.ws("hello"), "hello").expect("written");
    std::fs::create_dir(fixture.ws("dir")).expect("made");
    std::fs::create_dir(fixture.ws("watched")).expect("made");
    symlink("dir", fixture.ws("link")).expect("linked");
    // More than one message holds, and nothing on the disk.
    let large = std::fs::File::create(fixture.ws("large")).expect("made");
    large.set_len(48 << 20).expect("sized");
    let mut rows = any_path(fixture);
    rows.extend(reading(fixture));
    rows.extend(writing(fixture));
    rows.extend(moving(fixture));
    rows.extend(blocks(fixture));
    rows.extend(watches(fixture));
    rows
}

fn read_only(params: Value) -> Value {
    with(params, "sandbox", json!({ "mode": "readOnly" }))
}

fn no_symlinks(params: Value) -> Value {
    with(params, "followSymlinks", json!(false))
}

/// What is the same for every method that takes a path.
fn any_path(fixture: &Fixture) -> Vec<Row> {
    let at = |path: Value| {
        json!({ "path": path, "dataBase64": "", "handleId": "h", "watchId": 1, "missing": [path],
            "sourcePath": path, "destinationPath": path, "target": "x" })
    };
    let mut rows = Vec::new();
    for method in [
        "fs/readFile",
        "fs/writeFile",
        "fs/createDirectory",
        "fs/getMetadata",
        "fs/readDirectory",
        "fs/remove",
        "fs/copy",
        "fs/rename",
        "fs/createSymlink",
        "fs/canonicalize",
        "fs/walk",
        "fs/open",
        "fs/watchMissing",
        "fs/watch",
    ] {
        let path = json!(fixture.ws("hello"));
        rows.extend([
            (method, at(json!("relative")), Bad(-32602, "absolute")),
            (method, at(json!("https://host/a")), Bad(-32602, "absolute")),
            (method, at(json!("file://host/a")), Bad(-32602, "no host")),
            (method, at(json!("/a\0b")), Bad(-32602, "NUL byte")),
            (method, with(at(path), "sandbox", json!({ "mode": "no" })), Bad(-32602, "sandbox.mode")),
        ]);
        let makes_or_ignores =
            ["fs/writeFile", "fs/createDirectory", "fs/remove", "fs/watchMissing"].contains(&method);
        if !makes_or_ignores {
            rows.push((method, at(json!(fixture.ws("none/none"))), Os(-32004, "notFound")));
        }
    }
    rows
}

fn reading(fixture: &Fixture) -> Vec<Row> {
    let at = |name: &str| json!({ "path": fixture.ws(name) });
    let secret = json!({ "path": fixture.outside("secret") });
    let outside = json!({ "path": fixture.outside("") });
    let hello = json!({ "dataBase64": encode("hello") });
    let file = json!({ "isFile": true, "isDirectory": false, "isSymlink": false, "size": 5 });
    let link = json!({ "isDirectory": true, "isSymlink": true, "symlinkTarget": "dir" });
    let real = fixture.ws("").canonicalize().expect("real");
    let below = |depth: u64| with(at(""), "options", json!({ "maxDepth": depth }));
    vec![
        ("fs/readFile", at("hello"), Good(hello.clone())),
        ("fs/readFile", json!({ "path": uri(&fixture.ws("hello")) }), Good(hello)),
        ("fs/readFile", at("dir"), Bad(-32600, "is a directory")),
        ("fs/readFile", at("large"), Bad(-32600, "fs/open")),
        ("fs/readFile", secret, Os(-32600, "permissionDenied")),
        ("fs/readFile", no_symlinks(at("link/x")), Os(-32600, "wrongType")),
        ("fs/getMetadata", at("hello"), Good(file)),
        ("fs/getMetadata", at("link"), Good(link)),
        ("fs/getMetadata", no_symlinks(at("link")), Os(-32600, "wrongType")),
        ("fs/getMetadata", at("hello/x"), Os(-32004, "notFound")),
        ("fs/readDirectory", at("dir"), Good(json!({ "entries": [], "truncated": false }))),
        ("fs/readDirectory", at("hello"), Os(-32004, "notFound")),
        ("fs/readDirectory", outside.clone(), Os(-32600, "permissionDenied")),
        ("fs/canonicalize", at("link/../hello"), Good(json!({ "path": real.join("hello") }))),
        (
            "fs/canonicalize",
            json!({ "path": uri(&fixture.ws("link")) }),
            Good(json!({ "path": uri(&real.join("dir")) })),
        ),
        ("fs/walk", at("dir"), Good(json!({ "entries": [], "errors": [], "truncated": false }))),
        ("fs/walk", below(0), Good(json!({ "entries": [], "truncated": false }))),
        ("fs/walk", with(at(""), "options", json!({ "maxEntries": 0 })), Good(json!({ "truncated": true }))),
        ("fs/walk", at("hello"), Os(-32004, "notFound")),
        ("fs/walk", outside, Os(-32600, "permissionDenied")),
    ]
}

fn writing(fixture: &Fixture) -> Vec<Row> {
    let at = |name: &str| json!({ "path": fixture.ws(name) });
    let write = |name: &str, data: &str| with(at(name), "dataBase64", json!(data));
    let deep = with(write("deep/er/file", ""), "createParents", json!(true));
    let secret = json!({ "path": fixture.outside("secret"), "dataBase64": "" });
    let once = |name: &str| with(at(name), "recursive", json!(false));
    let strictly = |name: &str| with(at(name), "force", json!(false));
    let x = encode("x");
    vec![
        ("fs/writeFile", write("file", &x), Good(json!({ "atomic": true }))),
        ("fs/readFile", at("file"), Good(json!({ "dataBase64": x }))),
        ("fs/writeFile", deep, Good(json!({}))),
        ("fs/writeFile", write("file", "%"), Bad(-32600, "base64")),
        ("fs/writeFile", write("none/file", ""), Os(-32004, "notFound")),
        ("fs/writeFile", write("dir", ""), Os(-32600, "wrongType")),
        ("fs/writeFile", no_symlinks(write("link/file", "")), Os(-32600, "wrongType")),
        ("fs/writeFile", secret, Os(-32600, "permissionDenied")),
        ("fs/writeFile", read_only(write("file", "")), Os(-32600, "permissionDenied")),
        ("fs/createDirectory", at("made/below"), Good(json!({}))),
        ("fs/createDirectory", at("made/below"), Good(json!({}))),
        ("fs/createDirectory", once("made"), Os(-32603, "alreadyExists")),
        ("fs/createDirectory", once("none/below"), Os(-32004, "notFound")),
        ("fs/createDirectory", no_symlinks(at("link/made")), Os(-32600, "wrongType")),
        ("fs/createDirectory", read_only(at("new")), Os(-32600, "permissionDenied")),
        ("fs/remove", at("none"), Good(json!({}))),
        ("fs/remove", strictly("none"), Os(-32004, "notFound")),
        ("fs/remove", once("made"), Os(-32603, "os")),
        ("fs/remove", read_only(at("made")), Os(-32600, "permissionDenied")),
        ("fs/remove", with(at("link"), "followSymlinks", json!(true)), Bad(-32600, "never follows")),
        ("fs/remove", at("made"), Good(json!({}))),
        ("fs/remove", at("deep"), Good(json!({}))),
        ("fs/remove", at(""), Bad(-32600, "is a root")),
        ("fs/remove", json!({ "path": "/tmp" }), Bad(-32600, "is a root")),
        ("fs/remove", json!({ "path": "/" }), Bad(-32600, "must end in a name")),
    ]
}

fn moving(fixture: &Fixture) -> Vec<Row> {
    let both =
        |from: &str, to: &str| json!({ "sourcePath": fixture.ws(from), "destinationPath": fixture.ws(to) });
    let all = |params: Value| with(params, "recursive", json!(true));
    let over = |params: Value| with(params, "overwrite", json!(true));
    let link = |at: &str, target: &str| json!({ "path": fixture.ws(at), "target": target });
    let steal = json!({ "sourcePath": fixture.outside("secret"), "destinationPath": fixture.ws("x") });
    vec![
        ("fs/copy", both("hello", "dir/copy"), Good(json!({}))),
        ("fs/copy", both("link", "dir/soft"), Good(json!({}))),
        ("fs/getMetadata", json!({ "path": fixture.ws("dir/copy") }), Good(json!({ "size": 5 }))),
        ("fs/copy", both("dir", "tree"), Bad(-32600, "recursive is not set")),
        ("fs/copy", all(both("dir", "dir/tree")), Bad(-32600, "into itself")),
        ("fs/copy", all(both("dir", "tree")), Good(json!({}))),
        ("fs/copy", both("hello", "none/x"), Os(-32004, "notFound")),
        ("fs/copy", steal.clone(), Os(-32600, "permissionDenied")),
        ("fs/copy", read_only(both("hello", "x")), Os(-32600, "permissionDenied")),
        ("fs/rename", both("tree", "moved"), Good(json!({}))),
        ("fs/rename", both("moved/copy", "hello"), Os(-32603, "alreadyExists")),
        ("fs/rename", over(both("moved/copy", "hello")), Good(json!({}))),
        ("fs/rename", both("hello", "none/x"), Os(-32004, "notFound")),
        ("fs/rename", both("moved", "moved/below"), Os(-32600, "os")),
        ("fs/rename", both("moved", ""), Bad(-32600, "is a root")),
        ("fs/rename", both("", "x"), Bad(-32600, "is a root")),
        ("fs/rename", read_only(both("hello", "x")), Os(-32600, "permissionDenied")),
        ("fs/createSymlink", link("made", "hello"), Good(json!({}))),
        ("fs/createSymlink", link("made", "dir"), Os(-32603, "alreadyExists")),
        ("fs/createSymlink", over(link("made", "dir")), Good(json!({}))),
        ("fs/getMetadata", json!({ "path": fixture.ws("made") }), Good(json!({ "symlinkTarget": "dir" }))),
        ("fs/createSymlink", over(link("dir", "x")), Bad(-32600, "is a directory")),
        ("fs/createSymlink", over(link("", "x")), Bad(-32600, "is a root")),
        ("fs/createSymlink", link("other", ""), Bad(-32602, "must not be empty")),
        ("fs/createSymlink", read_only(link("other", "x")), Os(-32600, "permissionDenied")),
    ]
}

fn blocks(fixture: &Fixture) -> Vec<Row> {
    let handle = |id: &str| json!({ "handleId": id });
    let open =
        |id: &str, name: &str, mode: &str| json!({ "handleId": id, "path": fixture.ws(name), "mode": mode });
    let read = |id: &str, offset: u64, len: u64| json!({ "handleId": id, "offset": offset, "len": len });
    let write =
        |id: &str, offset: u64, chunk: String| json!({ "handleId": id, "offset": offset, "chunk": chunk });
    let secret = json!({ "handleId": "x", "path": fixture.outside("secret") });
    let mut rows = vec![
        ("fs/open", open("r", "hello", "read"), Good(handle("r"))),
        ("fs/open", open("w", "blocks", "replace"), Good(handle("w"))),
        ("fs/open", open("lost", "lost", "replace"), Good(handle("lost"))),
        ("fs/open", open("r", "hello", "read"), Bad(-32600, "handle \"r\" already exists")),
        ("fs/open", open("", "hello", "read"), Bad(-32602, "1 to 32 bytes")),
        ("fs/open", open(&"h".repeat(33), "hello", "read"), Bad(-32602, "1 to 32 bytes")),
        ("fs/open", open("x", "hello", "append"), Bad(-32602, "append")),
        ("fs/open", open("x", "dir", "read"), Bad(-32600, "is a directory")),
        ("fs/open", open("x", "dir", "replace"), Os(-32600, "wrongType")),
        ("fs/open", open("x", "none/x", "replace"), Os(-32004, "notFound")),
        ("fs/open", secret, Os(-32600, "permissionDenied")),
        ("fs/open", read_only(open("x", "hello", "replace")), Os(-32600, "permissionDenied")),
        ("fs/readBlock", read("r", 1, 4), Good(json!({ "chunk": encode("ello"), "eof": false }))),
        ("fs/readBlock", read("r", 1, 5), Good(json!({ "chunk": encode("ello"), "eof": true }))),
        ("fs/readBlock", read("r", 0, 1 << 20), Good(json!({ "chunk": encode("hello"), "eof": true }))),
        ("fs/readBlock", read("r", 0, 0), Bad(-32602, "len must be")),
        ("fs/readBlock", read("r", 0, (1 << 20) + 1), Bad(-32602, "len must be")),
        ("fs/readBlock", read("r", u64::MAX, 1), Os(-32600, "os")),
        ("fs/readBlock", read("w", 0, 1), Bad(-32600, "open to replace")),
        ("fs/readBlock", read("nope", 0, 1), Bad(-32004, "unknown handle")),
        ("fs/writeBlock", write("w", 3, encode("d")), Good(json!({}))),
        (
            "fs/writeBlock",
            write("w", 0, encode(vec![0; (1 << 20) + 1])),
            Bad(-32602, "at most 1048576 bytes"),
        ),
        ("fs/writeBlock", write("w", 0, "%".to_owned()), Bad(-32600, "base64")),
        ("fs/writeBlock", write("r", 0, encode("x")), Bad(-32600, "open to read")),
        ("fs/writeBlock", write("nope", 0, encode("x")), Bad(-32004, "unknown handle")),
        ("fs/writeBlock", write("lost", u64::MAX, encode("x")), Os(-32600, "os")),
        ("fs/close", handle("lost"), Bad(-32600, "not replaced")),
        ("fs/getMetadata", json!({ "path": fixture.ws("blocks") }), Os(-32004, "notFound")),
        ("fs/close", handle("w"), Good(json!({}))),
        ("fs/close", handle("w"), Good(json!({}))),
        (
            "fs/readFile",
            json!({ "path": fixture.ws("blocks") }),
            Good(json!({ "dataBase64": encode("\0\0\0d") })),
        ),
    ];
    // "r" is open.
    rows.extend(
        (1..128).map(|number| ("fs/open", open(&number.to_string(), "hello", "read"), Good(json!({})))),
    );
    rows.push(("fs/open", open("over", "hello", "read"), Limit("limits.handles")));
    rows.push(("fs/close", handle("r"), Good(json!({}))));
    rows.push(("fs/open", open("over", "hello", "read"), Good(handle("over"))));
    rows
}

fn watches(fixture: &Fixture) -> Vec<Row> {
    let watch = |id: Value, name: &str| json!({ "watchId": id, "path": fixture.ws(name) });
    let missing = |id: Value, name: &str| json!({ "watchId": id, "missing": [fixture.ws(name)] });
    let outside = json!({ "watchId": "x", "path": fixture.outside("") });
    let many = json!({ "watchId": "x", "missing": vec![fixture.ws("none"); 257] });
    let watching = json!({ "watching": true });
    let mut rows = vec![
        ("fs/watch", watch(json!("tree"), "watched"), Good(watching.clone())),
        ("fs/watch", watch(json!("tree"), "watched"), Bad(-32600, "watch \"tree\" already exists")),
        ("fs/watch", watch(json!("x"), "hello"), Os(-32004, "notFound")),
        ("fs/watch", outside, Os(-32600, "permissionDenied")),
        ("fs/watchMissing", missing(json!(1), "watched/new"), Good(watching.clone())),
        ("fs/watchMissing", missing(json!(1), "watched/new"), Bad(-32600, "watch 1 already exists")),
        ("fs/watchMissing", many, Bad(-32602, "more than 256 paths")),
    ];
    // Two are there.
    rows.extend(
        (2..64).map(|number| ("fs/watchMissing", missing(json!(number), "none"), Good(watching.clone()))),
    );
    rows.extend([
        ("fs/watch", watch(json!("x"), "dir"), Limit("limits.watches")),
        ("fs/watchMissing", missing(json!("x"), "none"), Limit("limits.watches")),
        ("fs/unwatch", json!({ "watchId": 2 }), Good(json!({}))),
        ("fs/unwatch", json!({ "watchId": 2 }), Good(json!({}))),
        ("fs/unwatch", json!({ "watchId": [] }), Bad(-32602, "invalid params")),
        ("fs/watch", watch(json!("x"), "dir"), Good(watching)),
        // What is watched happens.
        ("fs/writeFile", json!({ "path": fixture.ws("watched/new"), "dataBase64": "" }), Good(json!({}))),
    ]);
    rows
}

/// What the watches tell, each among what the processes say.
pub(crate) async fn told(client: &mut Client) {
    let (mut tree, mut missing) = (false, false);
    while !(tree && missing) {
        let notification = client.notification().await;
        match notification["method"].as_str().expect("a method") {
            "fs/changed" => {
                assert_eq!(notification["params"]["watchId"], "tree");
                tree = true;
            }
            "fs/missingChanged" => {
                assert_eq!(notification["params"], json!({ "watchId": 1 }));
                missing = true;
            }
            _ => {}
        }
    }
}
