//! What an agent programs against: start a command, follow it, write to it, signal it, end it.
//!
//! The traits are for whoever wants to put something else in the sidecar's place; [`SidecarBackend`] serves a remote
//! sidecar and an embedded one alike.

mod sidecar;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use sidecar_protocol::process::{Enforcement, EnvPolicy, Inherit, Sandbox, Signal, Size, WaitResult};

pub use sidecar::SidecarBackend;

use crate::error::Error;
use crate::events::Events;

/// A command to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments; no shell is put in between.
    pub argv: Vec<String>,
    /// The working directory, an absolute local path below the local root.
    pub cwd: PathBuf,
    /// Variables on top of what `env_policy` leaves.
    pub env: BTreeMap<String, String>,
    /// How much of the *server's* environment the command gets; the local one is never sent. `None`: `env` is all.
    pub env_policy: Option<EnvPolicy>,
    /// A terminal of that size instead of pipes.
    pub tty: Option<Size>,
    /// Without a terminal: keep stdin open for [`ExecProcess::write`].
    pub pipe_stdin: bool,
    /// The sandbox to ask for, its paths as they are on the sidecar's side; `None` is the server's default. It can tighten what
    /// the operator allows, never loosen it.
    pub sandbox: Option<Sandbox>,
    /// Wall time that it may take; the server ends it with all that it started then.
    pub timeout: Option<Duration>,
    /// Notes for the server's audit trail, which has them as they are.
    pub metadata: Option<Value>,
}

impl Launch {
    /// A command with pipes, no stdin, the default sandbox, and the server's core variables (PATH, HOME, LANG …).
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            env_policy: Some(EnvPolicy { inherit: Inherit::Core, ..EnvPolicy::default() }),
            tty: None,
            pipe_stdin: false,
            sandbox: None,
            timeout: None,
            metadata: None,
        }
    }
}

/// A started command.
pub struct Started {
    /// What can be done to it.
    pub process: Arc<dyn ExecProcess>,
    /// What it reports, from its very first output on.
    pub events: Events,
}

/// Starts commands.
pub trait ExecBackend: Send + Sync {
    /// Starts one. It is running when this returns.
    ///
    /// # Errors
    /// [`Error::OutsideRoot`] for the cwd; [`Error::Rpc`] whose [`Error::data`] says which step failed and how.
    fn start(&self, launch: Launch) -> BoxFuture<'_, Result<Started, Error>>;
}

/// A started command. Dropping it does nothing to the command, which ends with the connection at the latest.
pub trait ExecProcess: Send + Sync {
    /// The id that it has on its connection.
    fn process_id(&self) -> &str;

    /// What the server enforces for it; `None` from a server that does not tell.
    fn enforcement(&self) -> Option<&Enforcement>;

    /// Waits until all of its output was delivered to the server, or `timeout` is over; how it ended, as far as it has.
    /// It needs nobody to receive the events, and takes none of them.
    ///
    /// # Errors
    /// [`Error::Rpc`] where the server no longer knows it, [`Error::ConnectionLost`].
    fn wait(&self, timeout: Option<Duration>) -> BoxFuture<'_, Result<WaitResult, Error>>;

    /// Writes to its stdin or terminal, and waits while that is full. Calls that overlap may interleave, in blocks.
    ///
    /// # Errors
    /// [`Error::StdinClosed`], [`Error::UnknownProcess`], [`Error::ConnectionLost`].
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), Error>>;

    /// Ends its stdin, behind the writes before it; for a terminal, types its end-of-file character.
    ///
    /// # Errors
    /// [`Error::StdinClosed`], [`Error::UnknownProcess`], [`Error::ConnectionLost`].
    fn close_stdin(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// [`Error::Rpc`] where it has no terminal, [`Error::ConnectionLost`].
    fn resize(&self, size: Size) -> BoxFuture<'_, Result<(), Error>>;

    /// Signals its process group; for a terminal, the foreground one. Nothing happens once it is gone.
    ///
    /// # Errors
    /// [`Error::Rpc`], [`Error::ConnectionLost`].
    fn signal(&self, signal: Signal) -> BoxFuture<'_, Result<(), Error>>;

    /// Ends it and all of its descendants: SIGTERM, and SIGKILL after the server's grace. Returns at once whether it
    /// was running; its end follows as an event.
    ///
    /// # Errors
    /// [`Error::Rpc`], [`Error::ConnectionLost`].
    fn terminate(&self) -> BoxFuture<'_, Result<bool, Error>>;
}
