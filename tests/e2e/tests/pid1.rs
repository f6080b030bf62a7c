//! The duty of a PID 1: orphans are reaped and every launch keeps its own answer, in a container and outside.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use e2e::client::decode;
use e2e::{Client, GIVE_UP, Scratch, Server, programs};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, geteuid, mkfifo};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// Launches of a missing program, and how many of them are under way at once.
const MISSING: usize = 1_000;
const AT_ONCE: usize = 50;
/// The least that runs beside them; each goes on until they are done.
const AT_LEAST: usize = 20;
/// What launches leave behind: their shims' to reap.
const ORPHANS: [&str; 3] = [
    "(setsid sleep 0.01 &);",
    "(setsid sh -c '(sleep 0.01 &) & sleep 0.01' &);",
    "sleep 0.01 & sleep 0.01 &",
];
/// What enters the container beside the server and leaves behind: PID 1's to reap.
const FROM_OUTSIDE: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do (true &); (sh -c '(sleep 0.01 &) & true' &); done >/dev/null 2>&1; exit 7";
/// What is kept of an exited process holds descriptors; here nothing is kept.
const FORGETS: &str = "SANDBOX_SIDECAR_LIMITS_EXITED_TTL_SECONDS=0";
/// Whom the container's processes run as.
const UID: u32 = 65532;

#[tokio::test]
async fn every_answer_is_right_as_an_ordinary_process() {
    let server = Server::builder().under(&["env", FORGETS].map(OsStr::new)).start();
    let pid = server.pid();
    duty(server, pid, None).await;
}

#[tokio::test]
async fn every_answer_is_right_as_pid_1_of_a_container() {
    if !geteuid().is_root() {
        eprintln!("passed over: only root can start a container with runc");
        return;
    }
    let scratch = Scratch::new();
    let container = Arc::new(Container::new(&scratch));
    // The words that the harness would start the server with are this shell's; the bundle holds them too.
    let run = container.run();
    let under = ["sh", "-c", &run].map(OsStr::new);
    let server = Server::builder().scratch(scratch).insecure().under(&under).start();
    let pid = container.init();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert_eq!(pid_inside(&status), Some(1), "{status}");
    duty(server, pid, Some(&container)).await;
}

/// The same for both; `pid` is the server's as this test sees it.
async fn duty(mut server: Server, pid: u32, container: Option<&Arc<Container>>) {
    server.wait_for_log("\"ready\"");
    // Every launch holds it open as descriptor 9; its end of file tells that the last of them is gone.
    let fifo = server.workspace().join("fifo");
    mkfifo(&fifo, Mode::S_IRUSR).unwrap();
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o666)).unwrap();
    let mut watch = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();

    let mut clients = [Client::open(&server).await, Client::open(&server).await, Client::open(&server).await];
    let [missing, orphans, victims] = &mut clients;
    // One of each first: what the server opens once and keeps is there when its descriptors are counted.
    missing_programs(missing, &server, "first", 1).await;
    leaves_orphans(orphans, &server, usize::MAX).await;
    loses_its_shim(victims, &server, pid, usize::MAX).await;
    until("the first children are reaped", || children(pid).is_empty()).await;
    let before = descriptors(pid);

    let done = Cell::new(false);
    tokio::join!(
        async {
            for batch in 0..MISSING / AT_ONCE {
                missing_programs(missing, &server, &batch.to_string(), AT_ONCE).await;
            }
            done.set(true);
        },
        async {
            for n in (0..).take_while(|&n| n < AT_LEAST || !done.get()) {
                leaves_orphans(orphans, &server, n).await;
            }
        },
        async {
            for n in (0..).take_while(|&n| n < AT_LEAST || !done.get()) {
                loses_its_shim(victims, &server, pid, n).await;
            }
        },
        async {
            let Some(container) = container else { return };
            for _ in (0..).take_while(|&n| n < AT_LEAST || !done.get()) {
                let container = Arc::clone(container);
                let exec = tokio::task::spawn_blocking(move || container.exec(FROM_OUTSIDE));
                let output = exec.await.unwrap();
                assert_eq!(output.status.code(), Some(7), "{output:?}");
            }
        },
    );
    until("all children are reaped", || children(pid).is_empty()).await;
    if let Some(container) = container {
        adopts(container, pid).await;
    }
    until("all descriptors are closed", || descriptors(pid) <= before).await;

    // SIGTERM comes while something runs.
    let script = "exec 9>fifo; trap '' TERM; setsid sleep 600 & (sleep 600 &); echo up; wait";
    orphans.call("process/start", sh("last", script, &server)).await.unwrap();
    orphans.of_process("last", "output").await;
    let status = server.stop().unwrap();
    assert_eq!(status.code(), Some(0), "{status}: {}", server.log());
    let end = timeout(GIVE_UP, watch.read(&mut [0; 1])).await;
    assert_eq!(end.expect("nothing outlives the server").unwrap(), 0);
}

fn sh(process: &str, script: &str, server: &Server) -> Value {
    start(process, &["sh", "-c", script], server)
}

fn start(process: &str, argv: &[&str], server: &Server) -> Value {
    json!({
        "processId": process, "argv": argv, "cwd": server.workspace(),
        "env": {"PATH": "/usr/bin:/bin"}, "tty": false,
    })
}

/// Launches of a missing program, all asked for before the first answer is looked at.
async fn missing_programs(client: &mut Client, server: &Server, name: &str, count: usize) {
    let mut asked = Vec::new();
    for n in 0..count {
        let program = if n % 2 == 0 { "no-such-program" } else { "/no/such/program" };
        let params = start(&format!("missing-{name}-{n}"), &[program], server);
        asked.push((program, client.request("process/start", params).await));
    }
    for (program, id) in asked {
        let response = client.response(&id).await;
        let data = &response["error"]["data"];
        let expected = (json!("spawnNotFound"), json!(libc::ENOENT), json!(program));
        assert_eq!((&data["kind"], &data["errno"], &data["path"]), (&expected.0, &expected.1, &expected.2));
    }
}

/// A launch that leaves orphans, and has output and an exit code of its own.
async fn leaves_orphans(client: &mut Client, server: &Server, n: usize) {
    let (orphans, code) = (ORPHANS[n % ORPHANS.len()], n % 256);
    let script = format!("exec 9>fifo; {orphans} echo {n}; exit {code}");
    let finished = client.run(sh(&format!("orphans-{n}"), &script, server)).await;
    assert_eq!(finished.stdout, format!("{n}\n"), "{finished:?}");
    assert_eq!(usize::try_from(finished.code()), Ok(code), "{finished:?}");
}

/// A launch whose shim is killed: its tree is nobody's, or PID 1's.
async fn loses_its_shim(client: &mut Client, server: &Server, server_pid: u32, n: usize) {
    let name = format!("victim-{n}");
    let script = "exec 9>fifo; setsid sleep 600 & (sleep 600 &); echo up; wait";
    client.call("process/start", sh(&name, script, server)).await.unwrap();
    let up = client.of_process(&name, "output").await;
    assert_eq!(decode(&up["chunk"]), b"up\n", "{up}");
    let list = client.call("process/list", json!({})).await.unwrap();
    let listed = list["processes"].as_array().unwrap().iter().find(|one| one["processId"] == name);
    let pid = listed.unwrap_or_else(|| panic!("{list}"))["pid"].as_u64().unwrap();
    kill(Pid::from_raw(shim_of(server_pid, pid).cast_signed()), Signal::SIGKILL).unwrap();
    let exited = client.of_process(&name, "exited").await;
    assert_eq!(exited["exitCode"], 128 + libc::SIGKILL, "{exited}");
    client.of_process(&name, "closed").await;
}

/// That orphans from outside the launches do come to the server: one that lives until it has been seen there.
async fn adopts(container: &Container, pid: u32) {
    let output = container.exec("(exec sleep 600 >/dev/null 2>&1 &)");
    assert!(output.status.success(), "{output:?}");
    until("the orphan comes to PID 1", || !children(pid).is_empty()).await;
    let [(orphan, _)] = children(pid)[..] else { panic!("more than one child") };
    kill(Pid::from_raw(orphan.cast_signed()), Signal::SIGKILL).unwrap();
    until("the orphan is reaped", || children(pid).is_empty()).await;
}

/// Looks until it holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let looking = async {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        while !holds() {
            looks.tick().await;
        }
    };
    timeout(GIVE_UP, looking).await.unwrap_or_else(|_| panic!("never came: {what}"));
}

/// Every process that this test sees.
fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// State and parent of a process; `None` once it is reaped.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc_pid_stat(5): they follow the name, which may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The children of a process, zombies among them, and their states.
fn children(parent: u32) -> Vec<(u32, char)> {
    processes()
        .filter_map(|pid| {
            let (state, its_parent) = state(pid)?;
            (its_parent == parent).then_some((pid, state))
        })
        .collect()
}

/// How many descriptors a process has open. Linux 6.2 and newer tell it to anyone as the folder's size.
fn descriptors(pid: u32) -> u64 {
    let dir = PathBuf::from(format!("/proc/{pid}/fd"));
    match fs::metadata(&dir).unwrap().len() {
        0 => fs::read_dir(&dir).unwrap().count() as u64,
        count => count,
    }
}

/// The pid in the innermost namespace, out of /proc/PID/status.
fn pid_inside(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// The shim of a launch: a child of the server, and the parent of the command with this pid in the server's namespace.
fn shim_of(server: u32, command: u64) -> u32 {
    let is_it = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok();
        status.and_then(|status| pid_inside(&status)) == Some(command)
    };
    let mut parents = processes().filter(is_it).filter_map(|pid| Some(state(pid)?.1));
    parents.find(|&shim| state(shim).is_some_and(|(_, parent)| parent == server)).expect("a running command")
}

/// A container and its bundle; deleted on drop.
#[derive(Debug)]
struct Container {
    dir: TempDir,
}

impl Container {
    /// Its bundle, not started yet. The workspace is handed to the user that the container runs as.
    fn new(scratch: &Scratch) -> Self {
        let container = Self { dir: tempfile::Builder::new().prefix("e2e-").tempdir_in("/var/tmp").unwrap() };
        let version = container.runc(&["--version"]);
        assert!(version.status.success(), "`scripts/setup.sh tools` installs runc: {version:?}");
        let workspace = scratch.workspace();
        chown(&workspace, Some(UID), Some(UID)).unwrap();
        let root = container.dir.path().join("root");
        fs::create_dir(&root).unwrap();
        // Its user must be able to pass through, whatever the umask is.
        for dir in [container.dir.path(), &root] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let config = config(&root, &workspace);
        fs::write(container.dir.path().join("config.json"), config.to_string()).unwrap();
        container
    }

    /// Unique on this machine: control groups are named after it.
    fn id(&self) -> &str {
        self.dir.path().file_name().and_then(OsStr::to_str).unwrap()
    }

    /// The shell's command line that becomes the container, in the foreground.
    fn run(&self) -> String {
        let bundle = self.dir.path().display();
        format!("exec runc --root {bundle}/runc run --bundle {bundle} {}", self.id())
    }

    fn runc(&self, words: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command
            .arg(GIVE_UP.as_secs().to_string())
            .arg("runc")
            .arg("--root")
            .arg(self.dir.path().join("runc"));
        command.args(words).stdin(Stdio::null()).output().unwrap()
    }

    /// The pid of its PID 1, as it is seen outside.
    fn init(&self) -> u32 {
        let output = self.runc(&["state", self.id()]);
        assert!(output.status.success(), "{output:?}");
        let state: Value = serde_json::from_slice(&output.stdout).unwrap();
        state["pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// Runs a script in it, as no child of its PID 1.
    fn exec(&self, script: &str) -> Output {
        self.runc(&["exec", self.id(), "sh", "-c", script])
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It is gone already where all went well.
        self.runc(&["delete", "--force", self.id()]);
    }
}

/// The host's programs, read-only, in namespaces of their own; the host's network; no user namespace, no capability.
fn config(root: &Path, workspace: &Path) -> Value {
    let owner = format!("uid={UID},gid={UID}");
    let tmpfs = |at: &str, options: &[&str]| json!({"destination": at, "type": "tmpfs", "source": "tmpfs", "options": options});
    let bind = |from: &Path, at: &Path, options: &[&str]| json!({"destination": at, "type": "bind", "source": from, "options": options});
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc"}),
        tmpfs("/dev", &["nosuid", "mode=755"]),
        json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}),
        tmpfs("/dev/shm", &["nosuid", "nodev", "mode=1777"]),
        tmpfs("/tmp", &["nosuid", "nodev", "mode=1777"]),
        tmpfs("/home", &["nosuid", "nodev", "mode=700", &owner]),
        tmpfs("/state", &["nosuid", "nodev", "mode=700", &owner]),
        bind(&programs::sandbox_sidecar(), Path::new("/sandbox-sidecar"), &["bind", "ro"]),
        bind(workspace, workspace, &["bind"]),
    ];
    for name in ["usr", "etc", "bin", "sbin", "lib", "lib32", "lib64"] {
        let dir = Path::new("/").join(name);
        match fs::read_link(&dir) {
            Ok(target) => symlink(target, root.join(name)).unwrap(),
            Err(_) if dir.is_dir() => mounts.push(bind(&dir, &dir, &["rbind", "ro"])),
            Err(_) => {}
        }
    }
    let namespaces = ["pid", "mount", "ipc", "uts"].map(|kind| json!({"type": kind}));
    json!({
        "ociVersion": "1.0.2",
        "root": {"path": root, "readonly": true},
        "process": {
            "args": ["/sandbox-sidecar", "serve", "--listen", "ws://127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                "--workspace-root", workspace, "--insecure-no-auth"],
            "env": ["PATH=/usr/bin:/bin", "HOME=/home", "SANDBOX_SIDECAR_STATE=/state", "RUST_BACKTRACE=1", FORGETS],
            "cwd": "/",
            "user": {"uid": UID, "gid": UID},
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    })
}
