//! `fs/readFile`.

use std::io::Read as _;
use std::path::Path;

use rustix::fs::OFlags;
use sidecar_protocol::frame::{self, FileResponse};
use sidecar_protocol::{ErrorKind, MAX_MESSAGE_BYTES, RequestId};

use super::error::{At as _, FsError, Result};
use super::{Confined, Symlinks, open};
use crate::connection::outbox::{Made, Room};

/// What fits one message as base64, with room for the rest of it.
const MAX_BYTES: usize = MAX_MESSAGE_BYTES / 4 * 3 - (1 << 20);

/// Bytes that are read, then encoded, at once.
pub(super) const PART_BYTES: usize = (64 << 10) * FileResponse::GROUP;

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
    let mut response = FileResponse::file(id, size);
    let mut file = file.take(MAX_BYTES as u64 + 1);
    let mut part = Vec::with_capacity(PART_BYTES.min(size + 1));
    let mut read = 0;
    loop {
        part.clear();
        file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).at(path)?;
        response.push(&part);
        read += part.len();
        if read > MAX_BYTES {
            return Err(too_large(path));
        }
        if part.len() < PART_BYTES {
            return Ok(room.put(response.finish_file()));
        }
    }
}

fn too_large(path: &Path) -> FsError {
    let message = format!(
        "larger than the {} MiB that fit one message; read it in blocks with fs/open",
        MAX_BYTES >> 20
    );
    FsError::refused(path, ErrorKind::Limit, message)
}
