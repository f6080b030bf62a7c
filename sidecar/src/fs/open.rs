//! Opening files so that nothing hangs, acts, or shows what only the server may see.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sidecar_protocol::ErrorKind;

use super::error::{At as _, FsError, Result};

/// On every open: a FIFO or a terminal must neither wait nor become ours.
const ALWAYS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// File systems whose files are views of the kernel, and of whoever opens them: here that is the server.
const PSEUDO: [u64; 17] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
    0x4249_4e4d, // binfmt_misc
    0x6e73_6673, // nsfs
    0x1980_0202, // mqueue
    0x1cd1,      // devpts
];

/// Whether symlinks in a path are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symlinks {
    Follow,
    /// A path that holds one, anywhere, is an error.
    Refuse,
}

impl Symlinks {
    /// What `followSymlinks` asks for.
    pub(crate) fn from_wire(follow: Option<bool>) -> Symlinks {
        if follow == Some(false) { Symlinks::Refuse } else { Symlinks::Follow }
    }

    /// How a path is resolved. Magic links of /proc lead nowhere.
    pub(super) fn resolve(self) -> ResolveFlags {
        match self {
            Symlinks::Follow => ResolveFlags::NO_MAGICLINKS,
            Symlinks::Refuse => ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS,
        }
    }
}

/// Opens an absolute path.
pub(super) fn open(path: &Path, flags: OFlags, symlinks: Symlinks) -> Result<OwnedFd> {
    let opened = match symlinks {
        Symlinks::Follow => open_at(CWD, path, flags, Mode::empty()),
        // No other call can promise it, so there is nothing to fall back on.
        Symlinks::Refuse => rustix::fs::openat2(CWD, path, always(flags), Mode::empty(), symlinks.resolve()),
    };
    opened.map_err(|errno| match errno {
        Errno::LOOP if symlinks == Symlinks::Refuse => FsError::symlink(path),
        errno => os_error(errno, flags, path),
    })
}

/// A descriptor that only stands for a place waits for nothing, and openat2 is strict about that.
fn always(flags: OFlags) -> OFlags {
    flags | if flags.contains(OFlags::PATH) { OFlags::CLOEXEC } else { ALWAYS }
}

/// Opens relative to a directory, with symlinks followed.
pub(super) fn open_at(dir: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let flags = always(flags);
    let opened = rustix::fs::openat2(&dir, path, flags, mode, Symlinks::Follow.resolve());
    match opened {
        // Older kernels, and filters that do not know the call. What is EPERM for another reason must not be tried
        // again: by then a magic link may be there.
        Err(Errno::NOSYS | Errno::PERM) if !has_openat2() => rustix::fs::openat(&dir, path, flags, mode),
        opened => opened,
    }
}

fn has_openat2() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let flags = always(OFlags::PATH);
        rustix::fs::openat2(CWD, "/", flags, Mode::empty(), Symlinks::Follow.resolve()).is_ok()
    })
}

/// A symlink.
pub(super) enum Link {
    To(CString),
    /// On a pseudo file system: the magic ones of /proc would tell what the server has open.
    Untold,
}

/// What the symlink at `path` says; `None` where something else is there. It is looked at by its own descriptor: a
/// directory on the way may be swapped for one of /proc.
pub(super) fn read_link(path: &Path) -> rustix::io::Result<Option<Link>> {
    let link = open_at(CWD, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&link)?.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    self::link(link.as_fd()).map(Some)
}

/// What the symlink says that was opened.
pub(super) fn link(link: BorrowedFd<'_>) -> rustix::io::Result<Link> {
    if is_pseudo(link)? {
        return Ok(Link::Untold);
    }
    rustix::fs::readlinkat(link, "", Vec::new()).map(Link::To)
}

/// A file to read from, with its size: a regular one, on a file system that holds files.
pub(super) fn regular(dir: impl AsFd, name: &Path, path: &Path, flags: OFlags) -> Result<(File, u64)> {
    let file = open_at(dir, name, flags, Mode::empty()).map_err(|errno| os_error(errno, flags, path))?;
    checked(file, path)
}

/// As [`regular`], of what is open already.
pub(super) fn checked(file: OwnedFd, path: &Path) -> Result<(File, u64)> {
    let stat = rustix::fs::fstat(&file).at(path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(FsError::wrong_type(path, "is a directory")),
        _ => return Err(FsError::wrong_type(path, "not a regular file")),
    }
    refuse_pseudo(file.as_fd(), path)?;
    Ok((File::from(file), u64::try_from(stat.st_size).unwrap_or(0)))
}

fn os_error(errno: Errno, flags: OFlags, path: &Path) -> FsError {
    // A socket, or a FIFO that nobody reads.
    if errno == Errno::NXIO {
        return FsError::wrong_type(path, "not a regular file");
    }
    let opened: rustix::io::Result<()> = Err(errno);
    let failed = if flags.contains(OFlags::WRONLY) { opened.writing(path) } else { opened.at(path) };
    match failed {
        Err(error) => error,
        Ok(()) => FsError::wrong_type(path, "cannot be opened"),
    }
}

/// Refuses /proc, /sys and their like.
pub(super) fn refuse_pseudo(file: BorrowedFd<'_>, path: &Path) -> Result<()> {
    if is_pseudo(file).at(path)? {
        return Err(FsError::refused(path, ErrorKind::PermissionDenied, "is on a pseudo file system"));
    }
    Ok(())
}

fn is_pseudo(file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    file_system(file).map(|kind| PSEUDO.contains(&kind))
}

/// The magic number of the file system that it is on, statfs(2).
pub(super) fn file_system(file: impl AsFd) -> rustix::io::Result<u64> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    // The type's width and sign differ by architecture; the magic numbers have 32 bits.
    Ok(kind as u64 & 0xffff_ffff)
}

/// A directory, to be listed.
pub(super) fn directory(dir: impl AsFd, name: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let opened = open_at(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | flags, Mode::empty()).at(path)?;
    refuse_pseudo(opened.as_fd(), path)?;
    Ok(opened)
}

/// The directory that holds `path`, and the name in it.
pub(super) fn parent(path: &Path, symlinks: Symlinks) -> Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or_else(|| {
        FsError::refused(path, ErrorKind::PermissionDenied, "the path must end in a name, not in / or ..")
    })?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let opened = match symlinks {
        Symlinks::Follow => open_at(CWD, dir, flags, Mode::empty()).at(path)?,
        Symlinks::Refuse => open(dir, flags, symlinks)?,
    };
    refuse_pseudo(opened.as_fd(), path)?;
    Ok((opened, name))
}

/// The path with the symlinks of its directory resolved; its last name is kept as it is.
pub(super) fn real_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    path.parent()?.canonicalize().ok().map(|dir| dir.join(name))
}
