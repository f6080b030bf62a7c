//! What the built server costs before anybody uses it: the binary's size, resident memory when idle, exec → listening.
//!
//! `make bench`, or `cargo bench -p sandbox-sidecar --bench footprint [--target …-musl]`.

#![allow(clippy::unwrap_used, reason = "a bench")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_sandbox-sidecar");
const ROUNDS: usize = 20;

/// A server that has printed its URL.
struct Server {
    child: Child,
    listening: Duration,
}

impl Server {
    fn start(workspace: &Path) -> Self {
        let begin = Instant::now();
        let mut child = Command::new(SERVER)
            .args([
                "serve",
                "--listen",
                "ws://127.0.0.1:0",
                "--admin-listen",
                "127.0.0.1:0",
                "--insecure-no-auth",
            ])
            .args(["--workspace-root", workspace.to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let url = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let listening = begin.elapsed();
        assert!(url.starts_with("ws://"), "{url}");
        Self { child, listening }
    }

    /// Once its proof that the sandbox holds is done: it says so in its log.
    fn idle_kib(&mut self) -> u64 {
        let mut log = BufReader::new(self.child.stderr.take().unwrap()).lines();
        assert!(log.any(|line| line.unwrap().contains("\"ready\"")), "it is ready");
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn main() {
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut listening: Vec<_> = (0..ROUNDS).map(|_| Server::start(workspace.path()).listening).collect();
    listening.sort_unstable();
    let idle = Server::start(workspace.path()).idle_kib();
    let size = std::fs::metadata(SERVER).unwrap().len();
    println!("{:<28} {:>8.2} MB", "binary", size as f64 / 1e6);
    println!("{:<28} {:>8.2} MB", "idle RSS", idle as f64 * 1024.0 / 1e6);
    println!(
        "{:<28} {:>8.2} ms (p50 of {ROUNDS})",
        "exec → listening",
        listening[ROUNDS / 2].as_secs_f64() * 1e3
    );
}
