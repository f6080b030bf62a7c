//! Trees to an embedded sidecar and back, under the real sandbox.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use agent_client::transfer::{Direction, Options, Pair, Report, transfer};
use agent_client::{Config, Environment};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

struct Place {
    environment: Environment,
    workspace: TempDir,
    here: TempDir,
}

impl Place {
    async fn new() -> Self {
        let make = || tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
        let workspace = make();
        let environment =
            Environment::connect(&Config::resolve(&[], workspace.path()).unwrap()).await.unwrap();
        Self { environment, workspace, here: make() }
    }

    fn there(&self) -> PathBuf {
        self.workspace.path().join("tree")
    }

    fn here(&self) -> PathBuf {
        self.here.path().join("tree")
    }

    async fn run(&self, direction: Direction, options: Options) -> Report {
        let pair = Pair { local: self.here(), remote: self.there(), above: Vec::new() };
        transfer(&self.environment.files(), &pair, direction, options, &()).await.unwrap()
    }
}

/// What a tree holds, by path: kind, mode, time and content.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    fn add(root: &Path, path: &Path, into: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let (mode, ms) = (
                metadata.permissions().mode() & 0o777,
                metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000,
            );
            let text = if metadata.is_dir() {
                add(root, &path, into);
                format!("directory {mode:o}")
            } else if metadata.is_symlink() {
                format!("symlink {:?}", fs::read_link(&path).unwrap())
            } else if metadata.is_file() {
                format!("file {mode:o} {ms} {:?}", fs::read(&path).unwrap())
            } else {
                "other".to_owned()
            };
            into.insert(path.strip_prefix(root).unwrap().to_owned(), text);
        }
    }
    let mut found = BTreeMap::new();
    add(root, root, &mut found);
    found
}

/// A tree of many kinds; 6 files, 3 directories below the root, 2 symlinks.
fn plant(root: &Path) {
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    fs::create_dir(root.join("private")).unwrap();
    fs::set_permissions(root.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("sub/large"), vec![b'x'; 3 << 20]).unwrap();
    fs::write(root.join("empty"), "").unwrap();
    for name in [&b"bad-\xff"[..], b"new\nline", b"--dash"] {
        fs::write(root.join(Path::new(OsStr::from_bytes(name))), name).unwrap();
    }
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("../run.sh", root.join("sub/up")).unwrap();
}

#[tokio::test]
async fn there_and_back_it_is_the_same_tree() {
    let place = Place::new().await;
    plant(&place.here());
    let before = snapshot(&place.here());
    let sent = place.run(Direction::Push, Options::default()).await;
    assert_eq!((sent.files, sent.directories, sent.symlinks, sent.unchanged), (6, 4, 2, 0), "{sent:?}");
    assert!(sent.skipped.is_empty(), "{sent:?}");
    assert_eq!(snapshot(&place.there()), before);
    let again = place.run(Direction::Push, Options::default()).await;
    assert_eq!((again.files, again.bytes, again.symlinks, again.unchanged), (0, 0, 0, 8), "{again:?}");

    fs::remove_dir_all(place.here()).unwrap();
    let fetched = place.run(Direction::Pull, Options::default()).await;
    assert_eq!((fetched.files, fetched.directories, fetched.symlinks), (6, 4, 2), "{fetched:?}");
    assert_eq!(snapshot(&place.here()), before);
    let again = place.run(Direction::Pull, Options::default()).await;
    assert_eq!((again.files, again.unchanged), (0, 8), "{again:?}");
    place.environment.close().await;
}

#[tokio::test]
async fn what_was_changed_is_sent_again_and_nothing_else() {
    let place = Place::new().await;
    plant(&place.here());
    place.run(Direction::Push, Options::default()).await;
    fs::write(place.here().join("--dash"), "other").unwrap();
    fs::set_permissions(place.here().join("empty"), fs::Permissions::from_mode(0o600)).unwrap();
    // As an interrupted transfer would leave it.
    fs::remove_file(place.there().join("sub/large")).unwrap();
    let sent = place.run(Direction::Push, Options { dry_run: true, ..Options::default() }).await;
    let steps: Vec<_> = sent.steps.iter().map(|step| step.path.to_str().unwrap()).collect();
    assert_eq!(steps, ["--dash", "empty", "sub/large"]);
    assert!(!place.there().join("sub/large").exists(), "a dry run does nothing");
    let sent = place.run(Direction::Push, Options::default()).await;
    assert_eq!((sent.files, sent.unchanged), (3, 5));
    assert_eq!(snapshot(&place.there()), snapshot(&place.here()));
    place.environment.close().await;
}

#[tokio::test]
async fn what_cannot_be_transferred_is_told_and_the_rest_is_done() {
    for direction in [Direction::Push, Direction::Pull] {
        let place = Place::new().await;
        let source = if direction == Direction::Push { place.here() } else { place.there() };
        fs::create_dir_all(source.join("sub")).unwrap();
        mknodat(CWD, source.join("sub/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::write(source.join("fine"), "x").unwrap();
        let mut expected = vec!["sub/fifo"];
        // The server's file threads have no capabilities, so to them the mode says it; a root here is above it.
        if direction == Direction::Pull {
            fs::write(source.join("secret"), "x").unwrap();
            fs::set_permissions(source.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
            expected.insert(0, "secret");
        }
        let report = place.run(direction, Options::default()).await;
        let skipped: Vec<_> = report.skipped.iter().map(|skipped| skipped.path.to_str().unwrap()).collect();
        assert_eq!(skipped, expected, "{report:?}");
        assert_eq!(report.files, 1);
        for root in [place.here(), place.there()] {
            assert_eq!(fs::read(root.join("fine")).unwrap(), b"x");
        }
        place.environment.close().await;
    }
}

#[tokio::test]
async fn what_rules_leave_out_is_neither_sent_nor_deleted() {
    for direction in [Direction::Push, Direction::Pull] {
        let place = Place::new().await;
        let (source, destination) = match direction {
            Direction::Push => (place.here(), place.there()),
            Direction::Pull => (place.there(), place.here()),
        };
        for dir in [source.join("target"), source.join(".git/hooks"), destination.join("old/target")] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(source.join(".gitignore"), "target/\n").unwrap();
        for file in [source.join("kept"), source.join("target/out"), source.join(".git/hooks/evil")] {
            fs::write(file, "x").unwrap();
        }
        for file in ["old/target/cache", "old/file", "gone"] {
            fs::write(destination.join(file), "x").unwrap();
        }
        let options = Options { ignore: true, delete: true, dry_run: false };
        let report = place.run(direction, options).await;
        assert!(report.skipped.is_empty(), "{report:?}");
        let names: Vec<_> =
            snapshot(&destination).into_keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, [".gitignore", "kept", "old", "old/target", "old/target/cache"], "{direction:?}");

        let all = place.run(direction, Options { delete: true, ..Options::default() }).await;
        assert!(all.skipped.is_empty(), "{all:?}");
        assert_eq!(snapshot(&destination), snapshot(&source), "{direction:?}");
        place.environment.close().await;
    }
}

#[tokio::test]
async fn no_symlink_here_leads_a_pull_elsewhere() {
    let place = Place::new().await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "mine").unwrap();
    fs::create_dir_all(place.here()).unwrap();
    symlink(outside.path(), place.here().join("dir")).unwrap();
    symlink(outside.path().join("file"), place.here().join("file")).unwrap();
    fs::create_dir_all(place.there().join("dir")).unwrap();
    for file in ["dir/file", "file"] {
        fs::write(place.there().join(file), "theirs").unwrap();
    }
    let report = place.run(Direction::Pull, Options::default()).await;
    assert!(report.skipped.is_empty(), "{report:?}");
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "mine");
    for file in ["dir/file", "file"] {
        assert_eq!(fs::read_to_string(place.here().join(file)).unwrap(), "theirs");
        assert!(fs::symlink_metadata(place.here().join(file)).unwrap().is_file());
    }
    place.environment.close().await;
}

#[tokio::test]
async fn one_file_alone() {
    let place = Place::new().await;
    fs::write(place.here(), "one").unwrap();
    assert_eq!(place.run(Direction::Push, Options::default()).await.files, 1);
    assert_eq!(fs::read_to_string(place.there()).unwrap(), "one");
    fs::write(place.there(), "another").unwrap();
    assert_eq!(place.run(Direction::Pull, Options::default()).await.files, 1);
    assert_eq!(fs::read_to_string(place.here()).unwrap(), "another");
    fs::remove_file(place.there()).unwrap();
    let pair = Pair { local: place.here(), remote: place.there(), above: Vec::new() };
    let files = place.environment.files();
    let missing = transfer(&files, &pair, Direction::Pull, Options::default(), &()).await;
    assert!(missing.is_err(), "{missing:?}");
    assert_eq!(fs::read_to_string(place.here()).unwrap(), "another");
    place.environment.close().await;
}
