//! `fs/remove`. It never follows a symlink, and works on descriptors: a directory that is swapped for a symlink while
//! it is being removed leads nowhere.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, OFlags};
use rustix::io::Errno;
use sidecar_protocol::ErrorKind;

use super::error::{At as _, FsError, Result};
use super::{Confined, Symlinks, open};

/// Directories in one another: each holds descriptors open. Deeper ones are an error that says so.
pub(super) const MAX_DEPTH: usize = 128;

/// Entries of a directory that are held at a time.
const BATCH: usize = 1024;

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
    let options = confined.sandbox().options();
    let mut operators = options.roots.writable(&options.profiles);
    if confined.prepared().is_root(&real) || operators.any(|root| root.starts_with(&real)) {
        return Err(FsError::refused(
            path,
            ErrorKind::PermissionDenied,
            "is a root of the sandbox policy, or holds one",
        ));
    }
    Ok(())
}

/// One directory on the way down. Its entries are taken in batches, so the largest directory needs no more memory.
struct Level {
    entries: Dir,
    path: PathBuf,
    /// Subdirectories of the batch that are still to be removed.
    pending: Vec<CString>,
    /// Its name in the level above.
    name: CString,
    /// Batches since the start of the directory.
    batches: usize,
    is_last_pass: bool,
}

/// Removes everything in a directory, depth first. Errors are noted, the first one only.
fn empty(dir: &OwnedFd, name: &Path, path: &Path, first: &mut Option<FsError>) -> Result<()> {
    let name = CString::new(name.as_os_str().as_bytes()).unwrap_or_default();
    let mut levels = vec![Level::enter(dir, name, path.to_owned())?];
    while let Some(level) = levels.last_mut() {
        let Some(child) = level.pending.pop() else {
            if level.remove_batch(first) {
                continue;
            }
            let done = levels.pop();
            if let (Some(done), Some(above)) = (done, levels.last()) {
                let removed =
                    above.fd().and_then(|fd| rustix::fs::unlinkat(fd, &done.name, AtFlags::REMOVEDIR));
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
        match level.fd().at(&path).and_then(|fd| Level::enter(fd, child, path)) {
            Ok(next) => levels.push(next),
            Err(error) => note(Err(error), first),
        }
    }
    Ok(())
}

impl Level {
    fn enter(above: impl AsFd, name: CString, path: PathBuf) -> Result<Level> {
        let plain = Path::new(OsStr::from_bytes(name.as_bytes()));
        let fd = open::directory(above, plain, &path, OFlags::NOFOLLOW)?;
        let entries = Dir::new(fd).at(&path)?;
        Ok(Level { entries, path, pending: Vec::new(), name, batches: 0, is_last_pass: false })
    }

    fn fd(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.entries.fd()
    }

    /// Removes the files of the next batch and keeps its subdirectories for later. `false`: there is no more.
    fn remove_batch(&mut self, first: &mut Option<FsError>) -> bool {
        let batch = match read_batch(&mut self.entries) {
            Ok(batch) => batch,
            Err(errno) => {
                note(Err(errno).at(&self.path), first);
                return false;
            }
        };
        if batch.is_empty() {
            // An entry that is removed may hide another from a listing that goes on. A second look finds it; what is
            // added all the while is not waited for.
            let again = self.batches > 1 && !self.is_last_pass;
            self.entries.rewind();
            self.is_last_pass = true;
            return again;
        }
        self.batches += 1;
        for (name, kind) in batch {
            match self.fd().and_then(|fd| unlink(fd, &name, kind)) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => self.pending.push(name),
                Err(errno) => {
                    note(Err(errno).writing(&self.path.join(OsStr::from_bytes(name.as_bytes()))), first);
                }
            }
        }
        true
    }
}

/// The next entries of a directory, `.` and `..` left out; none at its end.
pub(super) fn read_batch(entries: &mut Dir) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let named = |entry: &rustix::io::Result<DirEntry>| {
        entry.as_ref().map_or(true, |entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
    };
    let batch = entries.filter(named).take(BATCH);
    batch.map(|entry| entry.map(|entry| (entry.file_name().to_owned(), entry.file_type()))).collect()
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
