//! A workspace, an outside, and a way to run one command to its end.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test helper")]

pub(crate) mod processes;

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sidecar_sandbox::{
    Child, Command, Exit, Io, LaunchError, Limits, Options, Request, Roots, Sandbox, Stdio,
};
use tempfile::TempDir;

/// A sandbox with a workspace of its own, and a directory beside it that no policy grants.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) home: PathBuf,
    _dirs: Vec<TempDir>,
}

/// What a command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Where the worlds of a program that will be killed go: its parent removes them.
pub(crate) const BASE: &str = "SANDBOX_TEST_BASE";

/// /var/tmp and not /tmp: that one is granted.
fn dir() -> TempDir {
    let base = std::env::var_os(BASE).unwrap_or_else(|| "/var/tmp".into());
    tempfile::Builder::new().prefix("sandbox-test-").tempdir_in(base).unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dirs = vec![dir(), dir(), dir()];
        let [workspace, outside, home] = [0, 1, 2].map(|n: usize| dirs[n].path().canonicalize().unwrap());
        let roots = Roots {
            workspace: workspace.clone(),
            home: Some(home.clone()),
            tmp: "/tmp".into(),
            read_roots: vec![],
            write_roots: vec![],
            protected: vec![],
        };
        let mut options = Options::new(roots);
        change(&mut options);
        let sandbox = Sandbox::start(options).unwrap();
        World { sandbox, workspace, outside, home, _dirs: dirs }
    }

    pub(crate) fn command(&self, argv: &[&str]) -> Command {
        Command {
            argv: argv.iter().map(|a| CString::new(*a).unwrap()).collect(),
            arg0: None,
            env: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), self.home.clone().into()),
            ],
            cwd: self.workspace.clone(),
            stdio: Stdio::Pipes { stdin: false },
            limits: Limits::default(),
        }
    }

    pub(crate) fn launch(&self, request: &Request, command: Command) -> Result<(Child, Io), LaunchError> {
        let prepared = self.sandbox.prepare(request).unwrap();
        self.sandbox.launch(&prepared, command).map(|l| (l.child, l.io))
    }

    /// Runs a shell script under the default profile.
    pub(crate) fn sh(&self, script: &str) -> Done {
        self.sh_under(&Request::Default, script)
    }

    pub(crate) fn sh_under(&self, request: &Request, script: &str) -> Done {
        let (child, io) = self.launch(request, self.command(&["/bin/sh", "-c", script])).unwrap();
        finish(child, io)
    }
}

/// Reads everything and reaps.
pub(crate) fn finish(child: Child, io: Io) -> Done {
    let Io::Pipes { stdin, stdout, stderr } = io else { panic!("pipes expected") };
    drop(stdin);
    let reader = std::thread::spawn(move || drain(stderr));
    let stdout = drain(stdout);
    let stderr = reader.join().unwrap();
    wait(child.tree_event());
    Done { exit: child.reap(), stdout: lossy(&stdout), stderr: lossy(&stderr) }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn wait(event: impl AsFd) {
    poll(&mut [PollFd::new(event.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
}

/// Everything until EOF; EIO is a terminal's.
pub(crate) fn drain(fd: OwnedFd) -> Vec<u8> {
    let mut file = File::from(fd);
    let mut out = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        wait(&file);
        match file.read(&mut buffer) {
            Ok(0) => return out,
            Ok(n) => out.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) if e.raw_os_error() == Some(libc::EIO) => return out,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Reads until the text has come.
pub(crate) fn read_until(fd: &OwnedFd, text: &str) -> String {
    let mut file = File::from(fd.try_clone().unwrap());
    let mut out = Vec::new();
    let mut buffer = [0; 4096];
    while !lossy(&out).contains(text) {
        wait(&file);
        let n = file.read(&mut buffer).unwrap();
        assert!(n > 0, "EOF before {text:?}: {}", lossy(&out));
        out.extend_from_slice(&buffer[..n]);
    }
    lossy(&out)
}

pub(crate) fn write_all(fd: &OwnedFd, bytes: &[u8]) {
    File::from(fd.try_clone().unwrap()).write_all(bytes).unwrap();
}
