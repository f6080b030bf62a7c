//! `fs/readFile`.

use std::io::Read as _;
use std::path::Path;

use rustix::fs::OFlags;
use sidecar_protocol::{ErrorKind, MAX_MESSAGE_BYTES};

use super::error::{At as _, FsError, Result};
use super::{Confined, Symlinks, open};

/// What fits one message as base64, with room for the rest of it.
const MAX_BYTES: usize = MAX_MESSAGE_BYTES / 4 * 3 - (1 << 20);

/// The whole of a regular file.
pub(crate) fn read_file(_: &Confined, path: &Path, symlinks: Symlinks) -> Result<Vec<u8>> {
    let (file, size) = open::checked(open::open(path, OFlags::RDONLY, symlinks)?, path)?;
    if size > MAX_BYTES as u64 {
        return Err(too_large(path));
    }
    // The size is a hint: the file may grow, and not every file system tells it.
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content).at(path)?;
    if content.len() > MAX_BYTES { Err(too_large(path)) } else { Ok(content) }
}

fn too_large(path: &Path) -> FsError {
    let message = format!(
        "larger than the {} MiB that fit one message; read it in blocks with fs/open",
        MAX_BYTES >> 20
    );
    FsError::refused(path, ErrorKind::Limit, message)
}
