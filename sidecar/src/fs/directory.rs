//! `fs/createDirectory` and `fs/readDirectory`.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use sidecar_protocol::fs::{DirectoryEntry, ReadDirectoryResult};
use sidecar_protocol::{MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES};

use super::error::{At as _, Result};
use super::{Confined, open};

/// Most entries of one listing.
const MAX_ENTRIES: usize = 50_000;

/// JSON values of one entry at most: the object and its five members.
const ENTRY_VALUES: usize = 6;

/// The mode of a new directory, before the umask.
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// Makes a directory; with `recursive` its parents too, and one that is there already is fine.
pub(crate) fn create_directory(_: &Confined, path: &Path, recursive: bool) -> Result<()> {
    if recursive {
        std::fs::create_dir_all(path).writing(path)
    } else {
        rustix::fs::mkdirat(CWD, path, NEW_DIRECTORY).writing(path)
    }
}

/// The entries of a directory, as many as fit one message.
pub(crate) fn read_directory(_: &Confined, path: &Path) -> Result<ReadDirectoryResult> {
    let dir = open::directory(CWD, path, path, OFlags::empty())?;
    let mut result = ReadDirectoryResult::default();
    let (mut values, mut bytes) = (0, 0);
    for entry in Dir::read_from(&dir).at(path)? {
        let entry = entry.at(path)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        values += ENTRY_VALUES;
        // As JSON a byte of a name can take six, and the exact name comes on top as base64.
        bytes += 128 + name.to_bytes().len() * 8;
        let full = values > MAX_MESSAGE_VALUES - ENTRY_VALUES || bytes > MAX_MESSAGE_BYTES;
        if full || result.entries.len() == MAX_ENTRIES {
            result.truncated = true;
            break;
        }
        result.entries.push(describe(dir.as_fd(), name, entry.file_type()));
    }
    Ok(result)
}

fn describe(dir: BorrowedFd<'_>, name: &CStr, listed: FileType) -> DirectoryEntry {
    let look = |flags| {
        let stat = rustix::fs::statat(dir, name, flags);
        stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    };
    let own = if listed == FileType::Unknown { look(AtFlags::SYMLINK_NOFOLLOW) } else { listed };
    let is_symlink = own == FileType::Symlink;
    let target = if is_symlink { look(AtFlags::empty()) } else { own };
    let exact = std::str::from_utf8(name.to_bytes()).is_ok();
    DirectoryEntry {
        file_name: name.to_string_lossy().into_owned(),
        name_base64: (!exact).then(|| STANDARD.encode(name.to_bytes())),
        is_directory: target == FileType::Directory,
        is_file: target == FileType::RegularFile,
        is_symlink,
    }
}
