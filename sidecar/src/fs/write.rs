//! `fs/writeFile`: by a new file and a rename where that changes nothing else, in place otherwise.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::error::{At as _, Result};
use super::{Confined, open};

/// What the kernel follows at most.
const MAX_SYMLINKS: usize = 40;

/// The mode of a new file, before the umask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// What to write.
#[derive(Debug)]
pub(crate) struct NewContent {
    pub(crate) bytes: Vec<u8>,
    /// Permission bits of a new file, before the umask.
    pub(crate) mode: Option<u32>,
    /// Make missing parents.
    pub(crate) create_parents: bool,
}

/// Writes a file, through symlinks. Tells whether readers saw either the old content or the new, never a part.
pub(crate) fn write_file(_: &Confined, path: &Path, content: &NewContent) -> Result<bool> {
    if content.create_parents
        && let Some(parent) = path.parent()
    {
        std::fs::create_dir_all(parent).writing(parent)?;
    }
    let target = follow(path)?;
    let (dir, name) = open::parent(&target)?;
    let mode = content.mode.map_or(NEW_FILE, |mode| Mode::from_raw_mode(mode & 0o7777));
    match stat(&dir, name) {
        Ok(stat) => replace(&dir, name, &target, &stat, &content.bytes),
        Err(Errno::NOENT) => create(&dir, name, &target, mode, &content.bytes),
        Err(errno) => Err(errno).writing(&target),
    }
}

fn stat(dir: &OwnedFd, name: &OsStr) -> rustix::io::Result<Stat> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Where the symlinks lead, the last of them perhaps to nothing. The kernel confines whatever is done there.
fn follow(path: &Path) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_SYMLINKS {
        match rustix::fs::readlinkat(CWD, &target, Vec::new()) {
            Ok(link) => {
                let link =
                    OsString::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(link.to_bytes()));
                target = target.parent().unwrap_or(Path::new("/")).join(link);
            }
            // Not a symlink, or not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(target),
            Err(errno) => return Err(errno).writing(path),
        }
    }
    Err(Errno::LOOP).writing(path)
}

/// A new file appears with its content.
fn create(dir: &OwnedFd, name: &OsStr, path: &Path, mode: Mode, bytes: &[u8]) -> Result<bool> {
    let mut temp = match Temp::new(dir, mode) {
        Ok(temp) => temp,
        // A directory that takes new names may still refuse this one; ask for the name itself to learn why.
        Err(_) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = open::open_at(dir, Path::new(name), flags, mode).writing(path)?;
            File::from(file).write_all(bytes).writing(path)?;
            return Ok(false);
        }
    };
    temp.file.write_all(bytes).writing(path)?;
    temp.rename_to(name).writing(path)?;
    Ok(true)
}

/// An existing file keeps its mode, its owner, its links and whatever is attached to it.
fn replace(dir: &OwnedFd, name: &OsStr, path: &Path, stat: &Stat, bytes: &[u8]) -> Result<bool> {
    let (file, _) = open::regular(dir, Path::new(name), path, OFlags::WRONLY | OFlags::NOFOLLOW)?;
    if replaceable(&file, stat)
        && let Some(temp) = twin(dir, stat, bytes)
    {
        match temp.rename_to(name) {
            Ok(()) => return Ok(true),
            // A mount point, or a directory that takes new names but lets none go.
            Err(Errno::BUSY | Errno::ACCESS | Errno::PERM | Errno::XDEV) => {}
            Err(errno) => return Err(errno).writing(path),
        }
    }
    in_place(file, bytes).writing(path)?;
    Ok(false)
}

/// Whether a new file in its place would be the same but for its content.
fn replaceable(file: &File, stat: &Stat) -> bool {
    let attributes = rustix::fs::flistxattr(file, &mut [0u8; 0][..]);
    let plain = matches!(attributes, Ok(0) | Err(Errno::OPNOTSUPP));
    stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw() && plain
}

/// A new file with the mode and group of the old one. `None`: there cannot be one.
fn twin<'a>(dir: &'a OwnedFd, stat: &Stat, bytes: &[u8]) -> Option<Temp<'a>> {
    let mut temp = Temp::new(dir, Mode::RUSR | Mode::WUSR).ok()?;
    let made = rustix::fs::fstat(&temp.file).ok()?;
    if made.st_gid != stat.st_gid {
        rustix::fs::fchown(&temp.file, None, Some(Gid::from_raw(stat.st_gid))).ok()?;
    }
    // Lack of space is no reason to destroy the old content in place either; but that decision is the caller's.
    temp.file.write_all(bytes).ok()?;
    rustix::fs::fchmod(&temp.file, Mode::from_raw_mode(stat.st_mode & 0o7777)).ok()?;
    Some(temp)
}

fn in_place(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    file.set_len(0)?;
    file.write_all(bytes)
}

/// A file under a name that nobody looks for, removed again unless it is renamed.
struct Temp<'a> {
    dir: BorrowedFd<'a>,
    name: String,
    file: File,
    renamed: bool,
}

impl<'a> Temp<'a> {
    fn new(dir: &'a OwnedFd, mode: Mode) -> std::io::Result<Temp<'a>> {
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let name = format!(".sidecar-{:016x}.tmp", u64::from_ne_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = File::from(open::open_at(dir, Path::new(&name), flags, mode)?);
        Ok(Temp { dir: dir.as_fd(), name, file, renamed: false })
    }

    fn rename_to(mut self, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat(self.dir, &self.name, self.dir, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // It was never anybody's; where even this fails there is nobody to tell.
            let _ = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}
