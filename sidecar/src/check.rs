//! What this kernel and container can enforce, shown by doing: under each profile a real launch tries what it may do
//! and what it must not.
//!
//! [`run`] serves `sandbox-sidecar check` and the readiness of `serve`. It trusts no number that the kernel reports.

mod proof;
mod report;

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use sidecar_sandbox::Sandbox;

pub use self::proof::{Expected, Proof, Step};
pub use self::report::{Report, Verdict};
use crate::environment;

/// The hidden subcommand of the binary that tries one act, for images without a shell.
pub const PROBE: &str = "__probe";

/// Launches under each profile up to the ceiling. `prober` is a program that knows [`PROBE`]; the shell stands in for
/// it where there is none, or where launches may not execute it. Blocking, for some milliseconds per profile.
pub fn run(sandbox: &Sandbox, prober: Option<PathBuf>) -> Report {
    let proofs = environment::profiles(sandbox.options().ceiling)
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
}

impl Act {
    const fn name(self) -> &'static str {
        match self {
            Act::List => "list",
            Act::Write => "write",
        }
    }

    fn perform(self, path: &Path) -> io::Result<()> {
        match self {
            Act::List => std::fs::read_dir(path).map(drop),
            Act::Write => OpenOptions::new().append(true).create(true).open(path).map(drop),
        }
    }

    /// The same in words of the shell; the path is its first argument.
    const fn script(self) -> &'static str {
        match self {
            Act::List => r#": < "$1""#,
            Act::Write => r#": >> "$1""#,
        }
    }
}

/// Performs one act on behalf of the hidden subcommand. Its error goes to stderr, where the proof finds it.
///
/// # Errors
/// An unknown act, or what the OS said.
pub fn probe(act: &str, path: &Path) -> io::Result<()> {
    let act = [Act::List, Act::Write].into_iter().find(|known| known.name() == act);
    act.ok_or_else(|| io::Error::other("unknown act"))?.perform(path)
}
