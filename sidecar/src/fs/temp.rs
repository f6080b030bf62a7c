//! A file under a name that nobody looks for, until it gets the name that it is for.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::open;

const PREFIX: &str = ".sidecar-";
const SUFFIX: &str = ".tmp";

/// Whether it is the name of such a file. Nobody is told of those that come and go.
pub(super) fn is_temp_name(name: &OsStr) -> bool {
    let middle = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
    middle.is_some_and(|middle| middle.len() == 16 && middle.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removed again unless it is renamed.
#[derive(Debug)]
pub(super) struct Temp {
    dir: OwnedFd,
    name: String,
    pub(super) file: File,
    renamed: bool,
}

impl Temp {
    pub(super) fn new(dir: impl AsFd, mode: Mode) -> std::io::Result<Temp> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let name = format!("{PREFIX}{:016x}{SUFFIX}", u64::from_ne_bytes(random));
        let dir = dir.as_fd().try_clone_to_owned()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = File::from(open::open_at(&dir, Path::new(&name), flags, mode)?);
        Ok(Temp { dir, name, file, renamed: false })
    }

    /// The same; `None` where the directory takes no new names. Where there is no room for one it is an error: whoever went on
    /// in place then would lose the old content.
    pub(super) fn beside(dir: impl AsFd, mode: Mode) -> std::io::Result<Option<Temp>> {
        match Temp::new(dir, mode) {
            Ok(temp) => Ok(Some(temp)),
            Err(error) if is_shortage(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Gives it the mode and the group of another file.
    pub(super) fn resemble(&self, stat: &Stat) -> rustix::io::Result<()> {
        if rustix::fs::fstat(&self.file)?.st_gid != stat.st_gid {
            rustix::fs::fchown(&self.file, None, Some(Gid::from_raw(stat.st_gid)))?;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(stat.st_mode & 0o7777))
    }

    pub(super) fn rename_to(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat(&self.dir, &self.name, &self.dir, name)?;
        self.renamed = true;
        Ok(())
    }
}

fn is_shortage(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.renamed {
            // On whatever thread: the directory was opened on a confined one, and to unlink a name follows nothing. The
            // file was never anybody's; where even this fails there is nobody to tell.
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}
