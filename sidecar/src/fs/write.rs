//! `fs/writeFile`: by a new file and a rename where that changes nothing else, in place otherwise.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sidecar_protocol::ErrorKind;

use super::attributes::Attributes;
use super::error::{At as _, FsError, Result};
use super::open::Link;
use super::temp::Temp;
use super::{Confined, Symlinks, directory, open, pool};

/// What the kernel follows at most.
const MAX_SYMLINKS: usize = 40;

/// The mode of a new file, before the umask.
pub(super) const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// What to write.
#[derive(Debug)]
pub(crate) struct NewContent {
    pub(crate) bytes: Vec<u8>,
    /// Permission bits of a new file, before the umask.
    pub(crate) mode: Option<u32>,
    pub(crate) attributes: Attributes,
    /// Make missing parents.
    pub(crate) create_parents: bool,
}

/// Writes a file, through symlinks or not. Tells whether readers saw either the old content or the new, never a part.
pub(crate) fn write_file(
    confined: &Confined,
    path: &Path,
    content: &NewContent,
    symlinks: Symlinks,
) -> Result<bool> {
    match try_to_write(confined, path, content, symlinks) {
        Err(error) if matches!(error.errno(), Some(Errno::NOSPC | Errno::DQUOT)) => {
            // What was replaced just now may not have given back its space yet.
            pool::wait_for_space();
            try_to_write(confined, path, content, symlinks)
        }
        written => written,
    }
}

fn try_to_write(confined: &Confined, path: &Path, content: &NewContent, symlinks: Symlinks) -> Result<bool> {
    if content.create_parents
        && let Some(parent) = path.parent()
    {
        directory::create_all(parent, symlinks)?;
    }
    let place = Place::find(path, symlinks)?;
    match place.stat()? {
        Some(stat) => replace(confined, &place, &stat, content),
        None => {
            let mode = content.mode.map_or(NEW_FILE, |mode| Mode::from_raw_mode(mode & 0o7777));
            create(&place, mode, content)
        }
    }
}

/// A name in an open directory, no symlink itself.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
    /// For messages.
    pub(super) path: PathBuf,
}

impl Place {
    pub(super) fn find(path: &Path, symlinks: Symlinks) -> Result<Place> {
        let target = match symlinks {
            Symlinks::Follow => follow(path)?,
            Symlinks::Refuse => path.to_owned(),
        };
        let (dir, name) = open::parent(&target, symlinks)?;
        let place = Place { dir, name: name.to_owned(), path: target };
        match place.stat()? {
            // Refused, or put there since it was looked for.
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                Err(FsError::symlink(&place.path))
            }
            _ => Ok(place),
        }
    }

    /// What is there now.
    pub(super) fn stat(&self) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno).writing(&self.path),
        }
    }

    /// The file that is there, to be written. Its content is not touched yet.
    pub(super) fn open(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW;
        Ok(open::regular(&self.dir, Path::new(&self.name), &self.path, flags)?.0)
    }

    /// Puts a finished file in the place of the one that is there, if it can be done.
    pub(super) fn swap(&self, stat: &Stat, temp: &mut Temp, attributes: &Attributes) -> Result<bool> {
        if temp.resemble(stat).is_err() {
            return Ok(false);
        }
        attributes.apply(&temp.file).writing(&self.path)?;
        match temp.rename_to(&self.name) {
            Ok(()) => Ok(true),
            // A mount point, or a directory that takes new names but lets none go.
            Err(Errno::BUSY | Errno::ACCESS | Errno::PERM | Errno::XDEV) => Ok(false),
            Err(errno) => Err(errno).writing(&self.path),
        }
    }
}

/// Where the symlinks lead, the last of them perhaps to nothing. The kernel confines whatever is done there.
fn follow(path: &Path) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_SYMLINKS {
        match open::read_link(&target) {
            Ok(Some(Link::To(link))) => {
                let link = OsStr::from_bytes(link.to_bytes());
                target = target.parent().unwrap_or(Path::new("/")).join(link);
            }
            Ok(Some(Link::Untold)) => {
                let message = "leads through a pseudo file system";
                return Err(FsError::refused(path, ErrorKind::PermissionDenied, message));
            }
            // Not a symlink, or not there.
            Ok(None) | Err(Errno::NOENT) => return Ok(target),
            Err(errno) => return Err(errno).writing(path),
        }
    }
    Err(Errno::LOOP).writing(path)
}

/// A new file appears with its content.
fn create(place: &Place, mode: Mode, content: &NewContent) -> Result<bool> {
    let NewContent { bytes, attributes, .. } = content;
    let mut temp = match Temp::new(&place.dir, mode) {
        Ok(temp) => temp,
        // A directory that takes new names may still refuse this one; ask for the name itself to learn why.
        Err(_) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = open::open_at(&place.dir, Path::new(&place.name), flags, mode).writing(&place.path)?;
            let mut file = File::from(file);
            file.write_all(bytes).writing(&place.path)?;
            attributes.apply(&file).writing(&place.path)?;
            return Ok(false);
        }
    };
    temp.file.write_all(bytes).writing(&place.path)?;
    attributes.apply(&temp.file).writing(&place.path)?;
    temp.rename_to(&place.name).writing(&place.path)?;
    Ok(true)
}

/// An existing file keeps its mode, its owner, its links and whatever is attached to it.
fn replace(confined: &Confined, place: &Place, stat: &Stat, content: &NewContent) -> Result<bool> {
    let NewContent { bytes, attributes, .. } = content;
    let mut file = place.open()?;
    if replaceable(&file, stat)
        && let Some(mut temp) = Temp::beside(&place.dir, Mode::RUSR | Mode::WUSR).writing(&place.path)?
    {
        // A full disk is no reason to go on in place: that would cost the old content.
        temp.file.write_all(bytes).writing(&place.path)?;
        if place.swap(stat, &mut temp, attributes)? {
            confined.close_later(file);
            return Ok(true);
        }
    }
    file.set_len(0).writing(&place.path)?;
    file.write_all(bytes).writing(&place.path)?;
    attributes.apply(&file).writing(&place.path)?;
    Ok(false)
}

/// Whether a new file in its place would be the same but for its content.
pub(super) fn replaceable(file: &File, stat: &Stat) -> bool {
    let attributes = rustix::fs::flistxattr(file, &mut [0u8; 0][..]);
    let plain = matches!(attributes, Ok(0) | Err(Errno::OPNOTSUPP));
    stat.st_nlink == 1 && stat.st_uid == rustix::process::geteuid().as_raw() && plain
}
