//! Opening files so that nothing hangs, acts, or shows what only the server may see.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

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

/// Opens relative to a directory. Magic links of /proc lead nowhere.
pub(super) fn open_at(dir: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    // A descriptor that only stands for a place waits for nothing, and openat2 is strict about that.
    let flags = flags | if flags.contains(OFlags::PATH) { OFlags::CLOEXEC } else { ALWAYS };
    let opened = rustix::fs::openat2(&dir, path, flags, mode, ResolveFlags::NO_MAGICLINKS);
    match opened {
        // Older kernels, and filters that do not know the call. A real EPERM comes again.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&dir, path, flags, mode),
        opened => opened,
    }
}

/// A file to read from, with its size: a regular one, on a file system that holds files.
pub(super) fn regular(dir: impl AsFd, name: &Path, path: &Path, flags: OFlags) -> Result<(File, u64)> {
    let file = open_at(dir, name, flags, Mode::empty()).map_err(|errno| match errno {
        // A socket, or a FIFO that nobody reads.
        Errno::NXIO => FsError::wrong_type(path, "not a regular file"),
        errno => os_error(errno, flags, path),
    })?;
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
    let opened: rustix::io::Result<()> = Err(errno);
    let failed = if flags.contains(OFlags::WRONLY) { opened.writing(path) } else { opened.at(path) };
    match failed {
        Err(error) => error,
        Ok(()) => FsError::wrong_type(path, "cannot be opened"),
    }
}

/// Refuses /proc, /sys and their like.
pub(super) fn refuse_pseudo(file: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let kind = rustix::fs::fstatfs(file).at(path)?.f_type;
    // The type's width and sign differ by architecture; the magic numbers have 32 bits.
    if PSEUDO.contains(&(kind as u64 & 0xffff_ffff)) {
        return Err(FsError::refused(path, ErrorKind::PermissionDenied, "is on a pseudo file system"));
    }
    Ok(())
}

/// A directory, to be listed.
pub(super) fn directory(dir: impl AsFd, name: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let opened = open_at(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | flags, Mode::empty()).at(path)?;
    refuse_pseudo(opened.as_fd(), path)?;
    Ok(opened)
}

/// The directory that holds `path`, and the name in it.
pub(super) fn parent(path: &Path) -> Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or_else(|| {
        FsError::refused(path, ErrorKind::PermissionDenied, "the path must end in a name, not in / or ..")
    })?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let opened = open_at(CWD, dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).at(path)?;
    refuse_pseudo(opened.as_fd(), path)?;
    Ok((opened, name))
}

/// The path with the symlinks of its directory resolved; its last name is kept as it is.
pub(super) fn real_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    path.parent()?.canonicalize().ok().map(|dir| dir.join(name))
}
