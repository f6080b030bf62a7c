//! What this kernel and container can enforce, shown by doing: under each profile a real launch tries what it may do
//! and what it must not.
//!
//! [`run`] serves `sandbox-sidecar check` and the readiness of `serve`. It trusts no number that the kernel reports.

mod proof;
mod report;

use std::fs::OpenOptions;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use sidecar_sandbox::Sandbox;

pub use self::proof::{Expected, Proof, Step};
pub use self::report::{Report, Verdict};

/// The hidden subcommand of the binary that tries one act, for images without a shell.
pub const PROBE: &str = "__probe";

/// Launches under each profile up to the ceiling. `prober` is a program that knows [`PROBE`]; the shell stands in for
/// it where there is none, or where launches may not execute it. Blocking, for some milliseconds per profile.
pub fn run(sandbox: &Sandbox, prober: Option<PathBuf>) -> Report {
    let proofs = sandbox
        .options()
        .offered()
        .map(|profile| proof::prove(sandbox, profile, prober.as_deref()))
        .collect();
    Report::new(sandbox, proofs)
}

/// What a probe tries. Each has an exit code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// List a directory.
    List,
    /// Open a file for writing, and make it where it is missing.
    Write,
    /// Connect to an IP:PORT.
    Connect,
}

impl Act {
    const fn name(self) -> &'static str {
        match self {
            Act::List => "list",
            Act::Write => "write",
            Act::Connect => "connect",
        }
    }

    fn perform(self, target: &Path) -> io::Result<()> {
        match self {
            Act::List => std::fs::read_dir(target).map(drop),
            Act::Write => OpenOptions::new().append(true).create(true).open(target).map(drop),
            Act::Connect => TcpStream::connect(target.to_string_lossy().as_ref()).map(drop),
        }
    }

    /// The same in words of the shell, where it has any; the target is its first argument.
    const fn script(self) -> Option<&'static str> {
        match self {
            Act::List => Some(r#": < "$1""#),
            Act::Write => Some(r#": >> "$1""#),
            Act::Connect => None,
        }
    }
}

/// Performs one act on behalf of the hidden subcommand. Its error goes to stderr, where the proof finds it.
///
/// # Errors
/// An unknown act, or what the OS said.
pub fn probe(act: &str, target: &Path) -> io::Result<()> {
    let act = [Act::List, Act::Write, Act::Connect].into_iter().find(|known| known.name() == act);
    act.ok_or_else(|| io::Error::other("unknown act"))?.perform(target)
}
