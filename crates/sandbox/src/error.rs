//! The errors of this crate, by stage.

use std::io;
use std::path::PathBuf;

use crate::probe::Unavailable;

/// Why a policy cannot be prepared, or the sandbox not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This kernel or container has no Landlock.
    #[error("the sandbox cannot be enforced here: {0}")]
    Unavailable(Unavailable),
    /// A root that must exist does not, or cannot be opened.
    #[error("{role} {path:?} cannot be opened: {source}", path = .path)]
    Root {
        /// Which config key or wire entry named it.
        role: String,
        /// The path.
        path: PathBuf,
        /// What the OS said.
        source: io::Error,
    },
    /// The request asks for something that cannot be honoured.
    #[error("{0}")]
    Refused(String),
    /// The policy needs something that this kernel's ABI lacks.
    #[error("{what} needs Landlock ABI {needs}, this kernel has {has}")]
    Abi {
        /// What.
        what: String,
        /// The ABI that has it.
        needs: u32,
        /// The ABI in use.
        has: u32,
    },
    /// The kernel refused a step of the preparation.
    #[error("{step}: {source}")]
    Kernel {
        /// The step.
        step: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The step of a launch that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names say it; see name()")]
pub enum Stage {
    Prepare = 1,
    Pipes,
    Clone,
    Tag,
    Shim,
    Scope,
    Signals,
    Session,
    Terminal,
    Stdio,
    Limits,
    Cwd,
    Descriptors,
    Landlock,
    Exec,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 15] = [
        Stage::Prepare,
        Stage::Pipes,
        Stage::Clone,
        Stage::Tag,
        Stage::Shim,
        Stage::Scope,
        Stage::Signals,
        Stage::Session,
        Stage::Terminal,
        Stage::Stdio,
        Stage::Limits,
        Stage::Cwd,
        Stage::Descriptors,
        Stage::Landlock,
        Stage::Exec,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Prepare => "prepare",
            Stage::Pipes => "pipes",
            Stage::Clone => "clone",
            Stage::Tag => "tag",
            Stage::Shim => "shim",
            Stage::Scope => "scope",
            Stage::Signals => "signals",
            Stage::Session => "session",
            Stage::Terminal => "terminal",
            Stage::Stdio => "stdio",
            Stage::Limits => "limits",
            Stage::Cwd => "cwd",
            Stage::Descriptors => "descriptors",
            Stage::Landlock => "landlock",
            Stage::Exec => "exec",
        }
    }
}

/// What kind of failure a launch met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchErrorKind {
    /// The program does not exist.
    ProgramNotFound,
    /// The working directory does not exist or is no directory.
    CwdNotFound,
    /// The OS or the sandbox refused.
    PermissionDenied,
    /// The program is there but cannot be run.
    NotExecutable,
    /// The sandbox could not be applied.
    SandboxUnavailable,
    /// Out of processes, memory or descriptors.
    Limit,
    /// Any other OS error.
    Os,
}

/// Why a command did not start. The message names the program or the cwd, and the OS error.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct LaunchError {
    /// What kind of failure.
    pub kind: LaunchErrorKind,
    /// Where it happened.
    pub stage: Stage,
    /// The OS error number; 0 where there is none.
    pub errno: i32,
    /// The program or cwd that it is about.
    pub path: Option<PathBuf>,
    /// For people.
    pub message: String,
}
