//! A running `sandbox-sidecar`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{GIVE_UP, Scratch, programs};

/// The token of a server that asks for one.
pub const TOKEN: &str = "e2e-0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab";

/// How to start one.
#[derive(Debug, Default)]
pub struct Builder {
    scratch: Scratch,
    insecure: bool,
    signed: bool,
    tls: bool,
    args: Vec<OsString>,
    wrapper: Vec<OsString>,
}

impl Builder {
    /// In these folders.
    pub fn scratch(mut self, scratch: Scratch) -> Self {
        self.scratch = scratch;
        self
    }

    /// Without a token.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// With tokens that are signed, as its config says, instead of the one in a file.
    pub fn signed(mut self) -> Self {
        self.signed = true;
        self
    }

    /// Over TLS, with the certificate of its config.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// With one more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// With a config file that holds this.
    pub fn config(self, text: &str) -> Self {
        let file = self.scratch.state().join("config.toml");
        fs::write(&file, text).unwrap();
        self.arg("--config").arg(file)
    }

    /// Under another program, which gets the server's command line as its last arguments.
    pub fn under(mut self, wrapper: &[&OsStr]) -> Self {
        self.wrapper = wrapper.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts it and waits until it listens.
    pub fn start(self) -> Server {
        let mut words = self.wrapper.into_iter().chain([programs::sandbox_sidecar().into()]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .arg("serve")
            .args(["--listen", if self.tls { "wss://127.0.0.1:0" } else { "ws://127.0.0.1:0" }]);
        command.args(["--admin-listen", "127.0.0.1:0"]);
        command.arg("--workspace-root").arg(self.scratch.workspace());
        if self.insecure {
            command.arg("--insecure-no-auth");
        } else if !self.signed {
            let file = self.scratch.state().join("e2e-token");
            fs::write(&file, format!("{TOKEN}\n")).unwrap();
            command.arg("--token-file").arg(file);
        }
        command.args(self.args);
        clean_environment(&mut command, &self.scratch);
        Server::spawn(command, self.scratch, self.insecure)
    }
}

/// The variables that a server or a one-shot command of a test sees.
pub fn clean_environment(command: &mut Command, scratch: &Scratch) {
    command.env_clear();
    for name in ["PATH", "LANG", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("HOME", scratch.home()).env("SANDBOX_SIDECAR_STATE", scratch.state());
}

/// A running server; ended on drop, its folders removed then.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
    insecure: bool,
    scratch: Scratch,
    log: Arc<Log>,
    /// Closed by the thread that reads stderr, at its end: the server has gone then.
    gone: Receiver<()>,
}

impl Server {
    /// With a token, in new folders.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// To be told more.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn spawn(mut command: Command, scratch: Scratch, insecure: bool) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let log = Arc::new(Log::default());
        let (alive, gone) = mpsc::channel();
        let stderr = child.stderr.take().unwrap();
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            collect(stderr, &sink);
            drop(alive);
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, url: String::new(), insecure, scratch, log, gone };
        stdout.read_line(&mut server.url).unwrap();
        server.url.truncate(server.url.trim_end().len());
        assert!(server.url.contains("://127.0.0.1:"), "the first line of stdout is {:?}", server.url);
        server
    }

    /// `ws://127.0.0.1:PORT`, as the server printed it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `ws://127.0.0.1:PORT` of the admin port, from the log line that tells it.
    pub fn admin_url(&self) -> String {
        const LINE: &str = "metrics and health are served here";
        self.wait_for_log(LINE);
        let log = self.log();
        let line = log.lines().find(|line| line.contains(LINE)).unwrap();
        let address = &line[line.find("127.0.0.1:").unwrap()..];
        format!("ws://{}", &address[..address.find(['"', ' ']).unwrap_or(address.len())])
    }

    /// The token, where it asks for one.
    pub fn token(&self) -> Option<&'static str> {
        (!self.insecure).then_some(TOKEN)
    }

    /// The process that was started: the server, or the wrapper that it is under.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Sends SIGTERM and waits for the end; kills it if that does not come.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // It is not reaped yet, so the pid is still its own.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        if self.gone.recv_timeout(GIVE_UP) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = self.child.kill();
        }
        self.child.wait()
    }

    /// Its folders.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Its workspace root.
    pub fn workspace(&self) -> PathBuf {
        self.scratch.workspace()
    }

    /// What it has written to stderr so far.
    pub fn log(&self) -> String {
        self.log.text.lock().unwrap().clone()
    }

    /// Waits until it has written `text` to stderr.
    pub fn wait_for_log(&self, text: &str) {
        let log = self.log.text.lock().unwrap();
        let (log, waited) =
            self.log.grown.wait_timeout_while(log, GIVE_UP, |log| !log.contains(text)).unwrap();
        assert!(!waited.timed_out(), "{text:?} never came: {log}");
    }
}

/// What a server has written to stderr.
#[derive(Debug, Default)]
struct Log {
    text: Mutex<String>,
    grown: Condvar,
}

fn collect(stderr: impl Read, log: &Log) {
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let mut text = log.text.lock().unwrap();
        text.push_str(&String::from_utf8_lossy(&line));
        text.push('\n');
        log.grown.notify_all();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop();
        if std::thread::panicking() {
            eprintln!("--- the server's stderr\n{}---", self.log());
        }
    }
}
