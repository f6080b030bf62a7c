//! From a failed step to an error that names the right thing.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, LaunchError, LaunchErrorKind, Stage};

/// What a message can name.
pub(crate) struct Subject<'a> {
    /// As it was asked for.
    pub(crate) program: &'a Path,
    /// The file that exec failed on.
    pub(crate) tried: &'a Path,
    pub(crate) cwd: &'a Path,
}

/// The error of a step that failed in the launch itself.
pub(crate) fn step(stage: Stage, errno: i32, subject: &Subject<'_>) -> LaunchError {
    let os = io::Error::from_raw_os_error(errno);
    let (kind, path, message) = match stage {
        Stage::Cwd => cwd(errno, &os, subject.cwd),
        Stage::Exec => exec(errno, &os, subject),
        _ => other(stage, errno, &os),
    };
    LaunchError { kind, stage, errno, path, message }
}

/// The error of a step that the server took before the launch.
pub(crate) fn before(stage: Stage, e: &io::Error) -> LaunchError {
    let errno = e.raw_os_error().unwrap_or(0);
    let (kind, path, message) = other(stage, errno, e);
    LaunchError { kind, stage, errno, path, message }
}

impl From<Error> for LaunchError {
    fn from(e: Error) -> Self {
        let errno = match &e {
            Error::Root { source, .. } | Error::Kernel { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => 0,
        };
        LaunchError {
            kind: if is_shortage(errno) {
                LaunchErrorKind::Limit
            } else {
                LaunchErrorKind::SandboxUnavailable
            },
            stage: Stage::Prepare,
            errno,
            path: None,
            message: e.to_string(),
        }
    }
}

/// Whether an errno says that the machine, or a limit of it, has no more of something.
pub fn is_shortage(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM | libc::ENOSPC)
}

type Explained = (LaunchErrorKind, Option<PathBuf>, String);

fn cwd(errno: i32, os: &io::Error, cwd: &Path) -> Explained {
    let path = Some(cwd.to_owned());
    match errno {
        libc::ENOENT => (LaunchErrorKind::CwdNotFound, path, format!("cwd {cwd:?} does not exist: {os}")),
        libc::ENOTDIR => {
            (LaunchErrorKind::CwdNotFound, path, format!("cwd {cwd:?} is not a directory: {os}"))
        }
        libc::EACCES => {
            (LaunchErrorKind::PermissionDenied, path, format!("cwd {cwd:?} cannot be entered: {os}"))
        }
        _ => (LaunchErrorKind::Os, path, format!("cwd {cwd:?}: {os}")),
    }
}

fn exec(errno: i32, os: &io::Error, subject: &Subject<'_>) -> Explained {
    let Subject { program, tried, cwd } = *subject;
    let file = cwd.join(tried);
    let path = Some(if tried == program { program.to_owned() } else { file.clone() });
    match errno {
        libc::ENOENT if file.exists() => (
            LaunchErrorKind::NotExecutable,
            path,
            format!(
                "program {program:?} exists, but its interpreter (the #! line, or the ELF loader) does not: {os}"
            ),
        ),
        libc::ENOENT | libc::ENOTDIR if tried != program => (
            LaunchErrorKind::ProgramNotFound,
            Some(program.to_owned()),
            format!("program {program:?} is in no directory of the launch's PATH: {os}"),
        ),
        libc::ENOENT | libc::ENOTDIR => {
            (LaunchErrorKind::ProgramNotFound, path, format!("program {program:?} does not exist: {os}"))
        }
        libc::EACCES if file.is_dir() => {
            (LaunchErrorKind::NotExecutable, path, format!("program {program:?} is a directory: {os}"))
        }
        libc::EACCES => (
            LaunchErrorKind::PermissionDenied,
            path,
            format!("program {program:?} may not be executed (its mode, or the sandbox policy): {os}"),
        ),
        libc::ENOEXEC => (
            LaunchErrorKind::NotExecutable,
            path,
            format!("program {program:?} is in no format that this kernel runs (a script without #!?): {os}"),
        ),
        errno if is_shortage(errno) => {
            (LaunchErrorKind::Limit, path, format!("program {program:?} could not be started: {os}"))
        }
        _ => (LaunchErrorKind::Os, path, format!("program {program:?}: {os}")),
    }
}

fn other(stage: Stage, errno: i32, os: &io::Error) -> Explained {
    let name = stage.name();
    match (stage, errno) {
        (_, errno) if is_shortage(errno) => {
            (LaunchErrorKind::Limit, None, format!("the launch ran into a limit at the step {name}: {os}"))
        }
        // landlock_restrict_self(2): LANDLOCK_MAX_NUM_LAYERS.
        (Stage::Scope | Stage::Landlock, libc::E2BIG) => (
            LaunchErrorKind::SandboxUnavailable,
            None,
            format!(
                "the sandbox could not be applied at the step {name}: the kernel allows 16 Landlock layers, and the \
                 sidecar runs inside of too many itself"
            ),
        ),
        (Stage::Tag | Stage::Scope | Stage::Landlock | Stage::Shim | Stage::Prepare, _) => (
            LaunchErrorKind::SandboxUnavailable,
            None,
            format!("the sandbox could not be applied at the step {name}: {os}"),
        ),
        _ => (LaunchErrorKind::Os, None, format!("the launch failed at the step {name}: {os}")),
    }
}
