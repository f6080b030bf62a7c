//! The files of an embedded sidecar, under the real sandbox. The local root is another directory than the workspace root,
//! so a path that is not mapped leads nowhere.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use agent_client::filesystem::{Attributes, Kind};
use agent_client::protocol::error::NOT_FOUND;
use agent_client::protocol::fs::WalkOptions;
use agent_client::{Config, Environment, Error, Filesystem, Mapping};
use tempfile::TempDir;

/// What local paths start with; nothing is there.
const LOCAL: &str = "/nowhere/project";

struct Place {
    environment: Environment,
    files: Filesystem,
    workspace: TempDir,
}

impl Place {
    async fn new() -> Self {
        let workspace = tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
        let environment =
            Environment::connect(&Config::resolve(&[], workspace.path()).unwrap()).await.unwrap();
        let mapping = Mapping::new(Path::new(LOCAL), Some(workspace.path()));
        let files = Filesystem::new(environment.client().clone(), mapping);
        Self { environment, files, workspace }
    }

    /// Where it really is.
    fn real(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    async fn end(self) {
        drop(self.files);
        self.environment.close().await;
    }
}

fn local(name: impl AsRef<OsStr>) -> PathBuf {
    Path::new(LOCAL).join(Path::new(name.as_ref()))
}

fn code(error: &Error) -> Option<i64> {
    match error {
        Error::Rpc { error, .. } => Some(error.code),
        _ => None,
    }
}

#[tokio::test]
async fn names_of_any_bytes() {
    let place = Place::new().await;
    let files = &place.files;
    for name in [&b"bad-\xff"[..], b"new\nline", b"--dash", b"per%20cent", "caf\u{e9} \u{2615}".as_bytes()] {
        let name = OsStr::from_bytes(name);
        let path = local(name);
        assert!(files.write(&path, b"content", Attributes::default()).await.unwrap(), "{name:?}");
        assert_eq!(std::fs::read(place.workspace.path().join(name)).unwrap(), b"content", "{name:?}");
        assert_eq!(files.read(&path).await.unwrap(), b"content");
        assert_eq!(files.read_small(&path).await.unwrap(), b"content");
        assert_eq!(files.metadata(&path).await.unwrap().size, 7);
        assert_eq!(files.canonicalize(&path).await.unwrap(), path);
        let names: Vec<_> = files.read_dir(&local("")).await.unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [name]);
        let tree = files.walk(&local(""), WalkOptions::default()).await.unwrap();
        assert_eq!(tree.entries.iter().map(|entry| &entry.path).collect::<Vec<_>>(), [&path]);

        let mut copy = name.to_owned();
        copy.push(".copy");
        files.copy(&path, &local(&copy), false).await.unwrap();
        files.rename(&local(&copy), &path, true).await.unwrap();
        files.remove(&path, false).await.unwrap();
        assert_eq!(code(&files.metadata(&path).await.unwrap_err()), Some(NOT_FOUND));
    }
    place.end().await;
}

#[tokio::test]
async fn every_size_comes_back_the_same() {
    let place = Place::new().await;
    let content: Vec<u8> = (0..(40u32 << 20)).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for size in [0, 1, 17 << 10, 19 << 10, 512 << 10, (512 << 10) + 1, 15 << 20, 40 << 20] {
        let content = &content[..size];
        let path = local("file");
        place.files.write(&path, content, Attributes::default()).await.unwrap();
        assert!(std::fs::read(place.real("file")).unwrap() == content, "{size}");
        assert!(place.files.read(&path).await.unwrap() == content, "{size}");
    }
    place.end().await;
}

#[tokio::test]
async fn a_replacement_takes_effect_at_its_end_or_never() {
    let place = Place::new().await;
    let old = || std::fs::read_to_string(place.real("file")).unwrap();
    std::fs::write(place.real("file"), "old").unwrap();
    let attributes = Attributes {
        permissions: Some(0o640),
        modified_at_ms: Some(1_600_000_000_123),
        ..Attributes::default()
    };

    let writer = place.files.replace(&local("file"), attributes).await.unwrap();
    writer.write(0, b"new ").await.unwrap();
    writer.discard().await.unwrap();
    assert_eq!(old(), "old");

    let writer = place.files.replace(&local("file"), attributes).await.unwrap();
    writer.write(4, b"content").await.unwrap();
    writer.write(0, b"new ").await.unwrap();
    assert_eq!(old(), "old");
    writer.finish().await.unwrap();
    assert_eq!(old(), "new content");
    let metadata = std::fs::metadata(place.real("file")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_600_000_000, 123_000_000));

    // One that is dropped leaves nothing behind.
    drop(place.files.replace(&local("file"), attributes).await.unwrap());
    let workspace = place.workspace.path().to_owned();
    place
        .end_keeping(|| {
            let names: Vec<_> =
                std::fs::read_dir(&workspace).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names, ["file"]);
        })
        .await;
}

impl Place {
    /// Ends the connection, and looks at what it leaves.
    async fn end_keeping(self, look: impl FnOnce()) {
        let Self { environment, files, workspace } = self;
        drop(files);
        environment.close().await;
        look();
        drop(workspace);
    }
}

#[tokio::test]
async fn what_is_made_has_the_mode_that_was_asked_for() {
    let place = Place::new().await;
    let wide = Attributes { permissions: Some(0o4777), create_parents: true, ..Attributes::default() };
    place.files.create_dir(&local("a/b"), wide).await.unwrap();
    place.files.write(&local("a/f"), b"", wide).await.unwrap();
    for name in ["a/b", "a/f"] {
        let mode = std::fs::metadata(place.real(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o777, "{name}: no umask, and no set-id bit");
    }
    let alone = Attributes { create_parents: false, ..wide };
    assert!(place.files.create_dir(&local("a/b"), alone).await.is_err(), "it is there");
    assert_eq!(code(&place.files.create_dir(&local("x/y"), alone).await.unwrap_err()), Some(NOT_FOUND));
    place.end().await;
}

#[tokio::test]
async fn symlinks_are_made_and_described_themselves() {
    let place = Place::new().await;
    let target = Path::new(OsStr::from_bytes(b"../gone-\xff"));
    place.files.create_symlink(&local("link"), target, false).await.unwrap();
    assert_eq!(std::fs::read_link(place.real("link")).unwrap(), target);
    assert!(place.files.create_symlink(&local("link"), target, false).await.is_err(), "it is there");
    place.files.create_symlink(&local("link"), Path::new("other"), true).await.unwrap();
    place.files.create_symlink(&local("link"), target, true).await.unwrap();

    let options = WalkOptions { details: Some(true), ..WalkOptions::default() };
    let tree = place.files.walk(&local(""), options).await.unwrap();
    assert_eq!(tree.entries.len(), 1, "no temporary name is left: {tree:?}");
    assert_eq!(tree.entries[0].kind, Kind::Symlink);
    assert_eq!(tree.entries[0].details.as_ref().unwrap().symlink_target.as_deref(), Some(target));

    // A directory gives way to no symlink.
    std::fs::create_dir(place.real("dir")).unwrap();
    assert!(place.files.create_symlink(&local("dir"), target, true).await.is_err());
    place.end().await;
}

#[tokio::test]
async fn outside_is_refused_on_both_sides() {
    let place = Place::new().await;
    let outside = tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    let error = place.files.read(Path::new("/etc/hostname")).await.unwrap_err();
    assert!(matches!(error, Error::OutsideRoot { .. }), "{error}");

    // A symlink leads out of the workspace: the server refuses, and what it names has no local path.
    std::os::unix::fs::symlink(outside.path(), place.real("link")).unwrap();
    assert!(place.files.read(&local("link/secret")).await.is_err());
    assert!(place.files.write(&local("link/new"), b"", Attributes::default()).await.is_err());
    assert!(place.files.create_symlink(&local("link/new"), Path::new("x"), false).await.is_err());
    std::os::unix::fs::symlink("/usr", place.real("usr")).unwrap();
    let error = place.files.canonicalize(&local("usr")).await.unwrap_err();
    assert!(matches!(error, Error::NoCounterpart { .. }), "{error}");
    // The positive controls.
    assert_eq!(place.files.unmapped().canonicalize(&place.real("usr")).await.unwrap(), Path::new("/usr"));
    place.files.create_symlink(&local("new"), Path::new("x"), false).await.unwrap();
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    place.end().await;
}

#[tokio::test]
async fn errors_name_the_path_as_people_write_it() {
    let place = Place::new().await;
    let error = place.files.walk(&local("a b"), WalkOptions::default()).await.unwrap_err();
    assert!(!error.to_string().contains("file://"), "{error}");
    assert_eq!(code(&error), Some(NOT_FOUND));
    place.end().await;
}

#[tokio::test]
async fn changes_are_told_by_local_paths() {
    let place = Place::new().await;
    std::fs::create_dir(place.real("d")).unwrap();
    let mut changes = place.files.watch(&local("")).await.unwrap();
    let name = OsStr::from_bytes(b"d/bad-\xff");
    std::fs::write(place.workspace.path().join(Path::new(name)), "").unwrap();
    while !changes.recv().await.unwrap().paths.contains(&local(name)) {}
    drop(changes);
    place.end().await;
}
