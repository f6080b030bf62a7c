//! What the attacks aim at: a server with a victim launch, files that must not be reached, an ordinary process that
//! stands for the server in the controls.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv6Addr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde_json::{Value, json};

use super::listeners::Listeners;
use crate::client::{decode, encode};
use crate::server::{Builder, TOKEN};
use crate::{Client, Finished, Scratch, Server, programs};

/// How the servers of one run are started.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// `landlock.maxAbi`.
    pub max_abi: Option<u32>,
    /// Under the wrapper that hides the signal scope.
    pub without_signal_scope: bool,
}

impl Conditions {
    /// A builder for a server under these.
    pub fn builder(&self, scratch: Scratch) -> Builder {
        let mut builder = Server::builder().scratch(scratch);
        if let Some(abi) = self.max_abi {
            builder = builder.arg("--max-abi").arg(abi.to_string());
        }
        if self.without_signal_scope {
            let wrapper = programs::without_landlock();
            builder = builder.under(&[wrapper.as_os_str(), "SIGNAL_SCOPE".as_ref()]);
        }
        builder
    }
}

/// A process that says who it is and answers lines: unsandboxed here.
#[derive(Debug)]
pub struct Plain {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    name: String,
}

impl Plain {
    fn start(hostile: &Path) -> Self {
        // In the one namespace of abstract sockets: of this process and, within it, of this arena.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hostile-plain-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let mut child = Command::new(hostile)
            .args(["victim", &name])
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin, stdout, name }
    }

    /// How many SIGURG have reached it.
    pub fn signals(&mut self) -> u64 {
        self.stdin.write_all(b"ping\n").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        count(&line)
    }

    /// Waits until a signal has ended it, and gives its number.
    pub fn ended_by(&mut self) -> Option<i32> {
        crate::found("the end of the process of the controls", || self.child.try_wait().unwrap()).signal()
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// From a victim's answer.
fn count(line: &str) -> u64 {
    line.trim().rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("a victim said {line:?}"))
}

/// One server and all around it.
#[derive(Debug)]
pub struct Arena {
    /// The server.
    pub server: Server,
    /// A session at it.
    pub client: Client,
    /// The process of the controls.
    pub plain: Plain,
    /// Who hears what leaks: over IPv4, and over IPv6 where there is some.
    pub listeners: Vec<Listeners>,
    /// The hostile program, where launches may execute it.
    pub hostile: PathBuf,
    places: BTreeMap<&'static str, String>,
    _socket: UnixListener,
    run_file: Option<PathBuf>,
    launches: u32,
}

impl Arena {
    /// Starts a server with this ceiling, and two launches in it that are to be attacked.
    pub async fn start(conditions: &Conditions, ceiling: &str) -> Self {
        Self::start_with(conditions, ceiling, "", &[]).await
    }

    /// The same, with more of a config, and roots to read beside the home.
    pub async fn start_with(conditions: &Conditions, ceiling: &str, more: &str, read_roots: &[&str]) -> Self {
        let scratch = Scratch::new();
        let (workspace, outside, state) = (scratch.workspace(), scratch.outside(), scratch.state());
        let (home, audit) = (scratch.home(), state.join("audit.jsonl"));
        for dir in [home.join(".ssh"), home.join(".aws"), home.join("project")] {
            fs::create_dir(dir).unwrap();
        }
        let hostile = workspace.join("hostile");
        for to in [&hostile, &outside.join("hostile")] {
            fs::copy(programs::hostile(), to).unwrap();
        }
        let socket = UnixListener::bind(outside.join("socket")).unwrap();
        symlink("nowhere", outside.join("link")).unwrap();
        let mut places = BTreeMap::from([
            ("workspace", workspace.display().to_string()),
            ("outside", outside.display().to_string()),
            ("home", home.display().to_string()),
            ("state", state.display().to_string()),
            ("token", state.join("e2e-token").display().to_string()),
            ("token_text", TOKEN.to_owned()),
            ("audit", audit.display().to_string()),
            ("tmp_file", format!("/tmp/hostile-new-{}", std::process::id())),
            ("shm_file", format!("/dev/shm/hostile-new-{}", std::process::id())),
        ]);
        reset(&places);
        // A client that waits for an attack on the other server answers no pings.
        let config = state.join("config.toml");
        fs::write(&config, format!("limits.pingSeconds = 3600\n{more}\n")).unwrap();
        let builder = conditions.builder(scratch);
        let builder = read_roots.iter().fold(builder, |builder, root| builder.arg("--read-root").arg(root));
        let server = builder
            .arg("--config")
            .arg(&config)
            .arg("--ceiling")
            .arg(ceiling)
            .arg("--read-root")
            .arg(&home)
            .arg("--audit-sink")
            .arg(format!("file:{}", audit.display()))
            .arg("--listen")
            .arg(format!("unix://{}/api.sock", state.display()))
            .start();
        let plain = Plain::start(&hostile);
        let listeners = Listeners::everywhere();
        if listeners.len() > 1 {
            places.insert("ipv6", Ipv6Addr::LOCALHOST.to_string());
        }
        places.insert("api", server.url().strip_prefix("ws://").unwrap().to_owned());
        places.insert("server", server.pid().to_string());
        places.insert("server_thread", a_thread_of(server.pid()).to_string());
        places.insert("plain", plain.child.id().to_string());
        places.insert("abstract", plain.name.clone());
        let run_file = ["/run/hostile-run-file", "/run/sandbox-sidecar/hostile-run-file"];
        let run_file = run_file.iter().find(|path| fs::write(path, "secret").is_ok()).map(PathBuf::from);
        if let Some(path) = run_file.clone().or_else(|| a_file_below(Path::new("/run"))) {
            places.insert("run_file", path.display().to_string());
        }
        let mut client = Client::open(&server).await;
        let name = format!("hostile-victim-{}", server.pid());
        let victim = launch(&hostile, &["victim", &name], "victim", "workspaceWriteNoNetwork");
        client.call("process/start", with(victim, "pipeStdin", json!(true))).await.unwrap();
        let line = output(&mut client, "victim").await;
        let (pid, shim) = line.trim().split_once(' ').unwrap();
        places.insert("victim", pid.to_owned());
        places.insert("victim_shim", shim.to_owned());
        let keeper = launch(&hostile, &["keep"], "keeper", "workspaceWriteNoNetwork");
        client.call("process/start", keeper).await.unwrap();
        let line = output(&mut client, "keeper").await;
        let (private, terminal) =
            line.trim_end().split_once(' ').unwrap_or_else(|| panic!("the keeper: {line}"));
        if !private.is_empty() {
            places.insert("private", private.to_owned());
        }
        places.insert("terminal", terminal.to_owned());
        Self { server, client, plain, listeners, hostile, places, _socket: socket, run_file, launches: 0 }
    }

    /// The words with their places filled in; `None` where there is no such place here.
    pub fn words(&self, words: &str) -> Option<Vec<String>> {
        filled(&self.places, words)
    }

    /// A place by its name.
    pub fn place(&self, name: &str) -> &str {
        &self.places[name]
    }

    /// Makes the files as they were.
    pub fn reset(&self) {
        reset(&self.places);
    }

    /// Starts the hostile program under a profile; gives the process id and the answer.
    pub async fn start_hostile(&mut self, words: &[String], profile: &str) -> (String, Result<Value, Value>) {
        self.launches += 1;
        let process = format!("attack-{}", self.launches);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let params = launch(&self.hostile, &words, &process, profile);
        let answer = self.client.call("process/start", params).await;
        (process, answer)
    }

    /// Runs the hostile program under a profile: its receipt, and what it printed.
    pub async fn attack(&mut self, words: &[String], profile: &str) -> (String, Value, String) {
        let (process, answer) = self.start_hostile(words, profile).await;
        let answer = answer.unwrap_or_else(|error| panic!("{words:?} was not started: {error}"));
        let finished = self.client.finish(&process).await;
        (process, answer["enforcement"].clone(), said(&finished))
    }

    /// Runs the hostile program without the sandbox, as this user.
    pub fn control(&self, words: &[String]) -> String {
        self.control_in(words, "/tmp")
    }

    /// The same with another TMPDIR.
    pub fn control_in(&self, words: &[String], tmp: impl AsRef<OsStr>) -> String {
        unconfined(&self.hostile, words, tmp)
    }

    /// How many SIGURG have reached the victim; it answers, so it lives.
    pub async fn victim_signals(&mut self) -> u64 {
        let params = json!({"processId": "victim", "chunk": encode("ping\n")});
        self.client.call("process/write", params).await.unwrap();
        count(&output(&mut self.client, "victim").await)
    }

    /// What is wrong with the server after a launch; empty where nothing is.
    pub async fn damage(&mut self, process: &str) -> String {
        let status = self.client.call("environment/status", json!({})).await;
        if !status.as_ref().is_ok_and(|status| status["status"] == "ready") {
            return format!("the server says {status:?}");
        }
        if fs::read_to_string(self.place("token")).ok().as_deref() != Some(&format!("{TOKEN}\n")) {
            return "the token is changed".into();
        }
        self.victim_signals().await;
        // The trail is written behind the answers. `launch` comes before `exit`, and that before what comes now.
        let needle = format!("\"process_id\":\"{process}\"");
        let give_up = tokio::time::Instant::now() + crate::GIVE_UP;
        loop {
            let trail = fs::read(self.place("audit")).unwrap_or_default();
            let trail = String::from_utf8_lossy(&trail);
            let has = |event: &str| {
                trail.lines().any(|l| l.contains(&needle) && l.contains(&format!("\"event\":\"{event}\"")))
            };
            if has("launch") && has("exit") {
                return String::new();
            }
            if tokio::time::Instant::now() > give_up {
                return "the audit trail lacks its records".into();
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(path) = &self.run_file {
            let _ = fs::remove_file(path);
        }
    }
}

/// What a finished attack has said: its line, or the signal that ended it.
pub fn said(finished: &Finished) -> String {
    let text = finished.stdout.trim();
    match (text, finished.code()) {
        ("", 159) => "SIGSYS".to_owned(),
        ("", code) => format!("exit {code} {}", finished.stderr.trim()),
        (text, _) => text.to_owned(),
    }
}

/// Words with the places in braces filled in; `None` where there is no such place.
pub(super) fn filled(places: &BTreeMap<&str, String>, words: &str) -> Option<Vec<String>> {
    let fill = |word: &str| {
        let mut filled = word.to_owned();
        for (name, place) in places {
            filled = filled.replace(&format!("{{{name}}}"), place);
        }
        (!filled.contains('{')).then_some(filled)
    };
    words.split(' ').map(fill).collect()
}

/// What the hostile program says without the sandbox, as this user; how it ended where it says nothing.
pub(super) fn unconfined(hostile: &Path, words: &[String], tmp: impl AsRef<OsStr>) -> String {
    let mut command = Command::new(hostile);
    command.args(words).env_clear().env("TMPDIR", tmp).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.is_empty() { format!("{}", output.status) } else { text }
}

pub(super) async fn output(client: &mut Client, process: &str) -> String {
    let chunk = client.of_process(process, "output").await;
    String::from_utf8(decode(&chunk["chunk"])).unwrap()
}

fn with(mut params: Value, name: &str, value: Value) -> Value {
    params[name] = value;
    params
}

pub(super) fn launch(hostile: &Path, words: &[&str], process: &str, profile: &str) -> Value {
    let argv: Vec<&str> = std::iter::once(hostile.to_str().unwrap()).chain(words.iter().copied()).collect();
    json!({
        "processId": process, "argv": argv, "cwd": hostile.parent().unwrap(), "env": {"PATH": "/usr/bin:/bin"},
        "tty": matches!(words.first(), Some(&("keep" | "own-terminal"))), "sandbox": {"mode": profile},
    })
}

/// The files that attacks change or make.
fn reset(places: &BTreeMap<&'static str, String>) {
    let at = |place: &str, path: &str| Path::new(&places[place]).join(path);
    let workspace = at("workspace", "");
    let outside = at("outside", "");
    for path in [
        workspace.join("new"),
        outside.join("new"),
        places["tmp_file"].clone().into(),
        places["shm_file"].clone().into(),
    ] {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir(&path);
    }
    let _ = fs::create_dir(outside.join("empty"));
    let token = Path::new(&places["token"]);
    if fs::read_to_string(token).is_ok_and(|text| text != format!("{TOKEN}\n")) {
        fs::write(token, format!("{TOKEN}\n")).unwrap();
    }
    for path in [
        workspace.join("file"),
        outside.join("secret"),
        at("home", ".ssh/id"),
        at("home", ".aws/credentials"),
        at("home", ".netrc"),
        at("home", "project/file"),
    ] {
        if fs::read(&path).is_ok_and(|bytes| bytes == b"content") {
            continue;
        }
        fs::write(&path, "content").unwrap();
        // Anybody may: only the sandbox is in the way.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    }
}

fn a_thread_of(pid: u32) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut ids = tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.find(|id| *id != pid).expect("the server has more than one thread")
}

fn a_file_below(dir: &Path) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.into_iter().find_map(|path| {
        let kind = path.symlink_metadata().ok()?.file_type();
        if kind.is_dir() {
            a_file_below(&path)
        } else {
            (kind.is_file() && fs::File::open(&path).is_ok()).then_some(path)
        }
    })
}
