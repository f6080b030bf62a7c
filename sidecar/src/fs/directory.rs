//! `fs/createDirectory` and `fs/readDirectory`.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sidecar_protocol::fs::{DirectoryEntry, ReadDirectoryResult};
use sidecar_protocol::{MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES};

use super::attributes::permission_bits;
use super::error::{At as _, FsError, Result};
use super::{Confined, Symlinks, open};

/// Most entries of one listing.
const MAX_ENTRIES: usize = 50_000;

/// JSON values of one entry: the object and its four members. A name that is not UTF-8 has one more.
const ENTRY_VALUES: usize = 5;

/// The mode of a new directory, before the umask.
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// Makes a directory; with `recursive` its parents too, and one that is there already is fine.
///
/// `permissions`: the bits of the directory itself where it is new, whatever the umask.
pub(crate) fn create_directory(
    _: &Confined,
    path: &Path,
    recursive: bool,
    permissions: Option<u32>,
    symlinks: Symlinks,
) -> Result<()> {
    let Some(permissions) = permissions else { return create(path, recursive, symlinks) };
    if recursive && let Some(parent) = path.parent() {
        create_all(parent, symlinks)?;
    }
    let (dir, name) = open::parent(path, symlinks)?;
    match rustix::fs::mkdirat(&dir, name, Mode::RWXU) {
        Ok(()) => {}
        // As without them: it is another call's, and so is its mode.
        Err(Errno::EXIST) if recursive => return create_all(path, symlinks),
        Err(errno) => return Err(errno).writing(path),
    }
    // The one that was made, or else one that whoever took it away could have changed as well.
    let made = open::directory(&dir, Path::new(name), path, OFlags::NOFOLLOW)?;
    rustix::fs::fchmod(&made, permission_bits(permissions)).writing(path)
}

fn create(path: &Path, recursive: bool, symlinks: Symlinks) -> Result<()> {
    match (recursive, symlinks) {
        (true, symlinks) => create_all(path, symlinks),
        (false, Symlinks::Follow) => rustix::fs::mkdirat(CWD, path, NEW_DIRECTORY).writing(path),
        (false, Symlinks::Refuse) => {
            let (dir, name) = open::parent(path, symlinks)?;
            rustix::fs::mkdirat(&dir, name, NEW_DIRECTORY).writing(path)
        }
    }
}

/// Makes a directory and its parents, as far as they are missing.
pub(super) fn create_all(path: &Path, symlinks: Symlinks) -> Result<()> {
    if symlinks == Symlinks::Follow {
        return std::fs::create_dir_all(path).writing(path);
    }
    let mut here = PathBuf::from("/");
    let mut dir = open::open(&here, OFlags::PATH | OFlags::DIRECTORY, symlinks)?;
    for component in path.components().filter(|part| *part != Component::RootDir) {
        here.push(component);
        dir = step(&dir, component.as_os_str().as_ref(), &here)?;
    }
    Ok(())
}

/// One level down, on descriptors: a directory that becomes a symlink meanwhile is noticed.
fn step(dir: &OwnedFd, name: &Path, path: &Path) -> Result<OwnedFd> {
    let enter = || open::open_at(dir, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
    let entered = match enter() {
        Err(Errno::NOENT) => match rustix::fs::mkdirat(dir, name, NEW_DIRECTORY) {
            Ok(()) | Err(Errno::EXIST) => enter(),
            Err(errno) => Err(errno),
        },
        entered => entered,
    };
    let entered = entered.writing(path)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&entered).at(path)?.st_mode) {
        FileType::Directory => Ok(entered),
        FileType::Symlink => Err(FsError::symlink(path)),
        _ => Err(Errno::NOTDIR).writing(path),
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
        let exact = std::str::from_utf8(name.to_bytes()).is_ok();
        values += ENTRY_VALUES + usize::from(!exact);
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
