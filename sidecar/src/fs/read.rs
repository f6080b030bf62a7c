//! `fs/readFile`.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::OFlags;
use sidecar_protocol::frame::{self, FileResponse};
use sidecar_protocol::{ErrorKind, MAX_MESSAGE_BYTES, RequestId};

use super::error::{At as _, FsError, Result};
use super::{Confined, Symlinks, open};
use crate::connection::outbox::{Made, Room};

/// What fits one message as base64, with room for the rest of it.
const MAX_BYTES: usize = MAX_MESSAGE_BYTES / 4 * 3 - (1 << 20);

/// The whole of a regular file, as the response to this request. Without room for it, nothing is read.
pub(crate) fn read_file(
    _: &Confined,
    path: &Path,
    symlinks: Symlinks,
    id: &RequestId,
    mut room: Room,
) -> Result<Made> {
    let (file, size) = open::checked(open::open(path, OFlags::RDONLY, symlinks)?, path)?;
    if size > MAX_BYTES as u64 {
        return Err(too_large(path));
    }
    // The size is a hint: the file may grow, and not every file system tells it.
    let size = usize::try_from(size).unwrap_or(0);
    let bytes = frame::response_bytes(id, size);
    if !room.holds(bytes) {
        return Ok(Made::Larger(bytes));
    }
    let mut content = Vec::new();
    content.try_reserve_exact(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory)).at(path)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content).at(path)?;
    if content.len() > MAX_BYTES {
        return Err(too_large(path));
    }
    Ok(room.put(FileResponse::new(id, content)))
}

fn too_large(path: &Path) -> FsError {
    let message = format!(
        "larger than the {} MiB that fit one message; read it in blocks with fs/open",
        MAX_BYTES >> 20
    );
    FsError::refused(path, ErrorKind::Limit, message)
}
