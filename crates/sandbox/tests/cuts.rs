//! What is cut out of granted trees: protected paths, denied places and patterns. Each denial beside the same act where it
//! is allowed, by real launches.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::World;
use sidecar_sandbox::{Entry, EntryAccess, Error, Options, Permissions, Place, Receipt, Request};

use EntryAccess::{Deny, Read, Write};

fn entry(place: Place, access: EntryAccess) -> Entry {
    Entry { place, access, skip_missing: false }
}

fn path(path: impl AsRef<Path>, access: EntryAccess) -> Entry {
    entry(Place::Path(path.as_ref().into()), access)
}

fn glob(pattern: impl Into<String>, access: EntryAccess) -> Entry {
    entry(Place::Glob(pattern.into()), access)
}

fn role(kind: &str, access: EntryAccess) -> Entry {
    entry(Place::Special { kind: kind.into(), subpath: None }, access)
}

/// The stock client's permissions: the system to read, and these.
fn stock(world: &World, entries: impl IntoIterator<Item = Entry>) -> Request {
    Request::Permissions(Permissions {
        entries: Some([role("minimal", Read)].into_iter().chain(entries).collect()),
        network: false,
        cwd: world.workspace.clone(),
        workspace_roots: vec![world.workspace.clone()],
    })
}

fn plant(world: &World, files: &[&str]) {
    for file in files {
        let file = world.workspace.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "content\n").unwrap();
    }
}

/// Which of these files a launch can read.
fn readable(world: &World, request: &Request, files: &[&str]) -> Vec<String> {
    let script = format!("for f in {}; do cat $f >/dev/null 2>&1 && echo $f; done", files.join(" "));
    world.sh_under(request, &script).stdout.lines().map(str::to_owned).collect()
}

fn receipt(world: &World, request: &Request) -> Receipt {
    world.sandbox.prepare(request).unwrap().receipt().clone()
}

fn names(receipt: &Receipt, text: &str) -> bool {
    receipt.unenforced.iter().any(|gap| gap.what.contains(text))
}

fn protect(change: impl Fn(&Options) -> Vec<std::path::PathBuf>) -> World {
    World::with(|o| o.roots.protected = change(o))
}

const FILES: [&str; 5] = ["top", "a/f", "a/b/secret/f", "a/b/open/f", "c/f"];

#[test]
fn a_protected_path_deep_in_the_workspace() {
    let world = protect(|o| vec![o.roots.workspace.join("a/b/secret")]);
    plant(&world, &FILES);
    assert_eq!(readable(&world, &Request::Default, &FILES), ["top", "a/f", "a/b/open/f", "c/f"]);
    assert_eq!(readable(&World::new(), &Request::Default, &["/etc/passwd"]), ["/etc/passwd"]);
    // What is new beside the way to it is not granted, and the receipt says so; elsewhere it is.
    let done =
        world.sh("echo x > c/new && echo c; echo x > a/open-new; echo x > new; mv a/b/secret c/; ls a");
    assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("c\n", 4), "{done:?}");
    for dir in ["", "/a", "/a/b"] {
        assert!(names(&receipt(&world, &Request::Default), &format!("{}{dir},", world.workspace.display())));
    }
    let control = World::new();
    plant(&control, &FILES);
    assert_eq!(readable(&control, &Request::Default, &FILES), FILES);
    assert_eq!(control.sh("echo x > a/open-new; echo x > new; mv a/b/secret c/; ls a >/dev/null").stderr, "");
    assert!(!names(&receipt(&control, &Request::Default), "new files"));
}

#[test]
fn a_protected_path_through_symlinks() {
    // The name is a link outside; what it leads to is in the workspace, through another link.
    let world = protect(|o| vec![o.roots.home.clone().unwrap().join("name")]);
    plant(&world, &FILES);
    symlink(world.workspace.join("a"), world.outside.join("way")).unwrap();
    symlink(world.outside.join("way/b/secret"), world.home.join("name")).unwrap();
    symlink("b/secret/f", world.workspace.join("a/inside")).unwrap();
    let tries = ["a/b/secret/f", "a/inside", "a/b/open/f", "c/../a/b/secret/f"];
    assert_eq!(readable(&world, &Request::Default, &tries), ["a/b/open/f"]);
    fs::remove_file(world.home.join("name")).unwrap();
    assert_eq!(readable(&world, &Request::Default, &tries), tries, "the control");
}

#[test]
fn a_protected_path_that_appears_later() {
    let world = protect(|o| vec![o.roots.workspace.join("a/late"), o.roots.workspace.join("linked")]);
    plant(&world, &["a/f", "target/f"]);
    let tries = ["a/f", "a/late/f", "target/f", "linked/f"];
    assert_eq!(readable(&world, &Request::Default, &tries), ["a/f", "target/f"]);
    // A launch makes it itself: it has what it made, and the next one does not.
    let made = world.sh("mkdir a/late && echo x > a/late/f && cat a/late/f");
    assert_eq!(made.stdout, "x\n", "{made:?}");
    assert_eq!(readable(&world, &Request::Default, &tries), ["a/f", "target/f"]);
    // Replaced by a link, and made anew: each is noticed.
    symlink("target", world.workspace.join("linked")).unwrap();
    assert_eq!(readable(&world, &Request::Default, &tries), ["a/f"]);
    fs::remove_dir_all(world.workspace.join("a/late")).unwrap();
    fs::remove_file(world.workspace.join("linked")).unwrap();
    plant(&world, &["linked/f"]);
    assert_eq!(readable(&world, &Request::Default, &tries), ["a/f", "target/f"]);
}

#[test]
fn what_is_new_beside_a_protected_path_is_granted_to_the_next_launch() {
    let world = protect(|o| vec![o.roots.workspace.join("secret")]);
    plant(&world, &["secret/f", "old/f"]);
    assert_eq!(readable(&world, &Request::Default, &["old/f", "new/f"]), ["old/f"]);
    plant(&world, &["new/f"]);
    assert_eq!(readable(&world, &Request::Default, &["secret/f", "old/f", "new/f"]), ["old/f", "new/f"]);
}

#[test]
fn a_denied_place() {
    let world = World::new();
    plant(&world, &FILES);
    let request =
        stock(&world, [role("project_roots", Write), path(world.workspace.join("a/b/secret"), Deny)]);
    assert_eq!(readable(&world, &request, &FILES), ["top", "a/f", "a/b/open/f", "c/f"]);
    assert!(world.sh_under(&request, "echo x > a/b/secret/f").exit.code != 0);
    assert!(names(&receipt(&world, &request), "new files"));
    assert_eq!(
        readable(&world, &stock(&world, [role("project_roots", Write)]), &FILES),
        FILES,
        "the control"
    );
    // Nothing can be granted inside it again: the request is refused and says what it is about.
    let inside =
        stock(&world, [path(world.workspace.join("a"), Deny), path(world.workspace.join("a/b/open"), Write)]);
    let error = world.sandbox.prepare(&inside).unwrap_err().to_string();
    assert!(error.contains("a/b/open") && error.contains("denied"), "{error}");
}

#[test]
fn a_denied_place_that_does_not_exist() {
    let world = World::new();
    let gone = world.workspace.join("gone");
    let refused = stock(&world, [role("project_roots", Write), path(&gone, Deny)]);
    let error = world.sandbox.prepare(&refused).unwrap_err();
    assert!(matches!(error, Error::Root { path, .. } if path == gone));
    let skipped = Entry { skip_missing: true, ..path(&gone, Deny) };
    let request = stock(&world, [role("project_roots", Write), skipped]);
    assert!(names(&receipt(&world, &request), "denied"));
    assert_eq!(world.sh_under(&request, "mkdir gone && echo x > gone/f && cat gone/f").stdout, "x\n");
    // It is there now.
    assert_eq!(readable(&world, &request, &["gone/f"]), Vec::<String>::new());
    assert_eq!(readable(&world, &Request::Default, &["gone/f"]), ["gone/f"]);
}

#[test]
fn a_denied_pattern_in_one_directory() {
    let world = World::new();
    let files = ["k/a.pem", "k/.b.pem", "k/d.pem/f", "k/readme", "src/c.pem"];
    plant(&world, &files);
    let pattern = format!("{}/k/*.pem", world.workspace.display());
    let request = stock(&world, [role("project_roots", Write), glob(pattern, Deny)]);
    assert_eq!(readable(&world, &request, &files), ["k/readme", "src/c.pem"]);
    // Neither does one that appears later, by its own hand or another's.
    let done = world.sh_under(
        &request,
        "echo x > k/e.pem; mv src/c.pem k/; echo x > src/new && echo x > k/readme && echo ok",
    );
    assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("ok\n", 2), "{done:?}");
    plant(&world, &["k/e.pem", "k/notes"]);
    assert_eq!(readable(&world, &request, &["k/e.pem", "k/notes"]), ["k/notes"]);
    assert_eq!(readable(&world, &Request::Default, &files), files, "the control");
    assert!(names(&receipt(&world, &request), &format!("{}/k,", world.workspace.display())));
}

#[test]
fn a_denied_pattern_at_any_depth() {
    let world = World::new();
    let files = ["a.env", "x/a.env", "x/y/a.env", "x/y/f", "f"];
    plant(&world, &files);
    for access in [Read, Write] {
        let request = stock(&world, [role("project_roots", access), glob("**/*.env", Deny)]);
        assert_eq!(readable(&world, &request, &files), ["x/y/f", "f"], "{access:?}");
        // No directory is granted in which a match could appear.
        assert_ne!(world.sh_under(&request, "echo x > x/y/new.env").exit.code, 0, "{access:?}");
    }
    let request = stock(&world, [role("project_roots", Write), glob("**/*.env", Deny)]);
    assert_eq!(world.sh_under(&request, "echo new > x/y/f && cat x/y/f").stdout, "new\n");
}

#[test]
fn a_denied_pattern_that_takes_too_many_rules_is_refused() {
    let world = World::new();
    for n in 0..2100 {
        fs::write(world.workspace.join(n.to_string()), "").unwrap();
    }
    let request = stock(&world, [role("project_roots", Write), glob("**/*.env", Deny)]);
    let error = world.sandbox.prepare(&request).unwrap_err().to_string();
    assert!(
        error.contains("2048 rules") && error.contains(&world.workspace.display().to_string()),
        "{error}"
    );
}

#[test]
fn a_granted_pattern() {
    let world = World::new();
    let files = ["src/a.rs", "src/b.txt", "src/deep/c.rs", "gen.rs/f", "f"];
    plant(&world, &files);
    symlink("/etc/passwd", world.workspace.join("src/link.rs")).unwrap();
    symlink(world.workspace.join("src/b.txt"), world.workspace.join("src/inside.rs")).unwrap();
    let request = stock(&world, [glob("**/*.rs", Read)]);
    let tries: Vec<_> = files.into_iter().chain(["src/inside.rs"]).collect();
    assert_eq!(readable(&world, &request, &tries), ["src/a.rs", "src/deep/c.rs", "gen.rs/f"]);
    assert_ne!(world.sh_under(&request, "echo x > src/a.rs").exit.code, 0, "it is to be read");
    assert!(names(&receipt(&world, &request), "new files that match \"**/*.rs\""));
    plant(&world, &["src/new.rs"]);
    assert_eq!(readable(&world, &request, &["src/new.rs"]), ["src/new.rs"], "the next launch has it");
    let request = stock(&world, [glob("src/*.rs", Write)]);
    let done =
        world.sh_under(&request, "echo x > src/a.rs && cat src/a.rs; echo x > src/b.txt; echo x > src/n.rs");
    assert_eq!((done.stdout.as_str(), done.stderr.lines().count()), ("x\n", 2), "{done:?}");
    // Inside what is writable anyway, a pattern to be read is a carve-out.
    let request = stock(&world, [role("project_roots", Write), glob("src/*.rs", Read)]);
    assert!(names(&receipt(&world, &request), "read-only glob_pattern \"src/*.rs\""));
}
