//! Where watches are placed: on confined threads, and on directories that are open already, so a directory that is
//! swapped for a symlink meanwhile is not watched in its stead.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::inotify::{self, WatchFlags};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sidecar_protocol::RpcError;
use sidecar_protocol::fs::WatchMissingParams;

use super::super::error::{At as _, Result};
use super::super::temp::is_temp_name;
use super::super::{Confined, open};

/// Directories that one `fs/watchMissing` looks at: those that lead to its paths.
const MAX_LEADING: usize = 10_000;

/// Levels below the root of a watch; each holds a descriptor open while the tree is walked.
const MAX_DEPTH: usize = 64;

/// Entries that are told of a directory that has just appeared; a larger one is an overflow.
const MAX_FOUND: usize = 1000;

/// What changes a directory, or a file in it. The mask is added to: another watch may have a part of it.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

/// What changes the names in a directory.
const NAMES: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::DELETE).union(WatchFlags::MOVED_FROM).union(WatchFlags::MOVED_TO);

const ALWAYS: WatchFlags = WatchFlags::DELETE_SELF
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::MASK_ADD);

/// What was placed.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The watched directories, relative to the root, with the kernel's numbers.
    pub(super) directories: Vec<(i32, PathBuf)>,
    /// What lies in them, relative to the root.
    pub(super) found: Vec<PathBuf>,
    /// What kept it from being the whole tree.
    pub(super) shortage: Option<Shortage>,
}

/// What there was not enough of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortage {
    /// The tree has more directories than a watch may have.
    Directories,
    /// Or more of them in one another.
    Depth,
    /// The kernel takes no more.
    Kernel,
}

impl Shortage {
    /// `directories` is the number that a watch may have.
    pub(super) fn into_rpc(self, directories: usize) -> RpcError {
        match self {
            Shortage::Directories => RpcError::limit(
                "limits.watchDirectories",
                format!("more than {directories} directories in one watch (limits.watchDirectories)"),
            ),
            Shortage::Depth => RpcError::limit(
                "depth",
                format!("more than {MAX_DEPTH} directories in one another in one watch"),
            ),
            Shortage::Kernel => RpcError::limit(
                "fs.inotify.max_user_watches",
                "the kernel takes no more watches (fs.inotify.max_user_watches)",
            ),
        }
    }
}

/// Watches the tree at `below`, relative to the root. A directory that the policy, or its mode, does not let list is
/// left out; so nothing is learnt of what is in it.
pub(super) fn tree(
    _: &Confined,
    inotify: &OwnedFd,
    root: &Path,
    below: &Path,
    room: usize,
) -> Result<Placed> {
    let mut placed = Placed::default();
    let start = open::directory(CWD, root, root, OFlags::empty())?;
    let start = if below.as_os_str().is_empty() {
        start
    } else {
        open::directory(&start, below, &root.join(below), OFlags::NOFOLLOW)?
    };
    let mut levels = Vec::new();
    levels.extend(placed.enter(inotify, start, below.to_owned(), room).at(root)?);
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.pending.pop() else {
            levels.pop();
            continue;
        };
        let name = OsStr::from_bytes(name.as_bytes());
        let path = level.path.join(name);
        if levels.len() > MAX_DEPTH {
            placed.shortage = Some(Shortage::Depth);
            continue;
        }
        let Some(level) = levels.last() else { break };
        let Ok(fd) = open::directory(&level.fd, Path::new(name), &path, OFlags::NOFOLLOW) else { continue };
        levels.extend(placed.enter(inotify, fd, path, room).unwrap_or(None));
    }
    Ok(placed)
}

struct Level {
    fd: OwnedFd,
    path: PathBuf,
    pending: Vec<CString>,
}

impl Placed {
    /// Whether more was found than is named.
    pub(super) fn has_more(&self) -> bool {
        self.found.len() > MAX_FOUND
    }

    /// Watches one directory, then lists it: what appears in between is seen by one or by the other.
    fn enter(
        &mut self,
        inotify: &OwnedFd,
        fd: OwnedFd,
        path: PathBuf,
        room: usize,
    ) -> rustix::io::Result<Option<Level>> {
        if self.directories.len() >= room {
            self.shortage = Some(Shortage::Directories);
            return Ok(None);
        }
        match add(inotify, &fd, CHANGES) {
            Ok(number) => self.directories.push((number, path.clone())),
            Err(Errno::NOSPC) => {
                self.shortage = Some(Shortage::Kernel);
                return Ok(None);
            }
            Err(errno) => return Err(errno),
        }
        let mut pending = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let is_directory = entry.file_type() == FileType::Directory
                || (entry.file_type() == FileType::Unknown && is_directory(&fd, name));
            let is_temp = is_temp_name(OsStr::from_bytes(name.to_bytes())) && !is_directory;
            if self.found.len() <= MAX_FOUND && !is_temp {
                self.found.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
            if is_directory {
                if self.directories.len() + pending.len() >= room {
                    self.shortage = Some(Shortage::Directories);
                    break;
                }
                pending.push(name.to_owned());
            }
        }
        Ok(Some(Level { fd, path, pending }))
    }
}

fn is_directory(dir: impl AsFd, name: &std::ffi::CStr) -> bool {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Watches that directory itself, whatever its name leads to by now.
fn add(inotify: &OwnedFd, dir: &OwnedFd, changes: WatchFlags) -> rustix::io::Result<i32> {
    inotify::add_watch(inotify, format!("/proc/self/fd/{}", dir.as_raw_fd()), changes | ALWAYS)
}

/// What was seen of paths that are to appear, or to go.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// The watched directories.
    pub(super) directories: Vec<i32>,
    /// Whether one of the paths is not what the client believes.
    pub(super) has_changed: bool,
}

/// Watches every directory on the way to the paths, as far as there is one, and then looks. These may lie outside of
/// what the policy grants; all that is ever told is the one bit, which a launch could learn by stat(2) as well.
pub(super) fn look(_: &Confined, inotify: &OwnedFd, paths: &WatchMissingParams) -> Look {
    let mut look = Look::default();
    let missing = paths.missing.iter().map(|path| (path, false));
    let present = paths.present.iter().map(|path| (path, true));
    for (path, is_expected) in missing.chain(present) {
        if let Some(is_there) = look.follow(inotify, path.as_path()) {
            look.has_changed |= is_there != is_expected;
        }
    }
    look.directories.sort_unstable();
    look.directories.dedup();
    look
}

impl Look {
    /// Whether the path is there. `None`: it leads into /proc or the like, where everybody sees something else.
    fn follow(&mut self, inotify: &OwnedFd, path: &Path) -> Option<bool> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut dir = open::open_at(CWD, Path::new("/"), flags, Mode::empty()).ok()?;
        let mut names = path.components().filter(|part| *part != Component::RootDir).peekable();
        while let Some(name) = names.next() {
            open::refuse_pseudo(dir.as_fd(), path).ok()?;
            // Without the right to read a directory nothing can be told of it; that is no error.
            if self.directories.len() < MAX_LEADING
                && let Ok(number) = add(inotify, &dir, NAMES)
            {
                self.directories.push(number);
            }
            let name: &Path = name.as_ref();
            if names.peek().is_none() {
                return Some(rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok());
            }
            match open::open_at(&dir, name, flags, Mode::empty()) {
                Ok(next) => dir = next,
                Err(_) => return Some(false),
            }
        }
        Some(true)
    }
}
