//! This side of a transfer: listed, and opened to be read. None of it on the async threads.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use super::rules::{self, Rules};
use super::tree::{Listing, Node, is_temporary};
use crate::error::Error;

/// Lists a file or a tree. Not on the async threads.
pub(super) async fn list(root: &Path, above: &[PathBuf], rules: &mut Rules) -> Result<Listing, Error> {
    rules.above(root, above);
    let (root, mut own) = (root.to_owned(), std::mem::take(rules));
    let (listed, own) = blocking(move || (list_now(&root, &mut own), own)).await;
    *rules = own;
    listed
}

/// As [`list`]; nothing where the root does not exist.
pub(super) async fn list_if_there(root: &Path, rules: &mut Rules) -> Result<Listing, Error> {
    match list(root, &[], rules).await {
        Err(Error::Local { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(Listing::default()),
        listed => listed,
    }
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

pub(super) fn at(path: &Path, cause: impl Into<io::Error>) -> Error {
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

fn list_now(root: &Path, rules: &mut Rules) -> Result<Listing, Error> {
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
