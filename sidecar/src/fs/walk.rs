//! `fs/walk`: a tree, listed on descriptors, one open directory per level.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{AtFlags, CWD, Dir, FileType, OFlags};
use sidecar_protocol::WirePath;
use sidecar_protocol::fs::{Details, EntryKind, WalkEntry, WalkError, WalkOptions, WalkResult};
use sidecar_protocol::path::Spelling;

use super::error::{At as _, FsError, Result};
use super::{Confined, open};

/// Levels below the start; each holds a descriptor open.
const MAX_DEPTH: usize = 64;
/// Directories to list.
const MAX_DIRECTORIES: usize = 10_000;
/// Entries and errors together.
const MAX_ENTRIES: usize = 50_000;
/// The same where each is described: what the stock client's limit on the values of a message leaves.
const MAX_DETAILED: usize = 25_000;
/// Paths and messages together, as they are sent.
const MAX_TEXT: usize = 4 << 20;

/// Lists the tree below `path`. What cannot be looked at is told beside the rest; only the start itself must be
/// a directory that can be listed.
pub(crate) fn walk(
    _: &Confined,
    path: &Path,
    options: &WalkOptions,
    spelling: Spelling,
) -> Result<WalkResult> {
    let mut walk = Walk::new(options, spelling);
    if walk.max_depth == 0 {
        return Ok(walk.result);
    }
    let start = open::directory(CWD, path, path, OFlags::empty())?;
    let mut levels = Vec::new();
    levels.extend(walk.list(start, path.to_owned(), 1)?);
    while let Some(level) = levels.last_mut() {
        let Some(child) = level.pending.pop() else {
            levels.pop();
            continue;
        };
        if walk.full {
            break;
        }
        let path = level.path.join(as_path(&child.name));
        // Only what was a symlink when it was listed is followed.
        let flags = if child.is_symlink { OFlags::empty() } else { OFlags::NOFOLLOW };
        let entered = open::directory(&level.fd, as_path(&child.name), &path, flags)
            .and_then(|fd| walk.list(fd, path, levels.len() + 1));
        match entered {
            Ok(level) => levels.extend(level),
            Err(error) => walk.note(&error),
        }
    }
    Ok(walk.result)
}

/// A directory that is listed, on the way to its subdirectories.
struct Level {
    fd: OwnedFd,
    path: PathBuf,
    pending: Vec<Child>,
}

/// A directory, or a symlink to one.
struct Child {
    name: CString,
    is_symlink: bool,
}

struct Walk {
    max_depth: usize,
    /// The client's own choice of depth leaves nothing out that it asked for.
    depth_is_asked_for: bool,
    directories_left: usize,
    entries_left: usize,
    text_left: usize,
    details: bool,
    follow: bool,
    prune_hidden: bool,
    spelling: Spelling,
    /// Directories that were listed: a symlink may lead to one again.
    seen: HashSet<(u64, u64)>,
    full: bool,
    result: WalkResult,
}

impl Walk {
    fn new(options: &WalkOptions, spelling: Spelling) -> Walk {
        let bound = |asked: Option<u64>, cap: usize| {
            asked.map_or(cap, |asked| usize::try_from(asked).unwrap_or(usize::MAX).min(cap))
        };
        let details = options.details.unwrap_or(false);
        Walk {
            max_depth: bound(options.max_depth, MAX_DEPTH),
            depth_is_asked_for: options.max_depth.is_some_and(|depth| depth <= MAX_DEPTH as u64),
            directories_left: bound(options.max_directories, MAX_DIRECTORIES),
            entries_left: bound(options.max_entries, if details { MAX_DETAILED } else { MAX_ENTRIES }),
            text_left: MAX_TEXT,
            details,
            follow: options.follow_directory_symlinks.unwrap_or(false),
            prune_hidden: options.prune_hidden_directories.unwrap_or(false),
            spelling,
            seen: HashSet::new(),
            full: false,
            result: WalkResult::default(),
        }
    }

    /// Lists one directory, whose entries are `depth` levels below the start. `None`: it was listed before, or there
    /// may be no more of them.
    fn list(&mut self, fd: OwnedFd, path: PathBuf, depth: usize) -> Result<Option<Level>> {
        if self.follow {
            let stat = rustix::fs::fstat(&fd).at(&path)?;
            if !self.seen.insert((stat.st_dev, stat.st_ino)) {
                return Ok(None);
            }
        }
        if self.directories_left == 0 {
            self.result.truncated = true;
            return Ok(None);
        }
        self.directories_left -= 1;
        let mut pending = Vec::new();
        for entry in Dir::read_from(&fd).at(&path)? {
            let entry = match entry.at(&path) {
                Ok(entry) => entry,
                Err(error) => {
                    self.note(&error);
                    break;
                }
            };
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if let Some(child) = self.entry(&fd, &path, entry.file_name(), entry.file_type()) {
                pending.push(child);
            }
            if self.full {
                break;
            }
        }
        if depth == self.max_depth && !pending.is_empty() {
            self.result.truncated |= !self.depth_is_asked_for;
            pending.clear();
        }
        Ok(Some(Level { fd, path, pending }))
    }

    /// Takes one entry; gives it back where there is something to list below it.
    fn entry(&mut self, dir: &OwnedFd, path: &Path, name: &CStr, listed: FileType) -> Option<Child> {
        let kind = match listed {
            FileType::Unknown => type_of(dir, name, AtFlags::SYMLINK_NOFOLLOW),
            listed => listed,
        };
        let is_symlink = kind == FileType::Symlink;
        let is_hidden = name.to_bytes().first() == Some(&b'.');
        if self.prune_hidden && is_hidden && kind == FileType::Directory {
            return None;
        }
        let kind = match kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        let path = WirePath::new(path.join(as_path(name)), self.spelling);
        let details = if self.details { describe(dir, name) } else { None };
        let target = details.as_ref().and_then(|details| details.symlink_target.as_ref());
        if !self.admit(path.to_string().len() + target.map_or(0, String::len)) {
            return None;
        }
        self.result.entries.push(WalkEntry { path, kind, details });
        let enter = match kind {
            EntryKind::Directory => true,
            EntryKind::Symlink => {
                self.follow
                    && !(self.prune_hidden && is_hidden)
                    && type_of(dir, name, AtFlags::empty()) == FileType::Directory
            }
            EntryKind::File | EntryKind::Other => false,
        };
        enter.then(|| Child { name: name.to_owned(), is_symlink })
    }

    fn note(&mut self, error: &FsError) {
        let path = WirePath::new(error.path(), self.spelling);
        let message = error.message();
        if self.admit(path.to_string().len() + message.len()) {
            self.result.errors.push(WalkError { path, message });
        }
    }

    /// Whether there is room for one more; the first that finds none ends the walk.
    fn admit(&mut self, text: usize) -> bool {
        if self.entries_left == 0 || self.text_left < text {
            self.full = true;
            self.result.truncated = true;
            return false;
        }
        self.entries_left -= 1;
        self.text_left -= text;
        true
    }
}

/// `None`: it is gone, or cannot be looked at.
fn describe(dir: &OwnedFd, name: &CStr) -> Option<Details> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let target = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Some(rustix::fs::readlinkat(dir, name, Vec::new()).ok()?.into_bytes()),
        _ => None,
    };
    let is_exact = target.as_deref().is_none_or(|target| std::str::from_utf8(target).is_ok());
    Some(Details {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_at_ms: stat
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(stat.st_mtime_nsec as i64 / 1_000_000),
        mode: stat.st_mode & 0o7777,
        symlink_target: target.as_deref().map(|target| String::from_utf8_lossy(target).into_owned()),
        symlink_target_base64: target.filter(|_| !is_exact).map(|target| STANDARD.encode(target)),
    })
}

fn type_of(dir: impl AsFd, name: &CStr, flags: AtFlags) -> FileType {
    let stat = rustix::fs::statat(dir, name, flags);
    stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn as_path(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}
