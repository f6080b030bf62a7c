//! What is on one side of a transfer: names below its root, and what each of them is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::Skipped;

/// The permission bits that are transferred: no set-id bits, no sticky bit.
pub const MODE_BITS: u32 = 0o777;

/// What a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// The time of its last change, milliseconds since 1970.
        modified_at_ms: i64,
        /// Permission bits.
        mode: u32,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A symlink; it is never followed.
    Symlink {
        /// As it is written.
        target: PathBuf,
    },
    /// A FIFO, a socket or a device.
    Other,
}

/// One side. The root itself has the empty path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Parents before their children.
    pub nodes: BTreeMap<PathBuf, Node>,
    /// What could not be looked at.
    pub skipped: Vec<Skipped>,
    /// What the rules leave out. Below a directory that is left out nothing was looked at.
    pub excluded: BTreeSet<PathBuf>,
}

impl Listing {
    /// Notes what could not be looked at.
    pub(super) fn skip(&mut self, path: impl Into<PathBuf>, reason: impl ToString) {
        self.skipped.push(Skipped { path: path.into(), reason: reason.to_string() });
    }
}

/// Whether a name is that of a file which is still being written, here or by the sidecar.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    (name.starts_with(b".agent-client-") || name.starts_with(b".sidecar-")) && name.ends_with(b".tmp")
}
