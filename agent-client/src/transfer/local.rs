//! This side of a transfer. It is written by way of descriptors, and through no symlink below the root: what the other
//! side names cannot lead elsewhere.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};

use super::rules::{self, Rules};
use super::tree::{Listing, MODE_BITS, Node, is_temporary};
use crate::error::Error;

/// A file or a tree here, to be written.
#[derive(Debug, Clone)]
pub(super) struct LocalSide {
    /// The root where it is a directory, else the one that holds it.
    base: Arc<OwnedFd>,
    /// The root's name in `base` then.
    name: Option<PathBuf>,
    /// For messages.
    root: PathBuf,
}

impl LocalSide {
    pub(super) fn open(root: &Path) -> Result<Self, Error> {
        let is_directory = root.is_dir();
        let base = if is_directory { root } else { root.parent().unwrap_or(Path::new("/")) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::openat(CWD, base, flags, Mode::empty()).map_err(|errno| at(base, errno))?;
        let name = (!is_directory).then(|| root.file_name().map(PathBuf::from)).flatten();
        Ok(Self { base: Arc::new(base), name, root: root.to_owned() })
    }

    /// Lists a file or a tree. Not on the async threads.
    pub(super) async fn list(root: &Path, above: &[PathBuf], rules: &mut Rules) -> Result<Listing, Error> {
        rules.above(root, above);
        let (root, mut own) = (root.to_owned(), std::mem::take(rules));
        let (listed, own) = blocking(move || (list(&root, &mut own), own)).await;
        *rules = own;
        listed
    }

    /// As [`LocalSide::list`]; nothing where the root does not exist.
    pub(super) async fn list_if_there(root: &Path, rules: &mut Rules) -> Result<Listing, Error> {
        match Self::list(root, &[], rules).await {
            Err(Error::Local { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                Ok(Listing::default())
            }
            listed => listed,
        }
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
        rustix::fs::chmodat(&parent, &name, bits(mode), AtFlags::empty()).map_err(|e| self.error(below, e))
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

/// Opens a file to be read: no symlink, and nothing that an open waits for or acts on.
pub(super) fn open_regular(path: &Path) -> Result<(File, Metadata), Error> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|errno| at(path, errno))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|cause| at(path, cause))?;
    if !metadata.is_file() {
        return Err(at(path, io::Error::other("it is no regular file any more")));
    }
    Ok((file, metadata))
}

/// The time of the last change, milliseconds since 1970.
pub(super) fn modified_at_ms(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

fn at(path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::Local { path: path.to_owned(), cause: cause.into() }
}

/// Runs what blocks. A panic in it is passed on.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work)).await
}

/// Waits for a blocking task.
pub(super) async fn joined<T>(task: tokio::task::JoinHandle<T>) -> T {
    match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

fn list(root: &Path, rules: &mut Rules) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    // The root itself may be reached through a symlink; what it holds may not.
    let metadata = std::fs::metadata(root).map_err(|cause| at(root, cause))?;
    let is_directory = metadata.is_dir();
    listing.nodes.insert(PathBuf::new(), node(root, &metadata).map_err(|cause| at(root, cause))?);
    let mut waiting: Vec<PathBuf> = is_directory.then(PathBuf::new).into_iter().collect();
    while let Some(directory) = waiting.pop() {
        let at_directory = root.join(&directory);
        let entries = match std::fs::read_dir(&at_directory).and_then(Iterator::collect::<io::Result<Vec<_>>>)
        {
            Ok(entries) => entries,
            Err(cause) if directory.as_os_str().is_empty() => return Err(at(root, cause)),
            Err(cause) => {
                listing.skip(directory, cause);
                continue;
            }
        };
        if rules.wants_files() && entries.iter().any(|entry| entry.file_name() == rules::FILE) {
            match std::fs::read(at_directory.join(rules::FILE)) {
                Ok(text) => {
                    for complaint in rules.add(&directory, &text) {
                        tracing::warn!("{}: {complaint}", at_directory.join(rules::FILE).display());
                    }
                }
                Err(cause) => listing.skip(directory.join(rules::FILE), cause),
            }
        }
        for entry in entries {
            if let Some(next) = take(&mut listing, rules, root, &directory, &entry.file_name()) {
                waiting.push(next);
            }
        }
    }
    Ok(listing)
}

/// Takes over one entry; gives back a directory that is to be listed.
fn take(
    listing: &mut Listing,
    rules: &Rules,
    root: &Path,
    directory: &Path,
    name: &OsStr,
) -> Option<PathBuf> {
    let path = directory.join(name);
    let full = root.join(&path);
    if is_temporary(name.as_bytes()) {
        return None;
    }
    let found = std::fs::symlink_metadata(&full).and_then(|metadata| Ok((node(&full, &metadata)?, metadata)));
    match found {
        Ok((_, metadata)) if rules.exclude(&path, metadata.is_dir()) => {
            listing.excluded.insert(path);
            None
        }
        Ok((node, metadata)) => {
            listing.nodes.insert(path.clone(), node);
            metadata.is_dir().then_some(path)
        }
        Err(cause) => {
            listing.skip(path, cause);
            None
        }
    }
}

fn node(path: &Path, metadata: &Metadata) -> io::Result<Node> {
    let mode = metadata.permissions().mode() & 0o7777;
    Ok(if metadata.is_dir() {
        Node::Directory { mode }
    } else if metadata.is_symlink() {
        Node::Symlink { target: std::fs::read_link(path)? }
    } else if metadata.is_file() {
        Node::File { size: metadata.len(), modified_at_ms: modified_at_ms(metadata), mode }
    } else {
        Node::Other
    })
}
