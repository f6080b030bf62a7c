//! What a file, a directory or a symlink is: the wire's types with exact names and mapped paths.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sidecar_protocol::Method;
use sidecar_protocol::fs::{Details, DirectoryEntry, EntryKind, WalkResult};

pub use sidecar_protocol::fs::{EntryKind as Kind, Metadata};

use crate::error::Error;

/// What something that is made is to have beside its content. By default what the server gives it, and no parents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, `0o777` at most, whatever the server's umask.
    pub permissions: Option<u32>,
    /// The time of the last change, milliseconds since 1970. Directories take none.
    pub modified_at_ms: Option<i64>,
    /// Make missing parents.
    pub create_parents: bool,
}

/// An entry of a directory. The two flags describe a symlink's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name, byte for byte.
    pub name: OsString,
    /// A directory, or a symlink to one.
    pub is_directory: bool,
    /// A regular file, or a symlink to one.
    pub is_file: bool,
    /// A symlink.
    pub is_symlink: bool,
}

impl DirEntry {
    pub(super) fn from_wire(entry: DirectoryEntry) -> Result<Self, Error> {
        Ok(Self {
            name: name(Method::FsReadDirectory, entry.file_name, entry.name_base64)?,
            is_directory: entry.is_directory,
            is_file: entry.is_file,
            is_symlink: entry.is_symlink,
        })
    }
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Parents before their children.
    pub entries: Vec<TreeEntry>,
    /// What could not be looked at, and why.
    pub errors: Vec<(PathBuf, String)>,
    /// Whether there was more than the server lists.
    pub truncated: bool,
}

/// An entry of a walk; nothing of it describes a symlink's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// More of it, where that was asked for and the server could tell.
    pub details: Option<TreeDetails>,
}

/// What `WalkOptions::details` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeDetails {
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970.
    pub modified_at_ms: i64,
    /// Permission bits.
    pub mode: u32,
    /// Where a symlink points, byte for byte.
    #[serde(skip)]
    pub symlink_target: Option<PathBuf>,
}

impl Tree {
    pub(super) fn from_wire(
        result: WalkResult,
        to_caller: impl Fn(&Path) -> Result<PathBuf, Error>,
    ) -> Result<Self, Error> {
        let mut tree = Self { truncated: result.truncated, ..Self::default() };
        for entry in result.entries {
            let details = entry.details.map(TreeDetails::from_wire).transpose()?;
            tree.entries.push(TreeEntry {
                path: to_caller(entry.path.as_path())?,
                kind: entry.kind,
                details,
            });
        }
        for error in result.errors {
            tree.errors.push((to_caller(error.path.as_path())?, error.message));
        }
        Ok(tree)
    }
}

impl TreeDetails {
    fn from_wire(details: Details) -> Result<Self, Error> {
        let Details { size, modified_at_ms, mode, symlink_target, symlink_target_base64 } = details;
        let target = symlink_target.map(|lossy| name(Method::FsWalk, lossy, symlink_target_base64));
        Ok(Self { size, modified_at_ms, mode, symlink_target: target.transpose()?.map(PathBuf::from) })
    }
}

/// The word for a kind.
pub fn word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Other => "FIFO, socket or device",
    }
}

/// The exact form of a name, base64, where the lossy one is another.
pub(super) fn exact(name: &OsStr) -> Option<String> {
    name.to_str().is_none().then(|| STANDARD.encode(name.as_bytes()))
}

fn name(method: Method, lossy: String, exact: Option<String>) -> Result<OsString, Error> {
    match exact {
        Some(exact) => super::decode(method, &exact).map(OsString::from_vec),
        None => Ok(OsString::from(lossy)),
    }
}
