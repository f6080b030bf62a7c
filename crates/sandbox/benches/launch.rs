//! Cost of a launch of `/bin/true` with three pipes: by `posix_spawn`, and in the sandbox until its whole tree is gone.

#![allow(clippy::unwrap_used, reason = "a bench")]

use std::ffi::CString;
use std::process::{Command as StdCommand, Stdio as StdStdio};

use divan::Bencher;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sidecar_sandbox::{Command, Limits, Options, Request, Roots, Sandbox, Stdio};
use tempfile::TempDir;

const PROGRAM: &str = "/bin/true";

fn main() {
    divan::main();
}

/// std takes `posix_spawn` where nothing is to be done between fork and exec.
#[divan::bench]
fn posix_spawn() {
    let mut command = StdCommand::new(PROGRAM);
    command.stdin(StdStdio::piped()).stdout(StdStdio::piped()).stderr(StdStdio::piped());
    command.spawn().unwrap().wait().unwrap();
}

fn sandbox() -> (TempDir, Sandbox) {
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let roots = Roots {
        workspace: workspace.path().to_owned(),
        home: None,
        tmp: "/tmp".into(),
        read_roots: vec![],
        write_roots: vec![],
        protected: vec![],
    };
    (workspace, Sandbox::start(Options::new(roots)).unwrap())
}

/// The check that a prepared policy still holds.
#[divan::bench]
fn prepare(bencher: Bencher<'_, '_>) {
    let (_workspace, sandbox) = sandbox();
    bencher.bench_local(|| sandbox.prepare(&Request::Default).unwrap());
}

#[divan::bench]
fn launch(bencher: Bencher<'_, '_>) {
    let (workspace, sandbox) = sandbox();
    bencher.bench_local(|| {
        let prepared = sandbox.prepare(&Request::Default).unwrap();
        let command = Command {
            argv: vec![CString::new(PROGRAM).unwrap()],
            arg0: None,
            env: std::env::vars_os().collect(),
            cwd: workspace.path().to_owned(),
            stdio: Stdio::Pipes { stdin: true },
            limits: Limits::default(),
        };
        let launched = sandbox.launch(&prepared, command).unwrap();
        poll(&mut [PollFd::new(launched.child.tree_event(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        launched.child.reap();
    });
}
