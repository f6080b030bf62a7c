//! The launch inside a daemon: the sandbox's library in a process of its own, with as much memory as it is told.

use std::ffi::CString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sidecar_sandbox::{Limits, Options, Request, Roots, Sandbox, Stdio as SandboxStdio};

use crate::baseline;
use crate::process::TRUE;

/// The argument that makes this program such a daemon, before its ballast in MiB.
pub(crate) const FLAG: &str = "--within";

/// A daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Daemon {
    /// With so much memory in use.
    pub(crate) fn start(mib: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(FLAG).arg(mib.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let answers = BufReader::new(child.stdout.take().context("its stdout")?);
        let orders = child.stdin.take();
        Ok(Self { child, orders, answers })
    }

    /// One `posix_spawn` and one launch there, seconds each.
    pub(crate) fn round(&mut self) -> anyhow::Result<(f64, f64)> {
        self.orders.as_mut().context("its orders")?.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let (spawn, launch) = line.trim().split_once(' ').context("the daemon has ended")?;
        Ok((spawn.parse()?, launch.parse()?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The end of its orders is the end of it.
        self.orders = None;
        let _ = self.child.wait();
    }
}

/// Is the daemon: a round for each line of stdin.
pub(crate) fn serve(mib: usize) -> anyhow::Result<()> {
    let ballast = vec![1_u8; mib << 20];
    let workspace = tempfile::tempdir_in("/var/tmp")?;
    let sandbox = Sandbox::start(Options::new(Roots {
        workspace: workspace.path().to_owned(),
        home: None,
        tmp: "/tmp".into(),
        read_roots: vec![],
        write_roots: vec![],
        protected: vec![],
    }))?;
    for line in std::io::stdin().lines() {
        line?;
        let (spawn, launch) = (baseline::spawn()?, launch(&sandbox, workspace.path())?);
        println!("{} {}", spawn.as_secs_f64(), launch.as_secs_f64());
    }
    std::hint::black_box(ballast);
    Ok(())
}

/// As the server does it: the check of the prepared policy, the launch, the wait until the whole tree is gone.
fn launch(sandbox: &Sandbox, cwd: &std::path::Path) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let prepared = sandbox.prepare(&Request::Default)?;
    let command = sidecar_sandbox::Command {
        argv: vec![CString::new(TRUE)?],
        arg0: None,
        env: std::env::vars_os().collect(),
        cwd: cwd.to_owned(),
        stdio: SandboxStdio::Pipes { stdin: true },
        limits: Limits::default(),
    };
    let launched = sandbox.launch(&prepared, command)?;
    poll(&mut [PollFd::new(launched.child.tree_event(), PollFlags::POLLIN)], PollTimeout::NONE)?;
    launched.child.reap();
    Ok(begin.elapsed())
}
