//! A sandboxed launch against `posix_spawn` with three pipes, interleaved in one run, as a ratio of medians.
//!
//! `cargo bench -p sidecar-sandbox`. The absolute figures are this machine's; the ratio is what carries over.

#![allow(clippy::unwrap_used, reason = "a bench")]

use std::ffi::CString;
use std::process::{Command as StdCommand, Stdio as StdStdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sidecar_sandbox::{Command, Limits, Options, Prepared, Request, Roots, Sandbox, Stdio};

const PROGRAM: &str = "/bin/true";
const ROUNDS: usize = 400;

fn main() {
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let sandbox = Sandbox::start(Options::new(Roots {
        workspace: workspace.path().to_owned(),
        home: None,
        tmp: "/tmp".into(),
        read_roots: vec![],
        write_roots: vec![],
        protected: vec![],
    }))
    .unwrap();
    // The same work in each round, one after the other, so that the machine's drift hits both alike.
    let (mut plain, mut started, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let baseline = spawn();
        let prepared = sandbox.prepare(&Request::Default).unwrap();
        let (start, end) = launch(&sandbox, &prepared, workspace.path());
        if round >= ROUNDS / 10 {
            plain.push(baseline);
            started.push(start);
            ended.push(end);
        }
    }
    let baseline = median(&mut plain);
    println!("{:<44} {:>10} {:>7}", "start to exit of /bin/true, three pipes", "p50", "ratio");
    report("posix_spawn", baseline, baseline);
    let start = median(&mut started);
    println!("{:<44} {:>7} us", "sandboxed, until the exec has succeeded", start.as_micros());
    report("sandboxed: prepare, launch, exit, tree gone", median(&mut ended), baseline);
}

fn report(what: &str, value: Duration, baseline: Duration) {
    let ratio = value.as_secs_f64() / baseline.as_secs_f64();
    println!("{what:<44} {:>7} us {ratio:>7.2}", value.as_micros());
}

fn median(values: &mut [Duration]) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// std takes posix_spawn where nothing is to be done between fork and exec.
fn spawn() -> Duration {
    let begin = Instant::now();
    let mut child = StdCommand::new(PROGRAM)
        .stdin(StdStdio::piped())
        .stdout(StdStdio::piped())
        .stderr(StdStdio::piped())
        .spawn()
        .unwrap();
    child.wait().unwrap();
    begin.elapsed()
}

fn launch(
    sandbox: &Sandbox,
    prepared: &std::sync::Arc<Prepared>,
    cwd: &std::path::Path,
) -> (Duration, Duration) {
    let begin = Instant::now();
    let command = Command {
        argv: vec![CString::new(PROGRAM).unwrap()],
        arg0: None,
        env: std::env::vars_os().collect(),
        cwd: cwd.to_owned(),
        stdio: Stdio::Pipes { stdin: true },
        limits: Limits::default(),
    };
    let launched = sandbox.launch(prepared, command).unwrap();
    let started = begin.elapsed();
    poll(&mut [PollFd::new(launched.child.tree_event(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
    launched.child.reap();
    (started, begin.elapsed())
}
