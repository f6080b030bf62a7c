//! `fs/rename`, `fs/canonicalize`, `followSymlinks`: what a name leads to.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::common::{Fixture, encode, uri, with};

#[tokio::test]
async fn rename() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let rename = |from: &str, to: &str, overwrite: Value| json!({ "sourcePath": fixture.ws(from), "destinationPath": fixture.ws(to), "overwrite": overwrite });
    let read = |name: &str| std::fs::read_to_string(fixture.ws(name)).expect("read");
    std::fs::create_dir_all(fixture.ws("tree/sub")).expect("made");
    std::fs::write(fixture.ws("tree/sub/file"), "content").expect("written");
    std::fs::write(fixture.ws("old"), "old").expect("written");
    symlink("old", fixture.ws("link")).expect("linked");
    assert_eq!(client.call("fs/rename", rename("tree", "moved", Value::Null)).await, json!({}));
    assert_eq!(read("moved/sub/file"), "content");
    assert!(!fixture.ws("tree").exists());
    // A symlink is renamed itself, and replaced itself.
    client.call("fs/rename", rename("link", "moved/link", json!(false))).await;
    assert!(fixture.ws("moved/link").symlink_metadata().expect("there").is_symlink());
    for overwrite in [Value::Null, json!(false)] {
        let error = client.refused("fs/rename", rename("moved/sub/file", "old", overwrite)).await;
        assert_eq!(error["data"]["kind"], "alreadyExists", "{error}");
        assert_eq!(error["data"]["path"], json!(fixture.ws("old")));
    }
    assert_eq!(read("old"), "old");
    client.call("fs/rename", rename("moved/sub/file", "old", json!(true))).await;
    assert_eq!(read("old"), "content");
    let error = client.refused("fs/rename", rename("missing", "x", json!(true))).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32004), &json!(fixture.ws("missing"))));
    assert_eq!(client.refused("fs/rename", rename("old", "no/dir", json!(true))).await["code"], -32004);
    assert_eq!(
        client.refused("fs/rename", rename("moved", "moved/sub/x", json!(true))).await["code"],
        -32600
    );
    assert_eq!(client.refused("fs/rename", rename("moved", "moved/..", json!(true))).await["code"], -32600);
}

#[tokio::test]
async fn roots_are_not_renamed_nor_replaced() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir(fixture.ws("dir")).expect("made");
    let above = fixture.ws("").parent().expect("a parent").to_owned();
    for root in [fixture.ws(""), above, "/tmp".into(), "/".into()] {
        for (from, to) in [(&root, fixture.ws("x")), (&fixture.ws("dir"), root.clone())] {
            let params = json!({ "sourcePath": from, "destinationPath": to, "overwrite": true });
            let error = client.refused("fs/rename", params).await;
            assert_eq!(error["code"], -32600, "{}: {error}", root.display());
        }
    }
    assert!(fixture.ws("dir").exists());
}

#[tokio::test]
async fn canonicalize() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir_all(fixture.ws("a/b")).expect("made");
    std::fs::write(fixture.ws("a/b/fi le"), "").expect("written");
    symlink("a/b", fixture.ws("link")).expect("linked");
    symlink("nowhere", fixture.ws("dangling")).expect("linked");
    let real = fixture.ws("").canonicalize().expect("there").join("a/b/fi le");
    let path = fixture.ws("a/../link/./fi le");
    assert_eq!(client.call("fs/canonicalize", json!({ "path": path })).await, json!({ "path": real }));
    let path = uri(&fixture.ws("link/fi%20le"));
    let answer = client.call("fs/canonicalize", json!({ "path": path })).await;
    assert_eq!(answer["path"], json!(uri(&real).replace(' ', "%20")));
    for name in ["dangling", "missing", "a/b/fi le/x"] {
        let error = client.refused("fs/canonicalize", json!({ "path": fixture.ws(name) })).await;
        assert_eq!(error["code"], -32004, "{name}: {error}");
    }
    // Positive control: the server's own process can resolve them.
    for magic in ["/proc/self/exe", "/proc/self/fd/0", "/proc/self/cwd", "/proc/self"] {
        std::fs::canonicalize(magic).expect("a link");
        let error = client.refused("fs/canonicalize", json!({ "path": magic })).await;
        assert!(error["code"] == -32600 || error["code"] == -32603, "{magic}: {error}");
    }
}

#[tokio::test]
async fn symlinks_are_followed_unless_the_client_says_otherwise() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::create_dir(fixture.ws("dir")).expect("made");
    std::fs::write(fixture.ws("dir/file"), "content").expect("written");
    symlink("dir", fixture.ws("link")).expect("linked");
    symlink("file", fixture.ws("dir/soft")).expect("linked");
    let data = encode("new");
    let calls = [
        ("fs/readFile", json!({ "path": fixture.ws("link/file") })),
        ("fs/readFile", json!({ "path": fixture.ws("dir/soft") })),
        ("fs/getMetadata", json!({ "path": fixture.ws("link/file") })),
        ("fs/getMetadata", json!({ "path": fixture.ws("link") })),
        ("fs/createDirectory", json!({ "path": fixture.ws("link/made") })),
        ("fs/createDirectory", json!({ "path": fixture.ws("link/made too"), "recursive": false })),
        ("fs/createDirectory", json!({ "path": fixture.ws("link") })),
        ("fs/writeFile", json!({ "path": fixture.ws("link/file"), "dataBase64": data })),
        ("fs/writeFile", json!({ "path": fixture.ws("link/new"), "dataBase64": data })),
        ("fs/writeFile", json!({ "path": fixture.ws("dir/soft"), "dataBase64": data })),
        (
            "fs/writeFile",
            json!({ "path": fixture.ws("link/p/x"), "dataBase64": data, "createParents": true }),
        ),
    ];
    for (method, params) in &calls {
        let error = client.refused(method, with(params.clone(), "followSymlinks", json!(false))).await;
        assert_eq!(
            (&error["code"], &error["data"]["errno"]),
            (&json!(-32600), &json!(40)),
            "{method} {error}"
        );
        let named = error["data"]["path"].as_str().expect("a path");
        assert!(params["path"].as_str().expect("a path").starts_with(named), "{method} {params}: {error}");
        assert!(error["message"].as_str().expect("a message").contains("symlink"), "{error}");
    }
    assert_eq!(std::fs::read_dir(fixture.ws("dir")).expect("listed").count(), 2, "nothing was made");
    assert_eq!(std::fs::read_to_string(fixture.ws("dir/file")).expect("read"), "content");
    // Positive control: the same calls with symlinks, and calls without.
    for (method, params) in calls {
        client.call(method, with(params, "followSymlinks", json!(true))).await;
    }
    let plain = [
        ("fs/readFile", json!({ "path": fixture.ws("dir/file") })),
        ("fs/getMetadata", json!({ "path": "/" })),
        ("fs/createDirectory", json!({ "path": fixture.ws("dir/c/d") })),
        ("fs/createDirectory", json!({ "path": fixture.ws("dir/c/e"), "recursive": false })),
        ("fs/writeFile", json!({ "path": fixture.ws("dir/file"), "dataBase64": data })),
        (
            "fs/writeFile",
            json!({ "path": fixture.ws("dir/q/r/s"), "dataBase64": data, "createParents": true }),
        ),
    ];
    for (method, params) in plain {
        client.call(method, with(params, "followSymlinks", json!(false))).await;
    }
    assert_eq!(std::fs::read_to_string(fixture.ws("dir/q/r/s")).expect("read"), "new");
    let missing = json!({ "path": fixture.ws("missing/file"), "followSymlinks": false });
    assert_eq!(client.refused("fs/readFile", missing).await["code"], -32004);
    let below_a_file = json!({ "path": fixture.ws("dir/file/x"), "followSymlinks": false });
    assert_eq!(client.refused("fs/createDirectory", below_a_file).await["data"]["errno"], 20);
    let follow = json!({ "path": fixture.ws("link"), "followSymlinks": true });
    assert_eq!(client.refused("fs/remove", follow).await["code"], -32600);
    client.call("fs/remove", json!({ "path": fixture.ws("link"), "followSymlinks": false })).await;
    assert!(fixture.ws("dir/file").exists());
}

#[tokio::test]
async fn symlinks_lead_nowhere_that_a_launch_could_not_go() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.outside("secret"), "secret")
        .expect("positive control: the server may write there");
    std::fs::rename(fixture.outside("secret"), fixture.outside("kept")).expect("and rename");
    symlink(fixture.outside(""), fixture.ws("out")).expect("linked");
    std::fs::write(fixture.ws("file"), "").expect("written");
    for (from, to) in
        [("out/kept", "stolen"), ("file", "out/planted"), ("file", "out/kept"), ("out/kept", "out/x")]
    {
        let params =
            json!({ "sourcePath": fixture.ws(from), "destinationPath": fixture.ws(to), "overwrite": true });
        let error = client.refused("fs/rename", params).await;
        assert!([&json!(-32600), &json!(-32603)].contains(&&error["code"]), "{from} → {to}: {error}");
    }
    assert_eq!(std::fs::read_to_string(fixture.outside("kept")).expect("still there"), "secret");
    assert_eq!(std::fs::read_dir(fixture.outside("")).expect("listed").count(), 1);
    let read_only = json!({ "mode": "readOnly" });
    let params =
        json!({ "sourcePath": fixture.ws("file"), "destinationPath": fixture.ws("x"), "sandbox": read_only });
    let error = client.refused("fs/rename", params).await;
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32600), &json!("permissionDenied")));
}

#[tokio::test]
async fn odd_names_are_carried_without_loss() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let base = uri(fixture.ws("").canonicalize().expect("there").as_path());
    std::fs::write(fixture.ws("").join(OsStr::from_bytes(b"bad-\xff")), "odd").expect("written");
    let odd = format!("{base}/bad-%FF");
    assert_eq!(client.call("fs/canonicalize", json!({ "path": odd })).await["path"], json!(odd));
    let walked = client.call("fs/walk", json!({ "path": base })).await;
    assert_eq!(walked["entries"], json!([{ "path": odd, "kind": "file" }]));
    client.call("fs/open", json!({ "handleId": "h", "path": odd })).await;
    let block = client.call("fs/readBlock", json!({ "handleId": "h", "offset": 0, "len": 10 })).await;
    assert_eq!(block, json!({ "chunk": encode("odd"), "eof": true }));
    let renamed = format!("{base}/%FE%0A");
    client.call("fs/rename", json!({ "sourcePath": odd, "destinationPath": renamed })).await;
    assert!(fixture.ws("").join(OsStr::from_bytes(b"\xfe\n")).exists());
}
