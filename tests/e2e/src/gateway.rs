//! A running `agent-client gateway` on a port.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::server::clean_environment;
use crate::{Scratch, Server, programs};

/// The token that its clients show.
pub const TOKEN: &str = "gateway-0123456789abcdef";

/// A running gateway; ended on drop.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    /// Held open: a gateway that cannot write there would fail.
    _stdout: BufReader<ChildStdout>,
    url: String,
}

impl Gateway {
    /// To the sidecar at `sidecar_url`, for clients whose files are below `local_root`; with more arguments.
    pub fn start(sidecar_url: &str, scratch: &Scratch, local_root: &Path, args: &[&str]) -> Self {
        let token = scratch.state().join("gateway-token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut command = Command::new(programs::agent_client());
        clean_environment(&mut command, scratch);
        command.args(["gateway", "--listen", "ws://127.0.0.1:0", "--sidecar-url", sidecar_url]);
        command.arg("--listen-token-file").arg(token).arg("--local-root").arg(local_root);
        command.arg("--token-file").arg(scratch.state().join("e2e-token")).args(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        stdout.read_line(&mut url).unwrap();
        url.truncate(url.trim_end().len());
        assert!(url.starts_with("ws://127.0.0.1:"), "the first line of stdout is {url:?}");
        Self { child, _stdout: stdout, url }
    }

    /// `ws://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Asks it to end and waits until it has.
    pub fn stop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // It is not reaped yet, so the pid is still its own.
            let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A server that asks for a token, and a directory of a client's that the server is not told of.
pub fn apart() -> (Server, PathBuf) {
    let server = Server::start();
    let local = server.scratch().base().join("local copy/project");
    fs::create_dir_all(&local).unwrap();
    // What the CLI asks for in the workspace is answered from the server's side.
    fs::write(server.workspace().join("hello.txt"), "HELLO-FILE\n").unwrap();
    fs::write(server.workspace().join("AGENTS.md"), "Speak plainly.\n").unwrap();
    (server, local)
}
