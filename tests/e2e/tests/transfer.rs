//! Large trees by `agent-client push`, `pull` and `cp`: all of it, what is left out told, cut and repeated, on a full disk.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::server::clean_environment;
use e2e::{Scratch, Server, found, programs};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Files of the large tree.
const FILES: usize = 10_000;
/// Bytes of its largest one.
const LARGE: usize = 300 << 20;

/// `agent-client` on the server, with its local root in `here`.
fn client(server: &Server, here: &Path, words: &[&str]) -> Command {
    wrapped(server, here, &[], words)
}

fn wrapped(server: &Server, here: &Path, wrapper: &[&str], words: &[&str]) -> Command {
    let program = programs::agent_client();
    let all: Vec<&OsStr> = wrapper.iter().map(OsStr::new).chain([program.as_os_str()]).collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).args(words).current_dir(here).stdin(Stdio::null());
    clean_environment(&mut command, server.scratch());
    command.env("AGENT_CLIENT_SIDECAR_URL", server.url());
    command.env("AGENT_CLIENT_TOKEN_FILE", server.scratch().state().join("e2e-token"));
    command
}

fn run(server: &Server, here: &Path, words: &[&str]) -> Output {
    client(server, here, words).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes that repeat nowhere in a block.
fn content(seed: usize, size: usize) -> Vec<u8> {
    let mut state = seed as u64 | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend((state >> 16).to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// What a tree holds; content by its hash.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    snapshot_of(root, |_| true)
}

/// The same of the paths that `wanted` accepts. Only these are looked at: others may vanish meanwhile.
fn snapshot_of(root: &Path, wanted: impl Fn(&Path) -> bool) -> BTreeMap<PathBuf, String> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if !wanted(&path) {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            let text = if metadata.is_dir() {
                waiting.push(path.clone());
                format!("directory {mode:o}")
            } else if metadata.is_symlink() {
                format!("symlink {:?}", fs::read_link(&path).unwrap())
            } else {
                let mut hasher = DefaultHasher::new();
                fs::read(&path).unwrap().hash(&mut hasher);
                format!("file {mode:o} {} {:x}", metadata.len(), hasher.finish())
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), text);
        }
    }
    found
}

fn plant(root: &Path) {
    for number in 0..FILES {
        let dir = root.join(format!("d{}", number % 100)).join(format!("e{}", number % 7));
        if number < 700 {
            fs::create_dir_all(&dir).unwrap();
        }
        fs::write(dir.join(format!("f{number}")), content(number, number % 1500)).unwrap();
    }
    fs::write(root.join("large"), content(7, LARGE)).unwrap();
    fs::write(root.join(Path::new(OsStr::from_bytes(b"bad-\xff"))), "x").unwrap();
    fs::write(root.join("new\nline"), "x").unwrap();
    fs::write(root.join("run"), "x").unwrap();
    fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("d1/e1", root.join("link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
}

#[test]
fn a_large_tree_there_and_back() {
    let server = Server::start();
    let here = server.scratch().base().join("here");
    fs::create_dir(&here).unwrap();
    plant(&here);
    let planted = snapshot(&here);
    mkfifo(&here.join("fifo"), Mode::S_IRUSR).unwrap();
    fs::write(here.join("secret"), "x").unwrap();
    fs::set_permissions(here.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();

    // Root without the capabilities that look past modes: the secret cannot be read.
    let bounded: &[&str] = &["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"];
    let is_root = nix::unistd::geteuid().is_root();
    let output = wrapped(&server, &here, if is_root { bounded } else { &[] }, &["push"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("skipped fifo:") && told.contains("skipped secret: Permission denied"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert_eq!(snapshot(&server.workspace()), planted);

    let other = server.scratch().base().join("other");
    fs::create_dir(&other).unwrap();
    let output = run(&server, &other, &["pull"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(snapshot(&other), planted);

    let report = run(&server, &other, &["pull", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!((&report["files"], &report["unchanged"]), (&0.into(), &(FILES + 6).into()), "{report}");
}

#[test]
fn cut_and_repeated_it_is_whole() {
    let server = Server::start();
    let (here, there) = (server.scratch().base().join("here"), server.workspace().join("tree"));
    fs::create_dir(&here).unwrap();
    for number in 0..2000 {
        fs::write(here.join(format!("f{number}")), content(number, 3000)).unwrap();
    }
    fs::write(here.join("large"), content(7, 64 << 20)).unwrap();
    let whole = snapshot(&here);
    let back = server.scratch().base().join("back");
    for (words, destination) in
        [(["cp", "./", ":tree"], &there), (["cp", ":tree/", back.to_str().unwrap()], &back)]
    {
        let mut child = client(&server, &here, &words).stderr(Stdio::null()).spawn().unwrap();
        found("some files", || {
            let files = fs::read_dir(destination).ok()?.filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.file_name().as_bytes().starts_with(b"f"))
            });
            (files.count() > 100).then_some(())
        });
        // SIGKILL: it can clean nothing up.
        child.kill().unwrap();
        child.wait().unwrap();
        // What is there under its name is whole. The server may still be at work on what the client had sent: its
        // temporary files come and go.
        let ours = |path: &Path| !path.to_string_lossy().ends_with(".tmp");
        for (path, found) in snapshot_of(destination, ours) {
            assert_eq!(Some(&found), whole.get(&path), "{}", path.display());
        }
        let output = client(&server, &here, &[&words[..], &["--json"]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["unchanged"].as_u64().unwrap() > 100, "it went on where it was: {report}");
        assert_eq!(snapshot_of(destination, ours), whole);
    }
}

/// A file system of 4 MiB in a private place; unmounted on drop.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at).status();
        assert!(status.unwrap().success());
        Self(at.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_no_half_file() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("passed over: only root can mount a small file system");
        return;
    }
    let scratch = Scratch::new();
    let (workspace, here) = (scratch.workspace(), scratch.base().join("here"));
    let small = here.join("small");
    fs::create_dir(&here).unwrap();
    let mounted = [Small::mount(&workspace), Small::mount(&small)];
    let server = Server::builder().scratch(scratch).start();

    fs::write(here.join("large"), content(1, 6 << 20)).unwrap();
    fs::write(here.join("fits"), content(2, 1 << 20)).unwrap();
    fs::write(workspace.join("large"), "old").unwrap();
    let output = run(&server, &here, &["cp", "fits", ":fits"]);
    assert_eq!(output.status.code(), Some(0), "the positive control: {}", stderr(&output));
    let output = run(&server, &here, &["cp", "large", ":large"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("No space left") && stderr(&output).contains("large"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(workspace.join("large")).unwrap(), "old");
    let names = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    // The server removes what it had begun when the connection has ended.
    found("nothing half", || (names(&workspace) == ["fits", "large"]).then_some(()));

    // And to here: what does not fit here lies outside of the small workspace.
    let output = run(&server, &here, &["cp", ":fits", "small/fits"]);
    assert_eq!(output.status.code(), Some(0), "the positive control: {}", stderr(&output));
    fs::write(small.join("filler"), content(3, 5 << 19)).unwrap();
    fs::write(small.join("again"), "old").unwrap();
    let output = run(&server, &here, &["cp", ":fits", "small/again"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("No space left") && stderr(&output).contains("again"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(small.join("again")).unwrap(), "old");
    assert_eq!(names(&small), ["again", "filler", "fits"]);
    // Before the folders are removed, which the server does when it is gone.
    drop(mounted);
}
