//! `fs/createSymlink`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::error::{At as _, FsError, Result};
use super::remove::refuse_roots;
use super::{Confined, Symlinks, open};

/// Makes a symlink. What it points to is not looked at: whoever follows it is confined then.
pub(crate) fn create_symlink(confined: &Confined, path: &Path, target: &[u8], overwrite: bool) -> Result<()> {
    let target = OsStr::from_bytes(target);
    let (dir, name) = open::parent(path, Symlinks::Follow)?;
    match rustix::fs::symlinkat(target, &dir, name) {
        Err(Errno::EXIST) if overwrite => {}
        made => return made.writing(path),
    }
    refuse_roots(confined, path)?;
    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Err(FsError::wrong_type(path, "is a directory, which no symlink replaces"));
    }
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).map_err(std::io::Error::other).writing(path)?;
    let temporary = format!(".sidecar-{:016x}.tmp", u64::from_ne_bytes(random));
    rustix::fs::symlinkat(target, &dir, &temporary).writing(path)?;
    rustix::fs::renameat(&dir, &temporary, &dir, name)
        .inspect_err(|_| {
            // Nobody knows the name; where even this fails there is nobody to tell.
            let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
        })
        .writing(path)
}
