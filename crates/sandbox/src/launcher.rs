//! The launcher threads: one per filter class, with no capabilities, no_new_privs and the seccomp filters on that thread
//! alone, so that whatever it creates inherits them. It clones shims and never waits for one. One of the files where
//! `unsafe` is allowed.

#![allow(unsafe_code, reason = "clones the shim")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, mpsc};

use caps::{CapSet, Capability};
use nix::sys::prctl;
use nix::sys::signal::SigSet;

use crate::error::Error;
use crate::orphans::Shims;
use crate::plan::Plan;
use crate::seccomp::{self, Class, Sockets};
use crate::shim;
use crate::sys::clone_call;

/// A shim that was created and waits for its first order.
#[derive(Debug)]
pub(crate) struct Shim {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// A thread that clones shims of one class. Ends when the last handle is gone.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    jobs: mpsc::Sender<Job>,
}

enum Job {
    Clone { plan: Arc<Plan>, reply: mpsc::Sender<io::Result<Shim>> },
    Answer(mpsc::Sender<()>),
}

impl Launcher {
    /// Starts the thread; returns once its filters are in place.
    ///
    /// # Errors
    /// A filter or a capability could not be set: nothing may be launched then.
    pub(crate) fn start(class: Class, shims: Shims) -> Result<Self, Error> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (ready, is_ready) = mpsc::channel();
        let name = format!(
            "launch{}{}",
            match class.sockets {
                Sockets::Unix => "",
                Sockets::Tcp => "-tcp",
                Sockets::All => "-net",
            },
            if class.read_only { "-ro" } else { "" }
        );
        std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let set_up = confine(class);
                let failed = set_up.is_err();
                // Nobody to tell means that the starter is gone, and with it the jobs.
                let _ = ready.send(set_up);
                if failed {
                    return;
                }
                for job in inbox {
                    match job {
                        Job::Clone { plan, reply } => drop(reply.send(shims.add(|| clone_shim(&plan)))),
                        Job::Answer(reply) => drop(reply.send(())),
                    }
                }
            })
            .map_err(|source| Error::Kernel { step: "launcher thread".into(), source })?;
        is_ready.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Self { jobs })
    }

    /// Creates the shim of one launch. Blocking, for the time of one clone.
    ///
    /// # Errors
    /// The kernel's, for clone.
    pub(crate) fn spawn(&self, plan: Arc<Plan>) -> io::Result<Shim> {
        self.ask(|reply| Job::Clone { plan, reply })?
    }

    /// Whether the thread takes jobs.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn answer(&self) -> io::Result<()> {
        self.ask(Job::Answer)
    }

    fn ask<T>(&self, job: impl FnOnce(mpsc::Sender<T>) -> Job) -> io::Result<T> {
        let (reply, answer) = mpsc::channel();
        let lost = || io::Error::other("the launcher thread is gone");
        self.jobs.send(job(reply)).map_err(|_| lost())?;
        answer.recv().map_err(|_| lost())
    }
}

fn gone() -> Error {
    Error::Kernel { step: "launcher thread".into(), source: io::Error::other("it ended before it was ready") }
}

fn confine(class: Class) -> Result<(), Error> {
    let step = |step: &str, e: nix::Error| Error::Kernel { step: step.into(), source: e.into() };
    // For life: a handler of the server's must not run in a shim, on shared memory.
    SigSet::all().thread_block().map_err(|e| step("block signals", e))?;
    drop_privileges()?;
    for program in seccomp::compile(class, std::process::id() as i32)? {
        seccompiler::apply_filter(&program)
            .map_err(|e| Error::Kernel { step: "seccomp".into(), source: io::Error::other(e.to_string()) })?;
    }
    Ok(())
}

/// no_new_privs and no capabilities, for the calling thread and whatever it creates.
///
/// # Errors
/// The kernel refused: the thread must not be used.
pub(crate) fn drop_privileges() -> Result<(), Error> {
    let caps_error = |e: caps::errors::CapsError| Error::Kernel {
        step: "drop capabilities".into(),
        source: io::Error::other(e.to_string()),
    };
    prctl::set_no_new_privs().map_err(|e| Error::Kernel { step: "no_new_privs".into(), source: e.into() })?;
    // Without CAP_SETPCAP the bounding set cannot be changed; no_new_privs makes it meaningless then.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).map_err(caps_error)? {
        caps::clear(None, CapSet::Bounding).map_err(caps_error)?;
    }
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Inheritable, CapSet::Permitted] {
        caps::clear(None, set).map_err(caps_error)?;
    }
    Ok(())
}

/// Whether the calling thread has no capability in effect.
pub(crate) fn is_unprivileged() -> bool {
    caps::read(None, CapSet::Effective).is_ok_and(|effective| effective.is_empty())
}

fn clone_shim(plan: &Arc<Plan>) -> io::Result<Shim> {
    // The table of descriptors is shared at first: the shim copies what it keeps of it, and this thread goes on meanwhile.
    let flags = (libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_PIDFD | libc::SIGCHLD) as usize;
    let mut pidfd = -1i32;
    let arg = Arc::as_ptr(plan).cast_mut().cast();
    // SAFETY: the stack belongs to the plan, which whoever gets the shim keeps until it is reaped, as
    // what it names by descriptor is lent to it until it has copies; all signals are blocked on this thread.
    let ret = unsafe { clone_call(flags, plan.stacks.top(0), &raw mut pidfd, shim::shim_main, arg) };
    if ret < 0 {
        return Err(io::Error::from_raw_os_error(-ret as i32));
    }
    // SAFETY: CLONE_PIDFD made a fresh descriptor.
    Ok(Shim { pid: ret as i32, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}
