//! The sidecar's side of a transfer: listed directory by directory, many at once, so that a tree of any size passes
//! under the server's caps, and nothing is listed that the rules leave out.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sidecar_protocol::error::NOT_FOUND;
use sidecar_protocol::fs::{EntryKind, WalkOptions};

use super::rules::{self, Rules};
use super::tree::{Listing, Node, is_temporary};
use crate::error::Error;
use crate::filesystem::{Filesystem, Tree, TreeEntry};

/// Directories that are listed at once.
const LISTINGS: usize = 32;

/// A file or a tree on the sidecar's side.
#[derive(Debug)]
pub(crate) struct RemoteSide {
    files: Filesystem,
    root: PathBuf,
}

impl RemoteSide {
    /// `files` takes the sidecar's own paths.
    pub(crate) fn new(files: Filesystem, root: PathBuf) -> Self {
        Self { files, root }
    }

    pub(super) fn files(&self) -> &Filesystem {
        &self.files
    }

    /// Where a path below the root is.
    pub(crate) fn at(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.root.clone() } else { self.root.join(below) }
    }

    /// As [`RemoteSide::list`]; nothing where the root does not exist.
    pub(super) async fn list_if_there(&self, rules: &mut Rules) -> Result<Listing, Error> {
        match self.list(rules).await {
            Err(Error::Rpc { error, .. }) if error.code == NOT_FOUND => Ok(Listing::default()),
            listed => listed,
        }
    }

    pub(crate) async fn list(&self, rules: &mut Rules) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let metadata = self.files.metadata(&self.root).await?;
        let root = if metadata.is_directory {
            Node::Directory { mode: metadata.mode }
        } else if metadata.is_file {
            Node::File { size: metadata.size, modified_at_ms: metadata.modified_at_ms, mode: metadata.mode }
        } else {
            Node::Other
        };
        listing.nodes.insert(PathBuf::new(), root);
        if !metadata.is_directory {
            return Ok(listing);
        }
        let mut waiting = vec![PathBuf::new()];
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < LISTINGS
                && let Some(directory) = waiting.pop()
            {
                running.push(self.directory(directory, rules.wants_files()));
            }
            let Some((directory, listed)) = running.next().await else { return Ok(listing) };
            match listed {
                Ok((tree, text)) => {
                    if let Some(text) = text {
                        for complaint in rules.add(&directory, &text) {
                            tracing::warn!(
                                "{}: {complaint}",
                                self.at(&directory).join(rules::FILE).display()
                            );
                        }
                    }
                    waiting.extend(self.take(&mut listing, &directory, tree, rules));
                }
                Err(error) if directory.as_os_str().is_empty() || !matches!(error, Error::Rpc { .. }) => {
                    return Err(error);
                }
                Err(error) => listing.skip(directory, reason(&error)),
            }
        }
    }

    /// One directory, and the rules that it holds.
    async fn directory(
        &self,
        directory: PathBuf,
        wants_rules: bool,
    ) -> (PathBuf, Result<(Tree, Option<Vec<u8>>), Error>) {
        let listed = async {
            let options = WalkOptions { max_depth: Some(1), details: Some(true), ..WalkOptions::default() };
            let at = self.at(&directory);
            let tree = self.files.walk(&at, options).await?;
            let file = at.join(rules::FILE);
            let has_rules = tree.entries.iter().any(|e| e.path == file && e.kind == EntryKind::File);
            let text = if wants_rules && has_rules { Some(self.files.read(&file).await?) } else { None };
            Ok((tree, text))
        };
        let listed = listed.await;
        (directory, listed)
    }

    /// Takes over the entries of one directory; gives back those to be listed next.
    fn take(&self, listing: &mut Listing, directory: &Path, tree: Tree, rules: &Rules) -> Vec<PathBuf> {
        let mut next = Vec::new();
        for (path, message) in tree.errors {
            listing
                .skip(path.strip_prefix(&self.root).map_or_else(|_| path.clone(), Path::to_owned), message);
        }
        if tree.truncated {
            listing
                .skip(directory, "has more entries than the server lists in one answer; the rest is missing");
        }
        for entry in tree.entries {
            // Whatever a server says, nothing is written beside the destination.
            let name = entry.path.file_name().filter(|name| self.at(directory).join(name) == entry.path);
            let Some(name) = name else {
                listing.skip(&entry.path, "the server listed it where it does not belong");
                continue;
            };
            let path = directory.join(name);
            let is_directory = entry.kind == EntryKind::Directory;
            if is_temporary(name.as_bytes()) {
                continue;
            }
            if rules.exclude(&path, is_directory) {
                listing.excluded.insert(path);
                continue;
            }
            match node(&entry) {
                Some(node) => {
                    if is_directory {
                        next.push(path.clone());
                    }
                    listing.nodes.insert(path, node);
                }
                None => listing.skip(path, "it cannot be looked at"),
            }
        }
        next
    }
}

fn node(entry: &TreeEntry) -> Option<Node> {
    let details = entry.details.as_ref()?;
    Some(match entry.kind {
        EntryKind::File => {
            Node::File { size: details.size, modified_at_ms: details.modified_at_ms, mode: details.mode }
        }
        EntryKind::Directory => Node::Directory { mode: details.mode },
        EntryKind::Symlink => Node::Symlink { target: details.symlink_target.clone()? },
        EntryKind::Other => Node::Other,
    })
}

/// An error without the method that told it: whoever reads it asked for a file.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::Rpc { error, .. } => error.message.clone(),
        error => error.to_string(),
    }
}
