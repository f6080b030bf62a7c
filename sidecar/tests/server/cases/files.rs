//! Files: whole, by odd names, out of bounds, in parts.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use crate::common::{decode, encode, uri};
use crate::lines::{Setting, over_each_transport};

over_each_transport![
    case_10_bytes_come_back_as_they_went,
    case_12_odd_names,
    case_26_symlinks_out,
    case_32_one_closed_file,
    case_33_files_of_many_sizes,
    case_38_what_is_no_plain_file,
];

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    getrandom::fill(&mut bytes).expect("random bytes");
    bytes
}

async fn case_10_bytes_come_back_as_they_went(mut setting: Setting) {
    let (client, path) = (&mut setting.client, setting.fixture.ws("random"));
    let content = noise(1 << 20);
    client.call("fs/writeFile", json!({ "path": path, "dataBase64": encode(&content) })).await;
    let read = client.call("fs/readFile", json!({ "path": path })).await;
    assert!(decode(&read["dataBase64"]) == content);
    assert!(std::fs::read(&path).expect("read") == content);
}

async fn case_12_odd_names(mut setting: Setting) {
    let (client, dir) = (&mut setting.client, setting.fixture.ws("names"));
    std::fs::create_dir(&dir).expect("made");
    for name in [&b"bad-\xff"[..], b"new\nline", b"--flag"] {
        let path = dir.join(OsStr::from_bytes(name));
        std::fs::write(&path, name).expect("written");
        let listing = client.call("fs/readDirectory", json!({ "path": dir })).await;
        let entry = &listing["entries"][0];
        let listed = match entry.get("nameBase64") {
            Some(exact) => decode(exact),
            None => entry["fileName"].as_str().expect("a name").as_bytes().to_vec(),
        };
        assert_eq!(listed, name);
        let encoded: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
        let uri = format!("{}/{encoded}", uri(&dir).trim_end_matches('/'));
        let copied = format!("{uri}-copy");
        client.call("fs/getMetadata", json!({ "path": uri })).await;
        client
            .call("fs/copy", json!({ "sourcePath": uri, "destinationPath": copied, "recursive": false }))
            .await;
        assert_eq!(decode(&client.call("fs/readFile", json!({ "path": copied })).await["dataBase64"]), name);
        for path in [uri, copied] {
            client.call("fs/remove", json!({ "path": path })).await;
        }
        assert_eq!(std::fs::read_dir(&dir).expect("listed").count(), 0);
    }
}

async fn case_26_symlinks_out(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::write(fixture.outside("secret"), "secret")
        .expect("positive control: the server may write there");
    symlink(fixture.outside("out"), fixture.ws("dangling")).expect("linked");
    symlink(fixture.outside(""), fixture.ws("l")).expect("linked");
    let write = json!({ "path": fixture.ws("dangling"), "dataBase64": encode("x") });
    assert_eq!(client.refused("fs/writeFile", write).await["code"], -32600);
    let read = json!({ "path": fixture.ws("l/secret") });
    assert_eq!(client.refused("fs/readFile", read).await["data"]["kind"], "permissionDenied");
    assert!(!fixture.outside("out").exists());
    // Where the policy itself leads, symlinks do too.
    symlink("/etc", fixture.ws("etc")).expect("linked");
    let read = client.call("fs/readFile", json!({ "path": fixture.ws("etc/passwd") })).await;
    assert_eq!(decode(&read["dataBase64"]), std::fs::read("/etc/passwd").expect("read"));
}

async fn case_32_one_closed_file(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::create_dir_all(fixture.ws("tree/below")).expect("made");
    for name in ["tree/a", "tree/below/b", "tree/closed", "tree/z"] {
        std::fs::write(fixture.ws(name), name).expect("written");
    }
    std::fs::set_permissions(fixture.ws("tree/closed"), Permissions::from_mode(0o000)).expect("closed");
    let walked = client.call("fs/walk", json!({ "path": fixture.ws("tree") })).await;
    assert_eq!((walked["entries"].as_array().map(Vec::len), &walked["errors"]), (Some(5), &json!([])));
    let both =
        json!({ "sourcePath": fixture.ws("tree"), "destinationPath": fixture.ws("copy"), "recursive": true });
    let error = client.refused("fs/copy", both).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32600), &json!(fixture.ws("tree/closed"))));
    for name in ["a", "below/b", "z"] {
        assert_eq!(
            std::fs::read_to_string(fixture.ws("copy").join(name)).expect("copied"),
            format!("tree/{name}")
        );
    }
    client.call("fs/remove", json!({ "path": fixture.ws("tree") })).await;
    assert!(!fixture.ws("tree").exists());
}

async fn case_33_files_of_many_sizes(mut setting: Setting) {
    let (client, path) = (&mut setting.client, setting.fixture.ws("file"));
    for size in [17 << 10, 19 << 10, 15 << 20, 40 << 20] {
        let content = noise(size);
        client.call("fs/writeFile", json!({ "path": path, "dataBase64": encode(&content) })).await;
        assert!(std::fs::read(&path).expect("read") == content, "{size} bytes");
    }
    let block = noise(1 << 20);
    client.call("fs/open", json!({ "handleId": "h", "path": path, "mode": "replace" })).await;
    for number in 0..200_u64 {
        let params = json!({ "handleId": "h", "offset": number << 20, "chunk": encode(&block) });
        client.call("fs/writeBlock", params).await;
    }
    assert_eq!(path.metadata().expect("there").len(), 40 << 20, "the old one until the close");
    client.call("fs/close", json!({ "handleId": "h" })).await;
    let content = std::fs::read(&path).expect("read");
    assert!(content.len() == 200 << 20 && content.chunks(1 << 20).all(|chunk| chunk == block));
}

async fn case_38_what_is_no_plain_file(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    assert_eq!(client.run(fixture.command("p", &["mkfifo", "fifo"])).await.code(), 0);
    File::create(fixture.ws("huge")).expect("made").set_len(1 << 40).expect("sparse");
    let paths = [fixture.ws("fifo"), fixture.ws("huge"), "/dev/zero".into(), "/proc/self/environ".into()];
    for path in paths {
        let error = client.refused("fs/readFile", json!({ "path": path })).await;
        assert_eq!(error["code"], -32600, "{}: {error}", path.display());
    }
}
