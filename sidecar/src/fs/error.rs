//! What went wrong with a file operation, and how it is answered.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sidecar_protocol::error::{INTERNAL, INVALID_REQUEST, NOT_FOUND};
use sidecar_protocol::path::Spelling;
use sidecar_protocol::{ErrorData, ErrorKind, RpcError};
use sidecar_sandbox::Prepared;

/// What went wrong, and with which path.
#[derive(Debug)]
pub(crate) struct FsError {
    path: PathBuf,
    cause: Cause,
    /// Whether it was about to be written.
    write: bool,
}

#[derive(Debug)]
enum Cause {
    Os(Errno),
    /// A symlink where none may be.
    Symlink,
    /// Refused by the server itself.
    Refused(ErrorKind, String),
}

pub(crate) type Result<T> = std::result::Result<T, FsError>;

impl FsError {
    /// The path exists and is of the wrong type for the operation.
    pub(super) fn wrong_type(path: &Path, message: impl Into<String>) -> FsError {
        FsError::refused(path, ErrorKind::WrongType, message)
    }

    pub(super) fn refused(path: &Path, kind: ErrorKind, message: impl Into<String>) -> FsError {
        FsError { path: path.to_owned(), cause: Cause::Refused(kind, message.into()), write: false }
    }

    /// A symlink is in a path that must hold none.
    pub(super) fn symlink(path: &Path) -> FsError {
        FsError { path: path.to_owned(), cause: Cause::Symlink, write: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What went wrong, without the path.
    pub(super) fn message(&self) -> String {
        match &self.cause {
            Cause::Os(errno) => io::Error::from(*errno).to_string(),
            Cause::Symlink => String::from("a symlink is in the path, and followSymlinks is false"),
            Cause::Refused(_, message) => message.clone(),
        }
    }

    pub(super) fn errno(&self) -> Option<Errno> {
        match self.cause {
            Cause::Os(errno) => Some(errno),
            Cause::Symlink | Cause::Refused(..) => None,
        }
    }

    /// The answer. Paths are spelled as the request spelled its own.
    pub(crate) fn into_rpc(self, spelling: Spelling, prepared: &Prepared) -> RpcError {
        let path = spelling.write(&self.path);
        let message = self.message();
        let (code, message, data) = match self.cause {
            Cause::Refused(kind, _) => {
                let data = ErrorData { kind: Some(kind), ..ErrorData::default() };
                (INVALID_REQUEST, format!("{message}: {path}"), data)
            }
            Cause::Symlink => {
                let errno = Some(Errno::LOOP.raw_os_error());
                let data = ErrorData { kind: Some(ErrorKind::WrongType), errno, ..ErrorData::default() };
                (INVALID_REQUEST, format!("{message}: {path}"), data)
            }
            Cause::Os(errno) => {
                let hint = (errno == Errno::ACCESS).then(|| prepared.hint(&self.path, self.write)).flatten();
                let data = ErrorData {
                    kind: Some(kind(errno)),
                    errno: Some(errno.raw_os_error()),
                    hint,
                    ..ErrorData::default()
                };
                // The stock server's words, which its client may look for.
                (code(errno), message, data)
            }
        };
        RpcError::new(code, message).with_data(&ErrorData { path: Some(path), ..data })
    }
}

/// Says which path an OS error is about.
pub(super) trait At<T> {
    /// While it was read, or looked at.
    fn at(self, path: &Path) -> Result<T>;
    /// While it was about to be written.
    fn writing(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> At<T> for std::result::Result<T, E> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|e| FsError { path: path.to_owned(), cause: os(e.into()), write: false })
    }

    fn writing(self, path: &Path) -> Result<T> {
        self.map_err(|e| FsError { path: path.to_owned(), cause: os(e.into()), write: true })
    }
}

fn os(error: io::Error) -> Cause {
    match Errno::from_io_error(&error) {
        Some(errno) => Cause::Os(errno),
        // The standard library's own; for lack of a number, what it is nearest to.
        None => Cause::Refused(ErrorKind::Os, error.to_string()),
    }
}

fn code(errno: Errno) -> i64 {
    match errno {
        Errno::NOENT | Errno::NOTDIR => NOT_FOUND,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::INVAL => INVALID_REQUEST,
        // As where the server itself refuses the type.
        Errno::ISDIR | Errno::LOOP => INVALID_REQUEST,
        _ => INTERNAL,
    }
}

fn kind(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT | Errno::NOTDIR => ErrorKind::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::PermissionDenied,
        Errno::EXIST => ErrorKind::AlreadyExists,
        Errno::ISDIR | Errno::LOOP => ErrorKind::WrongType,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::MFILE | Errno::NFILE => ErrorKind::Limit,
        _ => ErrorKind::Os,
    }
}
