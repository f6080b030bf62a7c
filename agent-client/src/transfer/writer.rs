//! Writes this side of a transfer: by way of descriptors, and through no symlink below the root, so that what the other side
//! names cannot lead elsewhere.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};

use super::local::at;
use super::tree::MODE_BITS;
use crate::error::Error;

/// A file or a tree here, to be written.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    /// The root where it is a directory, else the one that holds it.
    base: Arc<OwnedFd>,
    /// The root's name in `base` then.
    name: Option<PathBuf>,
    /// For messages.
    root: PathBuf,
}

impl Writer {
    pub(super) fn open(root: &Path) -> Result<Self, Error> {
        let is_directory = root.is_dir();
        let base = if is_directory { root } else { root.parent().unwrap_or(Path::new("/")) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::openat(CWD, base, flags, Mode::empty()).map_err(|errno| at(base, errno))?;
        let name = (!is_directory).then(|| root.file_name().map(PathBuf::from)).flatten();
        Ok(Self { base: Arc::new(base), name, root: root.to_owned() })
    }

    /// The path below `base` of a path below the root.
    fn within(&self, below: &Path) -> PathBuf {
        match &self.name {
            Some(name) if below.as_os_str().is_empty() => name.clone(),
            Some(name) => name.join(below),
            None => below.to_owned(),
        }
    }

    fn error(&self, below: &Path, cause: impl Into<io::Error>) -> Error {
        at(&self.root.join(below), cause)
    }

    /// The directory of a path, and its name there.
    fn parent(&self, below: &Path) -> Result<(OwnedFd, PathBuf), Error> {
        let path = self.within(below);
        let name = path.file_name().ok_or_else(|| self.error(below, io::ErrorKind::InvalidInput))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = self.base.try_clone().map_err(|e| self.error(below, e))?;
        for part in path.parent().into_iter().flat_map(Path::iter) {
            directory = rustix::fs::openat(&directory, part, flags, Mode::empty())
                .map_err(|errno| self.error(below, errno))?;
        }
        Ok((directory, PathBuf::from(name)))
    }

    /// Makes a directory; one that is there already is fine.
    pub(super) fn create_dir(&self, below: &Path, mode: u32) -> Result<(), Error> {
        let (parent, name) = self.parent(below)?;
        match rustix::fs::mkdirat(&parent, &name, Mode::RWXU) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(self.error(below, errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&parent, &name, flags, Mode::empty())
            .and_then(|made| rustix::fs::fchmod(&made, bits(mode)))
            .map_err(|errno| self.error(below, errno))
    }

    /// Makes a symlink, in the place of a file or a symlink.
    pub(super) fn create_symlink(&self, below: &Path, target: &Path) -> Result<(), Error> {
        let (parent, name) = self.parent(below)?;
        let temporary = temporary_name();
        rustix::fs::symlinkat(target, &parent, &temporary).map_err(|errno| self.error(below, errno))?;
        rustix::fs::renameat(&parent, &temporary, &parent, &name).map_err(|errno| {
            forget(&parent, &temporary);
            self.error(below, errno)
        })
    }

    /// Removes a file or a symlink, or an empty directory.
    pub(super) fn remove(&self, below: &Path, is_directory: bool) -> Result<(), Error> {
        let (parent, name) = self.parent(below)?;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&parent, &name, flags).map_err(|errno| self.error(below, errno))
    }

    /// Starts a file. It gets its name at [`NewFile::finish`].
    pub(super) fn create(&self, below: &Path) -> Result<NewFile, Error> {
        let (directory, name) = self.parent(below)?;
        let temporary = temporary_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, &temporary, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| self.error(below, errno))?;
        Ok(NewFile {
            file: File::from(file),
            directory,
            temporary,
            name,
            path: self.root.join(below),
            done: false,
        })
    }
}

/// A file that is being written; removed again unless it is finished.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    directory: OwnedFd,
    temporary: String,
    name: PathBuf,
    path: PathBuf,
    done: bool,
}

impl NewFile {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        io::Write::write_all(&mut self.file, bytes).map_err(|cause| at(&self.path, cause))
    }

    /// Puts it in its place.
    pub(super) fn finish(mut self, mode: u32, modified_at_ms: i64) -> Result<(), Error> {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification = Timespec {
            tv_sec: modified_at_ms.div_euclid(1000),
            tv_nsec: modified_at_ms.rem_euclid(1000) * 1_000_000,
        };
        rustix::fs::fchmod(&self.file, bits(mode))
            .and_then(|()| rustix::fs::futimens(&self.file, &Timestamps { last_access, last_modification }))
            .and_then(|()| {
                rustix::fs::renameat(&self.directory, &self.temporary, &self.directory, &self.name)
            })
            .map_err(|errno| at(&self.path, errno))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.done {
            forget(&self.directory, &self.temporary);
        }
    }
}

fn forget(directory: &OwnedFd, temporary: &str) {
    // Where even this fails there is nobody to tell, and no transfer takes a file of that name along.
    let _ = rustix::fs::unlinkat(directory, temporary, AtFlags::empty());
}

fn temporary_name() -> String {
    // The standard library's own source of random numbers; a name that exists already is an error, not a danger.
    format!(".agent-client-{:016x}.tmp", RandomState::new().build_hasher().finish())
}

fn bits(mode: u32) -> Mode {
    Mode::from_raw_mode((mode & MODE_BITS) as _)
}
