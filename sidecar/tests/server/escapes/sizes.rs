//! What is too large, too deep, or changes its size: an answer comes, and it is bounded.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::acts::{Act, Aside, outcome};
use crate::common::{Client, Fixture, decode, encode};

/// Of the sparse file: no file system here has as much room.
const HUGE: u64 = 1 << 40;

fn aside(fixture: &Fixture) -> Aside {
    std::fs::create_dir_all(fixture.ws("tree")).expect("made");
    std::fs::write(fixture.ws("spare"), "spare").expect("written");
    Aside { file: fixture.ws("spare"), tree: fixture.ws("tree"), free: fixture.ws("free") }
}

async fn act(client: &mut Client, act: Act, path: &Path, aside: &Aside) -> Result<Value, Value> {
    let ids = act.send(client, path, aside, 1, None).await;
    outcome(client, ids).await
}

fn make_huge(path: &Path) {
    File::create(path).expect("made").set_len(HUGE).expect("sparse");
}

fn assert_sparse(path: &Path) {
    let seen = path.metadata().expect("there");
    // In units of 512 bytes.
    assert!(seen.len() == HUGE && seen.blocks() < 1 << 12, "{} has {} blocks", path.display(), seen.blocks());
}

#[tokio::test]
async fn a_sparse_file_of_a_tebibyte() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let (huge, aside) = (fixture.ws("huge"), aside(&fixture));
    for how in Act::ALL {
        make_huge(&huge);
        let outcome = act(&mut client, how, &huge, &aside).await;
        let what = format!("{how:?}: {outcome:?}");
        match how {
            Act::ReadFile => {
                let message = outcome.expect_err("refused")["message"].take();
                assert!(message.as_str().expect("a message").contains("fs/open"), "{message}");
            }
            Act::GetMetadata => assert_eq!(outcome.expect("done")[0]["size"], HUGE),
            Act::OpenRead => {
                let block = decode(&outcome.expect("done")[1]["chunk"]);
                assert!(block.len() == 1 << 16 && block.iter().all(|byte| *byte == 0));
            }
            Act::CopyFrom => {
                assert!(outcome.is_ok(), "{what}");
                assert_sparse(&aside.free);
                std::fs::remove_file(&aside.free).expect("removed");
            }
            Act::RenameFrom => {
                assert!(outcome.is_ok(), "{what}");
                std::fs::remove_file(&aside.free).expect("removed");
            }
            Act::CreateDirectory | Act::ReadDirectory | Act::CopyTreeTo | Act::Walk | Act::Watch => {
                assert!(outcome.is_err(), "{what}");
            }
            _ => assert!(outcome.is_ok(), "{what}"),
        }
    }
}

#[tokio::test]
async fn a_sparse_replacement_that_must_be_written_in_place() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let dir = fixture.ws("full");
    std::fs::create_dir(&dir).expect("made");
    std::fs::write(dir.join("file"), "old").expect("written");
    // It takes no new names, so nothing can be renamed to its place.
    std::fs::set_permissions(&dir, Permissions::from_mode(0o555)).expect("set");
    let open = json!({ "handleId": "h", "path": dir.join("file"), "mode": "replace" });
    client.call("fs/open", open).await;
    let block = json!({ "handleId": "h", "offset": HUGE - 3, "chunk": encode("end") });
    client.call("fs/writeBlock", block).await;
    client.call("fs/close", json!({ "handleId": "h" })).await;
    assert_sparse(&dir.join("file"));
    let open = json!({ "handleId": "h", "path": dir.join("file") });
    client.call("fs/open", open).await;
    let read = json!({ "handleId": "h", "offset": HUGE - 3, "len": 10 });
    assert_eq!(client.call("fs/readBlock", read).await, json!({ "chunk": encode("end"), "eof": true }));
    std::fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_shrinks_and_grows_while_it_is_read() {
    const MOST: u64 = 4 << 20;
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let (path, aside) = (fixture.ws("breathing"), aside(&fixture));
    let file = File::create(&path).expect("made");
    let is_over = Arc::new(AtomicBool::new(false));
    let told = is_over.clone();
    let breathing = std::thread::spawn(move || {
        let mut turns = 0_u64;
        while !told.load(Ordering::Relaxed) {
            file.set_len(if turns.is_multiple_of(2) { MOST } else { 0 }).expect("sized");
            turns += 1;
        }
        turns
    });
    for _ in 0..100 {
        for how in [Act::ReadFile, Act::OpenRead, Act::CopyFrom] {
            let done = act(&mut client, how, &path, &aside).await.expect("done");
            let bytes = match how {
                Act::ReadFile => decode(&done[0]["dataBase64"]),
                Act::OpenRead => decode(&done[1]["chunk"]),
                _ => std::fs::read(&aside.free).expect("copied"),
            };
            assert!(bytes.len() as u64 <= MOST && bytes.iter().all(|byte| *byte == 0), "{how:?}");
        }
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(breathing.join().expect("no failure") > 1);
}

#[tokio::test]
async fn a_tree_of_two_thousand_levels() {
    const LEVELS: usize = 2000;
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let (deep, aside) = (fixture.ws("d"), aside(&fixture));
    // One path that long is still within PATH_MAX.
    let bottom: PathBuf = deep.join("d/".repeat(LEVELS - 1));
    std::fs::create_dir_all(&bottom).expect("made");
    std::fs::write(deep.join("file"), "").expect("written");
    for (how, words) in [
        (Act::CopyFrom, "directories in one another"),
        (Act::Remove, "directories in one another"),
        (Act::Watch, "in one another"),
    ] {
        let error = act(&mut client, how, &deep, &aside).await.expect_err("too deep");
        assert!(error["message"].as_str().expect("a message").contains(words), "{how:?}: {error}");
    }
    // What could be done was.
    assert!(
        aside.free.join("d/d/d").exists() && aside.free.join("file").exists() && !deep.join("file").exists()
    );
    let walked = act(&mut client, Act::Walk, &deep, &aside).await.expect("walked");
    assert_eq!(
        (&walked[0]["truncated"], walked[0]["entries"].as_array().expect("a list").len()),
        (&json!(true), 64)
    );
    for how in [Act::GetMetadata, Act::ReadDirectory, Act::Canonicalize, Act::CreateDirectory] {
        act(&mut client, how, &bottom, &aside).await.expect("done at the bottom");
    }
    let file = bottom.join("f");
    for how in [Act::WriteFile, Act::ReadFile, Act::OpenReplace, Act::OpenRead, Act::CopyTo, Act::Remove] {
        act(&mut client, how, &file, &aside).await.expect("done at the bottom");
    }
    // Beyond PATH_MAX the kernel itself says so.
    let beyond = bottom.join("d/".repeat(100)).join("f");
    for how in Act::ALL.into_iter().filter(|how| *how != Act::WatchMissing) {
        let error = act(&mut client, how, &beyond, &aside).await.expect_err("too long");
        assert_eq!(error["data"]["errno"], 36, "{how:?}: {error}");
    }
    // Nothing here goes as deep as rm.
    assert_eq!(client.run(fixture.command("rm", &["rm", "-rf", "d", "free"])).await.code(), 0);
}

#[tokio::test]
async fn a_directory_of_a_hundred_thousand_entries() {
    const ENTRIES: usize = 100_000;
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let (full, aside) = (fixture.ws("full"), aside(&fixture));
    std::fs::create_dir(&full).expect("made");
    for number in 0..ENTRIES {
        File::create(full.join(number.to_string())).expect("made");
    }
    let count = |path: &Path| std::fs::read_dir(path).expect("listed").count();
    for how in [Act::ReadDirectory, Act::Walk] {
        let listed = act(&mut client, how, &full, &aside).await.expect("listed");
        let entries = listed[0]["entries"].as_array().expect("a list").len();
        assert_eq!((entries, &listed[0]["truncated"]), (50_000, &json!(true)), "{how:?}");
    }
    act(&mut client, Act::Watch, &full, &aside).await.expect("watched");
    act(&mut client, Act::CopyFrom, &full, &aside).await.expect("copied");
    assert_eq!(count(&aside.free), ENTRIES);
    for path in [&full, &aside.free] {
        act(&mut client, Act::Remove, path, &aside).await.expect("removed");
        assert!(!path.exists());
    }
}
