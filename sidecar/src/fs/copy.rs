//! `fs/copy`. Symlinks are copied as symlinks, modes are kept; what is no file, directory or symlink is reported.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sidecar_protocol::ErrorKind;

use super::content::copy_content;
use super::error::{At as _, FsError, Result};
use super::remove::{MAX_DEPTH, note, read_batch};
use super::{Confined, Symlinks, open};

/// Copies what it can. The first thing that could not be copied is the error; the rest is copied all the same.
pub(crate) fn copy(_: &Confined, source: &Path, destination: &Path, recursive: bool) -> Result<()> {
    let (from, name) = open::parent(source, Symlinks::Follow)?;
    let (to, new_name) = open::parent(destination, Symlinks::Follow)?;
    let stat = rustix::fs::statat(&from, name, AtFlags::SYMLINK_NOFOLLOW).at(source)?;
    let item = Item {
        from: &from,
        name: c_string(name),
        source: source.to_owned(),
        to: &to,
        new_name: c_string(new_name),
        destination: destination.to_owned(),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return item.copy_leaf(&stat);
    }
    if !recursive {
        return Err(FsError::wrong_type(source, "is a directory, and recursive is not set"));
    }
    refuse_into_itself(source, destination)?;
    let mut first = None;
    copy_tree(&item, &mut first)?;
    first.map_or(Ok(()), Err)
}

fn refuse_into_itself(source: &Path, destination: &Path) -> Result<()> {
    let (source_real, destination_real) = (source.canonicalize().at(source)?, open::real_path(destination));
    if destination_real.is_some_and(|destination| destination.starts_with(source_real)) {
        return Err(FsError::refused(
            destination,
            ErrorKind::WrongType,
            "a directory cannot be copied into itself",
        ));
    }
    Ok(())
}

/// One thing to copy: a name in an open directory, to a name in another. The paths are for messages.
struct Item<'a> {
    from: &'a OwnedFd,
    name: CString,
    source: PathBuf,
    to: &'a OwnedFd,
    new_name: CString,
    destination: PathBuf,
}

/// A directory that is being copied. Its entries are taken in batches, so the largest directory needs no more memory.
struct Level {
    from: OwnedFd,
    entries: Dir,
    source: PathBuf,
    to: OwnedFd,
    destination: PathBuf,
    /// Subdirectories of the batch that are still to be copied.
    pending: Vec<CString>,
    /// Set at the end: the mode may forbid to add files. `None`: it was there before and keeps its own.
    mode: Option<Mode>,
}

fn copy_tree(top: &Item<'_>, first: &mut Option<FsError>) -> Result<()> {
    // What is made here must not be copied again, should it lie below the source by a bind mount.
    let level = top.enter()?;
    let made = rustix::fs::fstat(&level.to).at(&top.destination)?;
    let mut levels = vec![level];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.pending.pop() else {
            if level.copy_batch(first) {
                continue;
            }
            if let Some(mode) = level.mode {
                note(rustix::fs::fchmod(&level.to, mode).writing(&level.destination), first);
            }
            levels.pop();
            continue;
        };
        let too_deep = levels.len() == MAX_DEPTH;
        let Some(level) = levels.last() else { break };
        let item = level.item(name);
        if too_deep {
            let message = format!("more than {MAX_DEPTH} directories in one another");
            note(Err(FsError::refused(&item.source, ErrorKind::Limit, message)), first);
            continue;
        }
        let stat = rustix::fs::statat(item.from, &item.name, AtFlags::SYMLINK_NOFOLLOW);
        if stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (made.st_dev, made.st_ino)) {
            continue;
        }
        match item.enter() {
            Ok(next) => levels.push(next),
            Err(error) => note(Err(error), first),
        }
    }
    Ok(())
}

impl Level {
    /// Copies the files of the next batch and keeps its subdirectories for later. `false`: there is no more.
    fn copy_batch(&mut self, first: &mut Option<FsError>) -> bool {
        let batch = match read_batch(&mut self.entries) {
            Ok(batch) => batch,
            Err(errno) => {
                note(Err(errno).at(&self.source), first);
                return false;
            }
        };
        let mut directories = Vec::new();
        let is_end = batch.is_empty();
        for (name, _) in batch {
            let item = self.item(name);
            let stat = rustix::fs::statat(item.from, &item.name, AtFlags::SYMLINK_NOFOLLOW).at(&item.source);
            match stat {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    directories.push(item.name);
                }
                Ok(stat) => note(item.copy_leaf(&stat), first),
                Err(error) => note(Err(error), first),
            }
        }
        self.pending = directories;
        !is_end
    }

    fn item(&self, name: CString) -> Item<'_> {
        let plain = Path::new(OsStr::from_bytes(name.as_bytes()));
        Item {
            source: self.source.join(plain),
            destination: self.destination.join(plain),
            from: &self.from,
            new_name: name.clone(),
            name,
            to: &self.to,
        }
    }
}

impl Item<'_> {
    /// Makes the directory where it is missing. A directory can be opened, and its mode set, by whoever may only read it:
    /// that one is ours is known only where it was made here.
    fn enter(&self) -> Result<Level> {
        let from = open::directory(self.from, as_path(&self.name), &self.source, OFlags::NOFOLLOW)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&from).at(&self.source)?.st_mode & 0o7777);
        let mode = match rustix::fs::mkdirat(self.to, &self.new_name, Mode::RWXU) {
            Ok(()) => Some(mode),
            Err(Errno::EXIST) => None,
            Err(errno) => return Err(errno).writing(&self.destination),
        };
        let to = open::directory(self.to, as_path(&self.new_name), &self.destination, OFlags::NOFOLLOW)?;
        Ok(Level {
            entries: Dir::read_from(&from).at(&self.source)?,
            from,
            source: self.source.clone(),
            to,
            destination: self.destination.clone(),
            pending: Vec::new(),
            mode,
        })
    }

    fn copy_leaf(&self, stat: &Stat) -> Result<()> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.copy_file(),
            FileType::Symlink => self.copy_symlink(),
            _ => Err(FsError::wrong_type(&self.source, "not a file, directory or symlink; not copied")),
        }
    }

    fn copy_file(&self) -> Result<()> {
        let (source, size) = open::regular(self.from, as_path(&self.name), &self.source, OFlags::NOFOLLOW)?;
        let stat = rustix::fs::fstat(&source).at(&self.source)?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        let (destination, is_new) = self.open_destination(mode)?;
        let there = rustix::fs::fstat(&destination).at(&self.destination)?;
        if (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino) {
            return Err(FsError::refused(&self.destination, ErrorKind::WrongType, "is the source itself"));
        }
        if !is_new {
            destination.set_len(0).writing(&self.destination)?;
        }
        copy_content(&source, &destination, size).writing(&self.destination)?;
        match rustix::fs::fchmod(&destination, mode) {
            // Somebody else's file: its content was ours to write, its mode is not.
            Ok(()) | Err(Errno::PERM) if !is_new => Ok(()),
            set => set.writing(&self.destination),
        }
    }

    /// An existing file is written in place, without its content being touched yet.
    fn open_destination(&self, mode: Mode) -> Result<(File, bool)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match open::open_at(self.to, as_path(&self.new_name), flags, mode | Mode::WUSR) {
            Ok(file) => Ok((File::from(file), true)),
            Err(Errno::EXIST) => {
                let opened =
                    open::regular(self.to, as_path(&self.new_name), &self.destination, OFlags::WRONLY)?;
                Ok((opened.0, false))
            }
            Err(errno) => Err(errno).writing(&self.destination),
        }
    }

    fn copy_symlink(&self) -> Result<()> {
        let target = rustix::fs::readlinkat(self.from, &self.name, Vec::new()).at(&self.source)?;
        let make = || rustix::fs::symlinkat(&target, self.to, &self.new_name);
        let made = match make() {
            // An existing file gives way; a directory does not.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(self.to, &self.new_name, AtFlags::empty()).writing(&self.destination)?;
                make()
            }
            made => made,
        };
        made.writing(&self.destination)
    }
}

fn as_path(name: &CString) -> &Path {
    Path::new(OsStr::from_bytes(name.as_bytes()))
}

/// A name that came out of a path holds no NUL byte.
fn c_string(name: &OsStr) -> CString {
    CString::new(name.as_bytes()).unwrap_or_default()
}
