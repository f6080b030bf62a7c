//! `fs/canonicalize`.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::error::{At as _, Result};
use super::{Confined, Symlinks, open};

/// The path without symlinks, `.` and `..`. It is opened first: the kernel then knows its name, and magic links of
/// /proc, which would tell what the server has open, lead nowhere.
pub(crate) fn canonicalize(_: &Confined, path: &Path) -> Result<PathBuf> {
    let place = open::open(path, OFlags::PATH, Symlinks::Follow)?;
    open::refuse_pseudo(place.as_fd(), path)?;
    let link = format!("/proc/self/fd/{}", place.as_raw_fd());
    let name = rustix::fs::readlinkat(CWD, link, Vec::new()).at(path)?;
    let name = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    // A file that has lost its name since is called "/its/name (deleted)".
    let opened = rustix::fs::fstat(&place).at(path)?;
    let named = rustix::fs::statat(CWD, &name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
    if (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino) {
        Ok(name)
    } else {
        Err(Errno::NOENT).at(path)
    }
}
