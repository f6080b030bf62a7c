//! `fs/remove`. It never follows a symlink, and works on descriptors: a directory that is swapped for a symlink while
//! it is being removed leads nowhere.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use rustix::io::Errno;
use sidecar_protocol::ErrorKind;

use super::error::{At as _, FsError, Result};
use super::{Confined, Symlinks, open};

/// Directories in one another: each holds descriptors open. Deeper ones are an error that says so.
pub(super) const MAX_DEPTH: usize = 128;

/// How to remove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removal {
    /// A directory with its content.
    pub(crate) recursive: bool,
    /// A missing path is no error.
    pub(crate) force: bool,
}

/// Removes what it can. The first thing that could not be removed is the error; the rest is gone all the same.
pub(crate) fn remove(confined: &Confined, path: &Path, how: Removal) -> Result<()> {
    match try_remove(confined, path, how) {
        Err(e) if how.force && matches!(e.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => Ok(()),
        result => result,
    }
}

fn try_remove(confined: &Confined, path: &Path, how: Removal) -> Result<()> {
    let (dir, name) = open::parent(path, Symlinks::Follow)?;
    refuse_roots(confined, path)?;
    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).writing(path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return rustix::fs::unlinkat(&dir, name, AtFlags::empty()).writing(path);
    }
    let mut first = None;
    if how.recursive {
        empty(&dir, Path::new(name), path, &mut first)?;
    }
    let removed = rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR).writing(path);
    // Why it is not empty says more than that it is not.
    match first {
        Some(error) => Err(error),
        None => removed,
    }
}

/// Refuses what the policy stands on: its roots, and the directories that hold one.
pub(super) fn refuse_roots(confined: &Confined, path: &Path) -> Result<()> {
    let real = open::real_path(path).unwrap_or_else(|| path.to_owned());
    let roots = &confined.sandbox().options().roots;
    let mut operators = [&roots.workspace, &roots.tmp].into_iter().chain(&roots.write_roots);
    if confined.prepared().is_root(&real) || operators.any(|root| root.starts_with(&real)) {
        return Err(FsError::refused(path, ErrorKind::PermissionDenied, "is a root of the sandbox policy"));
    }
    Ok(())
}

/// One directory on the way down.
struct Level {
    fd: OwnedFd,
    path: PathBuf,
    /// Subdirectories that are still to be removed.
    pending: Vec<CString>,
    /// Its name in the level above.
    name: CString,
}

/// Removes everything in a directory, depth first. Errors are noted, the first one only.
fn empty(dir: &OwnedFd, name: &Path, path: &Path, first: &mut Option<FsError>) -> Result<()> {
    let name = CString::new(name.as_os_str().as_bytes()).unwrap_or_default();
    let mut levels = vec![enter(dir, name, path.to_owned(), first)?];
    while let Some(level) = levels.last_mut() {
        let Some(child) = level.pending.pop() else {
            let done = levels.pop();
            if let (Some(done), Some(above)) = (done, levels.last()) {
                let removed = rustix::fs::unlinkat(&above.fd, &done.name, AtFlags::REMOVEDIR);
                note(removed.writing(&done.path), first);
            }
            continue;
        };
        let path = level.path.join(OsStr::from_bytes(child.as_bytes()));
        if levels.len() == MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} directories in one another");
            note(Err(FsError::refused(&path, ErrorKind::Limit, message)), first);
            continue;
        }
        let Some(level) = levels.last() else { break };
        match enter(&level.fd, child, path, first) {
            Ok(next) => levels.push(next),
            Err(error) => note(Err(error), first),
        }
    }
    Ok(())
}

/// Opens a directory, removes its files, and lists its subdirectories.
fn enter(above: &OwnedFd, name: CString, path: PathBuf, first: &mut Option<FsError>) -> Result<Level> {
    let fd = open::directory(above, Path::new(OsStr::from_bytes(name.as_bytes())), &path, OFlags::NOFOLLOW)?;
    let mut pending = Vec::new();
    // Listed to its end before anything is removed: an entry that is removed meanwhile may hide another.
    let mut names = Vec::new();
    for entry in Dir::read_from(&fd).at(&path)? {
        let entry = entry.at(&path)?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    for (name, kind) in names {
        match unlink(&fd, &name, kind) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => pending.push(name),
            Err(errno) => note(Err(errno).writing(&path.join(OsStr::from_bytes(name.as_bytes()))), first),
        }
    }
    Ok(Level { fd, path, pending, name })
}

/// EISDIR says that it is a directory, whatever else is wrong.
fn unlink(dir: impl AsFd, name: &CString, listed: FileType) -> rustix::io::Result<()> {
    let kind = match listed {
        FileType::Unknown => {
            FileType::from_raw_mode(rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
        }
        listed => listed,
    };
    match kind {
        FileType::Directory => Err(Errno::ISDIR),
        _ => rustix::fs::unlinkat(&dir, name, AtFlags::empty()),
    }
}

/// Keeps the first error.
pub(super) fn note(result: Result<()>, first: &mut Option<FsError>) {
    if let Err(error) = result {
        first.get_or_insert(error);
    }
}
