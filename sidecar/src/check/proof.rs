//! The proof of one profile: launches that must succeed and launches that must fail.
//!
//! A denial proves nothing where the act would have failed anyway, so the sidecar first does itself what is to be
//! denied, and leaves the step out where it cannot.

use std::ffi::CString;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use sidecar_sandbox::{
    Command, Error, Io, LaunchError, LaunchErrorKind, Launched, Limits, Network, Prepared, Profile, Receipt,
    Request, Sandbox, Stdio,
};

use super::{Act, PROBE};

/// How long one launch may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Most of stderr that is kept.
const MAX_STDERR: u64 = 4096;

/// What was tried under one profile.
#[derive(Debug)]
pub struct Proof {
    /// The profile.
    pub profile: Profile,
    /// What its launches say is enforced; `None` where they are refused.
    pub receipt: Option<Receipt>,
    /// What was tried.
    pub steps: Vec<Step>,
    /// Why nothing could be tried.
    pub refused: Option<String>,
}

/// One act that was tried.
#[derive(Debug)]
pub struct Step {
    /// The act, in words.
    pub what: String,
    /// What had to happen.
    pub expected: Expected,
    /// What happened: the error of the act, or `None`.
    pub error: Option<String>,
}

/// What has to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The act succeeds.
    Allowed,
    /// The act is denied.
    Denied,
}

impl Step {
    /// Whether it happened as expected.
    pub fn holds(&self) -> bool {
        (self.expected == Expected::Denied) == self.error.is_some()
    }
}

impl Proof {
    /// Whether everything happened as expected.
    pub fn holds(&self) -> bool {
        self.refused.is_none() && self.steps.iter().all(Step::holds)
    }

    /// What did not hold, in one line.
    pub fn failure(&self) -> Option<String> {
        if let Some(refused) = &self.refused {
            return Some(refused.clone());
        }
        let step = self.steps.iter().find(|step| !step.holds())?;
        Some(match &step.error {
            None => format!("{}: it was to be denied, and was not", step.what),
            Some(error) => format!("{}: {error}", step.what),
        })
    }
}

pub(super) fn prove(sandbox: &Sandbox, profile: Profile, prober: Option<&Path>) -> Proof {
    let mut proof = Proof { profile, receipt: None, steps: Vec::new(), refused: None };
    match try_all(sandbox, prober, &mut proof) {
        Ok(()) => {}
        Err(Failure::Policy(e)) => proof.refused = Some(e.to_string()),
        Err(Failure::Launch(e)) => proof.refused = Some(format!("{e} (stage {})", e.stage.name())),
        Err(Failure::Io(e)) => proof.refused = Some(format!("the launch cannot be followed: {e}")),
    }
    proof
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Policy(#[from] Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn try_all(sandbox: &Sandbox, prober: Option<&Path>, proof: &mut Proof) -> Result<(), Failure> {
    let confined = proof.profile != Profile::None;
    let request = if confined { Request::Profile(proof.profile.clone()) } else { Request::Ceiling };
    let runner = Runner { sandbox, prepared: sandbox.prepare(&request)?, prober };
    let workspace = &sandbox.options().roots.workspace;

    let mut attempt = |what: String, expected, act, path: &Path| -> Result<(), Failure> {
        // Without a program that can try it, it is not tried.
        if let Some((receipt, error)) = runner.run(act, path)? {
            proof.receipt = Some(receipt);
            proof.steps.push(Step { what, expected, error });
        }
        Ok(())
    };
    attempt(String::from("list the workspace"), Expected::Allowed, Act::List, workspace)?;
    if Act::List.perform(Path::new("/")).is_ok() && confined {
        attempt(String::from("list /"), Expected::Denied, Act::List, Path::new("/"))?;
    }
    let writes = runner.prepared.explain(workspace).access.write;
    if let Some(file) = writable_file(workspace) {
        let expected = if writes { Expected::Allowed } else { Expected::Denied };
        attempt(String::from("write to the workspace"), expected, Act::Write, file.path())?;
    }
    if confined && let Some(file) = outside(&runner.prepared, sandbox) {
        let dir = file.path().parent().unwrap_or(Path::new("/")).display();
        attempt(format!("write to {dir}"), Expected::Denied, Act::Write, file.path())?;
    }
    if let Some((_listener, address)) = reachable() {
        let expected = match &runner.prepared.receipt().network {
            Network::Open => Expected::Allowed,
            Network::None => Expected::Denied,
            Network::Ports(ports) => match &ports.connect {
                Some(listed) if !listed.contains(&address.port()) => Expected::Denied,
                _ => Expected::Allowed,
            },
        };
        let what = format!("connect to {address}");
        attempt(what, expected, Act::Connect, Path::new(&address.to_string()))?;
    }
    Ok(())
}

/// A listener of the sidecar's own, which it can connect to itself.
fn reachable() -> Option<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let address = listener.local_addr().ok()?;
    Act::Connect.perform(Path::new(&address.to_string())).ok()?;
    Some((listener, address))
}

/// A file that the sidecar itself could make; removed when dropped.
fn writable_file(dir: &Path) -> Option<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(".sidecar-check-").tempfile_in(dir).ok()
}

/// A file outside everything that the policy grants to write, which the sidecar itself can write.
fn outside(prepared: &Prepared, sandbox: &Sandbox) -> Option<tempfile::NamedTempFile> {
    let roots = &sandbox.options().roots;
    let fixed = ["/var/tmp", "/dev/shm", "/run"].map(PathBuf::from);
    let beside = roots.workspace.parent().map(Path::to_owned);
    let places = roots.protected.iter().cloned().chain(fixed).chain(roots.home.clone()).chain(beside);
    places
        .filter(|dir| dir.is_dir() && !prepared.explain(dir).access.write)
        .find_map(|dir| writable_file(&dir))
}

struct Runner<'a> {
    sandbox: &'a Sandbox,
    prepared: Arc<Prepared>,
    prober: Option<&'a Path>,
}

impl Runner<'_> {
    /// What was enforced, and the error of the act where it failed; nothing where no program can try it.
    fn run(&self, act: Act, target: &Path) -> Result<Option<(Receipt, Option<String>)>, Failure> {
        let launched = match self.prober.map(|prober| self.launch(&own(prober, act), target)) {
            // Outside the image's usual folders launches may not execute it.
            Some(Err(e))
                if matches!(e.kind, LaunchErrorKind::PermissionDenied | LaunchErrorKind::ProgramNotFound) =>
            {
                None
            }
            launched => launched,
        };
        let by_shell = || act.script().map(|script| self.launch(&shell(script), target));
        let Some(launched) = launched.or_else(by_shell).transpose()? else { return Ok(None) };
        let receipt = launched.receipt.clone();
        Ok(Some((receipt, finish(launched)?)))
    }

    fn launch(&self, argv: &[&[u8]], target: &Path) -> Result<Launched, LaunchError> {
        let argv = argv.iter().copied().chain([target.as_os_str().as_bytes()]);
        let command = Command {
            // Names of this module, paths and an address; neither holds a NUL byte.
            argv: argv.map(|arg| CString::new(arg).unwrap_or_default()).collect(),
            arg0: None,
            env: Vec::new(),
            cwd: self.sandbox.options().roots.workspace.clone(),
            stdio: Stdio::Pipes { stdin: false },
            limits: Limits::default(),
        };
        self.sandbox.launch(&self.prepared, command)
    }
}

fn own(prober: &Path, act: Act) -> [&[u8]; 3] {
    [prober.as_os_str().as_bytes(), PROBE.as_bytes(), act.name().as_bytes()]
}

fn shell(script: &'static str) -> [&'static [u8]; 4] {
    [b"/bin/sh", b"-c", script.as_bytes(), b"sh"]
}

/// Waits for the end. Gives what the command said where it failed.
fn finish(launched: Launched) -> io::Result<Option<String>> {
    let Launched { child, io, .. } = launched;
    let exited = wait(child.exit_event());
    child.signal_tree(nix::sys::signal::Signal::SIGKILL as i32)?;
    wait(child.tree_event())?;
    let exit = child.reap();
    exited?;
    if exit.code == 0 {
        return Ok(None);
    }
    let said = match io {
        Io::Pipes { stderr, .. } => said(stderr),
        Io::Pty(_) => String::new(),
    };
    Ok(Some(if said.is_empty() { format!("exit code {}", exit.code) } else { said }))
}

fn wait(event: impl AsFd) -> io::Result<()> {
    let timeout = Timespec::try_from(LIMIT).map_err(io::Error::other)?;
    let mut fds = [PollFd::new(&event, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&timeout)))?;
    if ready == 0 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// Its last line. The command is gone, so this does not block.
fn said(stderr: OwnedFd) -> String {
    let mut text = Vec::new();
    // An error ends the text as EOF does.
    let _ = std::fs::File::from(stderr).take(MAX_STDERR).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    text.lines().last().unwrap_or_default().trim().to_owned()
}
