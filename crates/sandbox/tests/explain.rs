//! `explain` against the kernel: random policies over a random tree, each path really opened, listed, written, executed.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::{World, finish};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sidecar_sandbox::{Access, Profile, Request};

/// Directories of the tree, each with a file, a program and a symlink to another directory in it.
const DIRS: [&str; 9] = ["a", "a/b", "a/b/c", "a/d", "e", "e/f", "e/f/g", "h", "h/.ssh"];

/// What a policy is made of, by indices into [`DIRS`].
#[derive(Debug, Clone)]
struct Plan {
    profile: Profile,
    read: Vec<usize>,
    write: Vec<usize>,
    protected: Vec<usize>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let some = |n| proptest::collection::vec(0..DIRS.len(), 0..n);
    let profile = proptest::sample::select(Profile::ALL[..3].to_vec());
    (profile, some(3), some(3), some(3)).prop_map(|(profile, read, write, protected)| Plan {
        profile,
        read,
        write,
        protected,
    })
}

fn plant(base: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (n, dir) in DIRS.iter().enumerate() {
        let dir = base.join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("file"), "content").unwrap();
        fs::copy("/bin/true", dir.join("program")).unwrap();
        symlink(base.join(DIRS[(n * 5 + 2) % DIRS.len()]), dir.join("link")).unwrap();
        paths.extend(["", "file", "program", "link", "link/file", "link/program"].map(|name| dir.join(name)));
    }
    paths
}

fn allowed<T>(result: std::io::Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(e) if e.kind() == ErrorKind::PermissionDenied => false,
        Err(e) => panic!("neither allowed nor denied: {e}"),
    }
}

/// What the kernel says, asked from a confined thread.
fn kernel_says(path: &Path) -> Access {
    if path.is_dir() {
        let new = path.join("new");
        let write = allowed(File::create(&new).and_then(|_| fs::remove_file(&new)));
        let list = allowed(fs::read_dir(path));
        // Opening a directory to read it is listing it; executing has no meaning for it.
        return Access { read: list, list, execute: list, write };
    }
    let read = allowed(File::open(path));
    // Not even the program is busy: nothing runs it now.
    let write = allowed(OpenOptions::new().append(true).open(path));
    Access { read, list: read, execute: read, write }
}

#[test]
fn explain_agrees_with_the_kernel() {
    // Denied, granted.
    let pairs = [Cell::new(0), Cell::new(0)];
    let agrees = |plan: Plan| {
        let base = tempfile::Builder::new().prefix("explain-").tempdir_in("/var/tmp").unwrap();
        let base = base.path().canonicalize().unwrap();
        let paths = plant(&base);
        let at = |indices: &[usize]| indices.iter().map(|n| base.join(DIRS[*n])).collect::<Vec<_>>();
        let protected = at(&plan.protected);
        // A root inside a protected place is refused; that is another test's.
        let open = |roots: Vec<PathBuf>| {
            roots.into_iter().filter(|r| !protected.iter().any(|p| r.starts_with(p))).collect::<Vec<_>>()
        };
        let world = World::with(|o| {
            o.roots.read_roots = open(at(&plan.read));
            o.roots.write_roots = open(at(&plan.write));
            o.roots.protected = protected.clone();
        });
        let request = Request::Profile(plan.profile);
        let prepared = world.sandbox.prepare(&request).unwrap();
        let seen = std::thread::scope(|threads| {
            let asker = threads.spawn(|| {
                world.sandbox.confine_current_thread(&prepared).unwrap();
                paths.iter().map(|p| kernel_says(p)).collect::<Vec<_>>()
            });
            asker.join().unwrap()
        });
        for (path, seen) in paths.iter().zip(seen) {
            let explained = prepared.explain(path);
            prop_assert_eq!(explained.access, seen, "{:?}: {:?}", path, explained);
            let count = &pairs[usize::from(seen.read)];
            count.set(count.get() + 1);
        }
        for path in paths.iter().filter(|p| p.ends_with("program")).step_by(4) {
            let launched = world.launch(&request, world.command(&[path.to_str().unwrap()]));
            let started = launched.map(|(child, io)| finish(child, io).exit.code == 0).unwrap_or(false);
            prop_assert_eq!(prepared.explain(path).access.execute, started, "{:?}", path);
        }
        Ok(())
    };
    // Neither side may be empty by chance, for then nothing would have been compared: these two see to that.
    let of = |read: &[usize]| Plan {
        profile: Profile::ALL[0].clone(),
        read: read.to_vec(),
        write: vec![],
        protected: vec![],
    };
    for plan in [of(&[]), of(&[0, 4, 7])] {
        agrees(plan).unwrap();
    }
    assert!(pairs.iter().all(|n| n.get() >= DIRS.len() * 5), "{pairs:?}");

    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    runner.run(&plans(), agrees).unwrap();
}
