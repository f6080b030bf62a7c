//! `fs/open`, `fs/readBlock`, `fs/writeBlock`, `fs/close`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Client, Fixture, decode, encode, with};
use crate::lines::{Setting, over_each_transport};
use crate::resume::until;

over_each_transport![case_33_a_client_that_goes_midway_leaves_the_old_file_and_nothing_else];

fn open(id: &str, path: impl AsRef<Path>, mode: &str) -> Value {
    json!({ "handleId": id, "path": path.as_ref(), "mode": mode })
}

fn read(id: &str, offset: u64, len: u64) -> Value {
    json!({ "handleId": id, "offset": offset, "len": len })
}

fn write(id: &str, offset: u64, bytes: impl AsRef<[u8]>) -> Value {
    json!({ "handleId": id, "offset": offset, "chunk": encode(bytes) })
}

fn handle(id: &str) -> Value {
    json!({ "handleId": id })
}

fn noise(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Names in the workspace that the server made for unfinished files. While it starts it has one more there, to try whether
/// the sandbox holds.
fn temps(fixture: &Fixture) -> usize {
    let entries = std::fs::read_dir(fixture.ws("")).expect("listed");
    let is_temp = |name: &str| name.starts_with(".sidecar-") && !name.starts_with(".sidecar-check-");
    entries.filter(|entry| is_temp(&entry.as_ref().expect("an entry").file_name().to_string_lossy())).count()
}

async fn replace(client: &mut Client, path: &Path, content: &[u8]) {
    client.call("fs/open", open("new", path, "replace")).await;
    client.call("fs/writeBlock", write("new", 0, content)).await;
    client.call("fs/close", handle("new")).await;
}

#[tokio::test]
async fn a_file_is_replaced_and_read_in_blocks() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let path = fixture.ws("file");
    std::fs::write(&path, "old").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("set");
    let content = noise(8 << 20);
    assert_eq!(client.call("fs/open", open("w", &path, "replace")).await, handle("w"));
    for (number, block) in content.chunks(1 << 20).enumerate() {
        let written = client.call("fs/writeBlock", write("w", (number as u64) << 20, block)).await;
        assert_eq!(written, json!({}));
    }
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "old", "until it is closed");
    assert_eq!(client.call("fs/close", handle("w")).await, json!({}));
    assert!(std::fs::read(&path).expect("read") == content);
    assert_eq!((path.metadata().expect("there").mode() & 0o7777, temps(&fixture)), (0o640, 0));

    client.call("fs/open", json!({ "handleId": "r", "path": path })).await;
    let mut back = Vec::new();
    loop {
        let block = client.call("fs/readBlock", read("r", back.len() as u64, 1 << 20)).await;
        back.extend(decode(&block["chunk"]));
        if block["eof"] == true {
            break;
        }
    }
    assert!(back == content);
    let at_the_end = client.call("fs/readBlock", read("r", (8 << 20) - 1, 1)).await;
    assert_eq!(at_the_end["eof"], false, "only a short read is the end");
    assert_eq!(client.call("fs/readBlock", read("r", 1 << 40, 1)).await, json!({ "chunk": "", "eof": true }));
    for _ in 0..2 {
        assert_eq!(client.call("fs/close", handle("r")).await, json!({}), "closing is idempotent");
    }
    assert_eq!(client.refused("fs/readBlock", read("r", 0, 1)).await["code"], -32004);
}

#[tokio::test]
async fn a_handle_keeps_the_order_of_pipelined_requests() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let path = fixture.ws("file");
    let mut ids = vec![client.request("fs/open", open("h", &path, "replace")).await];
    for round in 0..200u8 {
        ids.push(client.request("fs/writeBlock", write("h", 0, vec![round; 4096])).await);
    }
    ids.push(client.request("fs/close", handle("h")).await);
    // The id is free again for what comes behind the close, and what it opens is what was closed.
    ids.push(client.request("fs/open", open("g", fixture.ws(""), "read")).await);
    for id in &ids[..ids.len() - 1] {
        client.outcome(*id).await.expect("done");
    }
    client.outcome(ids[ids.len() - 1]).await.expect_err("a directory");
    assert_eq!(std::fs::read(&path).expect("read"), [199; 4096]);
    let first = client.request("fs/open", open("h", &path, "read")).await;
    let second = client.request("fs/readBlock", read("h", 4095, 2)).await;
    let third = client.request("fs/close", handle("h")).await;
    let fourth = client.request("fs/readBlock", read("h", 0, 1)).await;
    assert_eq!(client.outcome(first).await.expect("open"), handle("h"));
    assert_eq!(client.outcome(second).await.expect("read"), json!({ "chunk": encode([199]), "eof": true }));
    assert_eq!(client.outcome(third).await.expect("closed"), json!({}));
    assert_eq!(client.outcome(fourth).await.expect_err("closed")["code"], -32004);
}

#[tokio::test]
async fn blocks_may_leave_gaps() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.call("fs/open", open("h", fixture.ws("sparse"), "replace")).await;
    client.call("fs/writeBlock", write("h", 1 << 32, "end")).await;
    client.call("fs/writeBlock", write("h", 0, "start")).await;
    assert!(!fixture.ws("sparse").exists());
    client.call("fs/close", handle("h")).await;
    assert_eq!(fixture.ws("sparse").metadata().expect("there").len(), (1 << 32) + 3);
    client.call("fs/open", open("h", fixture.ws("sparse"), "read")).await;
    let block = client.call("fs/readBlock", read("h", 3, 4)).await;
    assert_eq!(decode(&block["chunk"]), b"rt\0\0");
    // Nothing written at all is an empty file.
    client.call("fs/open", open("e", fixture.ws("empty"), "replace")).await;
    client.call("fs/close", handle("e")).await;
    assert_eq!(fixture.ws("empty").metadata().expect("there").len(), 0);
}

#[tokio::test]
async fn a_replacement_changes_the_content_and_nothing_else() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "a longer old content").expect("written");
    std::fs::hard_link(fixture.ws("file"), fixture.ws("hard")).expect("linked");
    replace(&mut client, &fixture.ws("file"), b"both").await;
    assert_eq!(std::fs::read_to_string(fixture.ws("hard")).expect("read"), "both");
    symlink("target", fixture.ws("soft")).expect("linked");
    replace(&mut client, &fixture.ws("soft"), b"made").await;
    assert!(fixture.ws("soft").symlink_metadata().expect("there").is_symlink());
    assert_eq!(std::fs::read_to_string(fixture.ws("target")).expect("read"), "made");
    // A directory that takes no new names.
    std::fs::create_dir(fixture.ws("dir")).expect("made");
    std::fs::write(fixture.ws("dir/file"), "a longer old content").expect("written");
    std::fs::set_permissions(fixture.ws("dir"), std::fs::Permissions::from_mode(0o555)).expect("set");
    replace(&mut client, &fixture.ws("dir/file"), b"new").await;
    assert_eq!(std::fs::read_to_string(fixture.ws("dir/file")).expect("read"), "new");
    let error = client.refused("fs/open", open("h", fixture.ws("dir/other"), "replace")).await;
    assert_eq!((&error["code"], &error["data"]["errno"]), (&json!(-32600), &json!(13)));
    std::fs::set_permissions(fixture.ws("dir"), std::fs::Permissions::from_mode(0o755)).expect("set");
    assert_eq!(temps(&fixture), 0);
}

async fn case_33_a_client_that_goes_midway_leaves_the_old_file_and_nothing_else(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::write(fixture.ws("file"), "old").expect("written");
    client.call("fs/open", open("a", fixture.ws("file"), "replace")).await;
    client.call("fs/open", open("b", fixture.ws("never"), "replace")).await;
    client.call("fs/writeBlock", write("a", 0, noise(1 << 20))).await;
    client.call("fs/writeBlock", write("b", 0, "new")).await;
    assert_eq!(temps(fixture), 2, "positive control: there is something to leave behind");
    *client = fixture.bare_client().await;
    until(|| temps(&setting.fixture) == 0).await;
    let fixture = &setting.fixture;
    assert_eq!(std::fs::read_to_string(fixture.ws("file")).expect("read"), "old");
    assert!(!fixture.ws("never").exists());
}

#[tokio::test]
async fn handles_belong_to_their_connection_and_are_counted() {
    let fixture = Fixture::start().await;
    let (mut client, mut other) = (fixture.client().await, fixture.client().await);
    std::fs::write(fixture.ws("file"), "x").expect("written");
    for number in 0..128 {
        client.call("fs/open", open(&number.to_string(), fixture.ws("file"), "read")).await;
    }
    let error = client.refused("fs/open", open("one more", fixture.ws("file"), "read")).await;
    assert_eq!((&error["code"], &error["data"]["limit"]), (&json!(-32011), &json!("limits.handles")));
    let error = client.refused("fs/open", open("7", fixture.ws("file"), "read")).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("handle \"7\" already exists")));
    assert_eq!(other.refused("fs/readBlock", read("7", 0, 1)).await["code"], -32004);
    other.call("fs/open", open("7", fixture.ws("file"), "read")).await;
    client.call("fs/close", handle("7")).await;
    client.call("fs/open", open("7", fixture.ws("file"), "read")).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "x").expect("written");
    client.call("fs/open", open("r", fixture.ws("file"), "read")).await;
    client.call("fs/open", open("w", fixture.ws("file"), "replace")).await;
    let too_long = "h".repeat(33);
    let calls = [
        ("fs/open", open(&too_long, fixture.ws("file"), "read"), -32602),
        ("fs/open", open("", fixture.ws("file"), "read"), -32602),
        ("fs/open", open("x", "relative", "read"), -32602),
        ("fs/open", open("x", fixture.ws("file"), "append"), -32602),
        ("fs/open", open("x", fixture.ws("missing"), "read"), -32004),
        ("fs/open", open("x", fixture.ws("missing/x"), "replace"), -32004),
        ("fs/readBlock", read("x", 0, 1), -32004),
        ("fs/writeBlock", write("x", 0, ""), -32004),
        ("fs/readBlock", read("r", 0, 0), -32602),
        ("fs/readBlock", read("r", 0, (1 << 20) + 1), -32602),
        ("fs/readBlock", read("r", u64::MAX, 1), -32600),
        ("fs/readBlock", json!({ "handleId": "r", "offset": -1, "len": 1 }), -32602),
        ("fs/writeBlock", write("w", 0, vec![0; (1 << 20) + 1]), -32602),
        ("fs/writeBlock", with(write("w", 0, ""), "chunk", json!("%")), -32600),
        ("fs/writeBlock", write("r", 0, "x"), -32600),
        ("fs/readBlock", read("w", 0, 1), -32600),
        ("fs/open", with(open("x", fixture.ws("file"), "read"), "sandbox", json!({ "mode": "no" })), -32602),
    ];
    for (method, params, code) in calls {
        let error = client.refused(method, params.clone()).await;
        assert_eq!(error["code"], code, "{method} {params}: {error}");
    }
    client.call("fs/readBlock", read("r", 0, 1 << 20)).await;
    client.call("fs/writeBlock", write("w", 0, vec![0; 1 << 20])).await;
    client.call("fs/close", handle("x")).await;
}

#[tokio::test]
async fn a_lost_block_is_not_put_in_place() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.ws("file"), "old").expect("written");
    client.call("fs/open", open("h", fixture.ws("file"), "replace")).await;
    client.call("fs/writeBlock", write("h", 0, "new")).await;
    client.refused("fs/writeBlock", write("h", u64::MAX, "lost")).await;
    let error = client.refused("fs/close", handle("h")).await;
    assert!(error["message"].as_str().expect("a message").contains("not replaced"), "{error}");
    assert_eq!(std::fs::read_to_string(fixture.ws("file")).expect("read"), "old");
    assert_eq!(temps(&fixture), 0);
}

#[tokio::test]
async fn nothing_hangs_and_nothing_leads_out() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    std::fs::write(fixture.outside("secret"), "secret")
        .expect("positive control: the server may write there");
    symlink(fixture.outside("secret"), fixture.ws("file")).expect("linked");
    symlink(fixture.outside("new"), fixture.ws("dangling")).expect("linked");
    symlink(fixture.outside(""), fixture.ws("dir")).expect("linked");
    let made = client.run(fixture.shell("p", "mkfifo fifo")).await;
    assert_eq!(made.code(), 0, "{}", made.err());
    let places = [
        fixture.ws("file"),
        fixture.ws("dangling"),
        fixture.ws("dir/secret"),
        fixture.ws("dir/new"),
        fixture.ws("fifo"),
        fixture.ws(""),
        "/dev/zero".into(),
        "/proc/self/environ".into(),
        "/proc/self/comm".into(),
        "/proc/self/fd/0".into(),
    ];
    for path in &places {
        for mode in ["read", "replace"] {
            let error = client.refused("fs/open", open("h", path, mode)).await;
            let code = error["code"].as_i64().expect("a code");
            assert!([-32600, -32603, -32004].contains(&code), "{mode} {}: {error}", path.display());
        }
    }
    assert_eq!(std::fs::read_to_string(fixture.outside("secret")).expect("still there"), "secret");
    assert!(!fixture.outside("new").exists());
    std::fs::write(fixture.ws("own"), "").expect("written");
    let tight = with(open("h", fixture.ws("own"), "replace"), "sandbox", json!({ "mode": "readOnly" }));
    assert_eq!(client.refused("fs/open", tight).await["data"]["kind"], "permissionDenied");
}
