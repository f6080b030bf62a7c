//! Starts commands under a prepared policy.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, LaunchError};
use crate::policy::{Options, Request};
use crate::prepared::Prepared;
use crate::probe::Kernel;

/// One sandbox per server: the kernel's probe, the prepared policies, the launcher threads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox {}

/// What to start.
#[derive(Debug)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<CString>,
    /// What the program sees as its own name, instead of `argv[0]`.
    pub arg0: Option<CString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Pipes or a terminal.
    pub stdio: Stdio,
}

/// What the command's standard descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Separate pipes.
    Pipes {
        /// Whether stdin is a pipe; /dev/null otherwise.
        stdin: bool,
    },
    /// A terminal.
    Pty {
        /// Lines.
        rows: u16,
        /// Columns.
        cols: u16,
    },
}

/// The server's ends, non-blocking and close-on-exec.
#[derive(Debug)]
pub enum Io {
    /// Separate pipes.
    Pipes {
        /// Write end, where stdin is a pipe.
        stdin: Option<OwnedFd>,
        /// Read end.
        stdout: OwnedFd,
        /// Read end.
        stderr: OwnedFd,
    },
    /// The terminal's master.
    Pty(OwnedFd),
}

/// A started command.
#[derive(Debug)]
pub struct Launched {
    /// The command and its tree.
    pub child: Child,
    /// The server's ends of its standard descriptors.
    pub io: Io,
    /// What was enforced for this very launch.
    pub receipt: crate::receipt::Receipt,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128+n by signal n.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// A command and its tree. Dropping it kills the tree.
#[derive(Debug)]
pub struct Child {}

impl Sandbox {
    /// Probes the kernel and starts the launcher threads.
    ///
    /// # Errors
    /// A root that is missing, a filter that the kernel refuses. Where Landlock is missing it starts all the same:
    /// [`Sandbox::prepare`] then refuses, so that the reason reaches whoever asks.
    pub fn start(_options: Options) -> Result<Sandbox, Error> {
        unimplemented!()
    }

    /// What this kernel and container can enforce.
    pub fn kernel(&self) -> &Kernel {
        unimplemented!()
    }

    /// The operator's choices.
    pub fn options(&self) -> &Options {
        unimplemented!()
    }

    /// Makes a policy ready, or gives the cached one where its roots are unchanged. Blocking: it looks at the roots.
    ///
    /// # Errors
    /// [`Error`]: the launch must be refused.
    pub fn prepare(&self, _request: &Request) -> Result<Arc<Prepared>, Error> {
        unimplemented!()
    }

    /// Starts a command; returns when its exec has succeeded or failed. Blocking.
    ///
    /// # Errors
    /// [`LaunchError`] with the stage that failed.
    pub fn launch(&self, _prepared: &Arc<Prepared>, _command: Command) -> Result<Launched, LaunchError> {
        unimplemented!()
    }

    /// Puts the calling thread under the policy for ever: capabilities dropped, no_new_privs, the same Landlock rules
    /// as a launch without the scopes. For threads that serve file operations.
    ///
    /// # Errors
    /// The thread must not be used then.
    pub fn confine_current_thread(&self, _prepared: &Prepared) -> Result<(), Error> {
        unimplemented!()
    }
}

impl Child {
    /// The command's pid.
    pub fn pid(&self) -> i32 {
        unimplemented!()
    }

    /// Becomes readable once the command itself has ended; stays so.
    pub fn exit_event(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }

    /// Becomes readable once the whole tree is gone (or whoever watches it has died: then [`Child::reap`] ends the
    /// tree); stays so.
    pub fn tree_event(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }

    /// How the command ended; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        unimplemented!()
    }

    /// Sends a signal to the command's process group; to the foreground group of its terminal where it has one. A gone
    /// process is no error.
    ///
    /// # Errors
    /// The OS refused for another reason.
    pub fn signal(&self, _signal: i32) -> io::Result<()> {
        unimplemented!()
    }

    /// Sends a signal to every process of the tree; SIGKILL is repeated until none is left. Returns at once.
    ///
    /// # Errors
    /// The order could not be given.
    pub fn signal_tree(&self, _signal: i32) -> io::Result<()> {
        unimplemented!()
    }

    /// After [`Child::tree_event`]: frees what the tree held. Blocking, up to some milliseconds. Gives the exit, made up
    /// as SIGKILL's where the watcher died before it could tell.
    pub fn reap(self) -> Exit {
        unimplemented!()
    }
}
