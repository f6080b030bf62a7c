//! A patch over files of the sidecar: all of it, or nothing. Every hunk is tried before anything is written; where a write
//! fails then, what was written before it is put back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sidecar_protocol::error::NOT_FOUND;

use super::{Change, Misfit, Patch, apply};
use crate::error::Error;
use crate::filesystem::{Attributes, Filesystem};

/// Which files a patch has changed, in its order, by the paths that it names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// New ones.
    pub added: Vec<PathBuf>,
    /// Those that have changed, by their new names where they were moved.
    pub modified: Vec<PathBuf>,
    /// Those that have gone; what was moved is not among them.
    pub deleted: Vec<PathBuf>,
}

/// Why a patch was not applied. No file has changed, unless [`PatchError::NotRolledBack`] says so.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// A hunk's lines are not in its file.
    #[error("{}: {misfit}", path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// Which hunk, and why.
        misfit: Misfit,
    },
    /// A file that is to be added, or a new name, is there.
    #[error("{} exists already; update it, or delete it in the same patch first", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file that is to be changed or deleted is not there.
    #[error("{} does not exist, or was deleted before in this patch", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It is no text, so it has no lines.
    #[error("{} is not UTF-8 text, so no patch applies to it; change it by a command", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: Error,
    },
    /// A write failed, and so did putting back what had been written before it.
    #[error("{cause}; these files could not be put back as they were: {}", listed(left))]
    NotRolledBack {
        /// What failed first.
        cause: Box<PatchError>,
        /// Which files differ from what they were, and why.
        left: Vec<(PathBuf, Error)>,
    },
}

fn listed(left: &[(PathBuf, Error)]) -> String {
    left.iter().map(|(path, error)| format!("{} ({error})", path.display())).collect::<Vec<_>>().join(", ")
}

/// A file as it is, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    bytes: Vec<u8>,
    /// Permission bits; of a new file, what the server gives it.
    mode: Option<u32>,
}

/// The files that a patch names, before and after; `None` is no file.
#[derive(Debug, Default)]
struct Stage {
    before: BTreeMap<PathBuf, Option<Content>>,
    after: BTreeMap<PathBuf, Option<Content>>,
}

/// Applies a patch. `at` gives the path for `files` of a path that the patch names.
///
/// # Errors
/// [`PatchError`].
pub async fn commit(
    patch: &Patch,
    files: &Filesystem,
    at: impl Fn(&Path) -> Result<PathBuf, Error>,
) -> Result<Applied, PatchError> {
    let mut stage = Stage::default();
    let mut applied = Applied::default();
    for change in &patch.changes {
        stage.take(change, files, &at, &mut applied).await?;
    }
    stage.write(files).await?;
    Ok(applied)
}

impl Stage {
    /// Works out one change, over those before it.
    async fn take(
        &mut self,
        change: &Change,
        files: &Filesystem,
        at: &impl Fn(&Path) -> Result<PathBuf, Error>,
        applied: &mut Applied,
    ) -> Result<(), PatchError> {
        let place = |path: &Path| at(path).map_err(|cause| PatchError::File { path: path.to_owned(), cause });
        match change {
            Change::Add { path, content } => {
                let to = place(path)?;
                self.vacant(files, &to, path).await?;
                self.after.insert(to, Some(Content { bytes: content.clone().into_bytes(), mode: None }));
                applied.added.push(path.clone());
            }
            Change::Delete { path } => {
                let from = place(path)?;
                self.current(files, &from, path).await?;
                self.after.insert(from, None);
                applied.deleted.push(path.clone());
            }
            Change::Update { path, move_to, hunks } => {
                let from = place(path)?;
                let old = self.current(files, &from, path).await?;
                let text = std::str::from_utf8(&old.bytes)
                    .map_err(|_| PatchError::NotText { path: path.clone() })?;
                let text =
                    apply(text, hunks).map_err(|misfit| PatchError::Misfit { path: path.clone(), misfit })?;
                let new = Some(Content { bytes: text.into_bytes(), mode: old.mode });
                let Some(name) = move_to.as_ref().filter(|name| *name != path) else {
                    self.after.insert(from, new);
                    applied.modified.push(path.clone());
                    return Ok(());
                };
                let to = place(name)?;
                self.vacant(files, &to, name).await?;
                self.after.insert(from, None);
                self.after.insert(to, new);
                applied.modified.push(name.clone());
            }
        }
        Ok(())
    }

    /// What a file is after the changes so far; read once.
    async fn look(
        &mut self,
        files: &Filesystem,
        at: &Path,
        name: &Path,
    ) -> Result<Option<Content>, PatchError> {
        if let Some(content) = self.after.get(at) {
            return Ok(content.clone());
        }
        let content = match read(files, at).await {
            Ok(content) => Some(content),
            Err(Error::Rpc { error, .. }) if error.code == NOT_FOUND => None,
            Err(cause) => return Err(PatchError::File { path: name.to_owned(), cause }),
        };
        self.before.insert(at.to_owned(), content.clone());
        self.after.insert(at.to_owned(), content.clone());
        Ok(content)
    }

    async fn current(&mut self, files: &Filesystem, at: &Path, name: &Path) -> Result<Content, PatchError> {
        self.look(files, at, name).await?.ok_or_else(|| PatchError::Missing { path: name.to_owned() })
    }

    async fn vacant(&mut self, files: &Filesystem, at: &Path, name: &Path) -> Result<(), PatchError> {
        match self.look(files, at, name).await? {
            Some(_) => Err(PatchError::Exists { path: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// Writes what differs, new content before what goes, so that a lost connection leaves too much and not too little.
    async fn write(self, files: &Filesystem) -> Result<(), PatchError> {
        let changed = || self.after.iter().filter(|(path, after)| self.before.get(*path) != Some(*after));
        let written = changed().filter(|(_, after)| after.is_some());
        let removed = changed().filter(|(_, after)| after.is_none());
        let mut undo = Undo::default();
        for (path, after) in written.chain(removed) {
            let before = self.before.get(path).cloned().flatten();
            undo.note(files, path, before).await;
            if let Err(cause) = put(files, path, after.as_ref()).await {
                let cause = PatchError::File { path: path.clone(), cause };
                return Err(undo.run(files, cause).await);
            }
        }
        Ok(())
    }
}

async fn read(files: &Filesystem, at: &Path) -> Result<Content, Error> {
    let metadata = files.metadata(at).await?;
    Ok(Content { bytes: files.read(at).await?, mode: Some(metadata.mode & 0o777) })
}

/// Makes a file what it is to be.
async fn put(files: &Filesystem, at: &Path, content: Option<&Content>) -> Result<(), Error> {
    let Some(content) = content else { return files.remove(at, false).await };
    let attributes = Attributes { permissions: content.mode, create_parents: true, ..Attributes::default() };
    files.write(at, &content.bytes, attributes).await.map(drop)
}

/// What has been done so far, and what was there before.
#[derive(Default)]
struct Undo {
    files: Vec<(PathBuf, Option<Content>)>,
    /// Directories that were not there, the outermost last.
    directories: Vec<PathBuf>,
}

impl Undo {
    async fn note(&mut self, files: &Filesystem, path: &Path, before: Option<Content>) {
        if before.is_none() {
            for parent in path.ancestors().skip(1) {
                let is_missing = matches!(files.metadata(parent).await, Err(Error::Rpc { error, .. }) if error.code == NOT_FOUND);
                if !is_missing {
                    break;
                }
                self.directories.push(parent.to_owned());
            }
        }
        self.files.push((path.to_owned(), before));
    }

    /// Puts everything back; the error to tell.
    async fn run(self, files: &Filesystem, cause: PatchError) -> PatchError {
        let mut left = Vec::new();
        for (path, before) in self.files.into_iter().rev() {
            match put(files, &path, before.as_ref()).await {
                // The one that failed may not have come to be.
                Err(Error::Rpc { error, .. }) if before.is_none() && error.code == NOT_FOUND => {}
                Err(error) if !unchanged(files, &path, before.as_ref()).await => left.push((path, error)),
                _ => {}
            }
        }
        for directory in self.directories {
            // One that somebody else uses by now stays.
            let _ = files.remove(&directory, false).await;
        }
        if left.is_empty() { cause } else { PatchError::NotRolledBack { cause: Box::new(cause), left } }
    }
}

/// Whether a file is as it was: one that cannot be written could not be changed either.
async fn unchanged(files: &Filesystem, path: &Path, before: Option<&Content>) -> bool {
    match read(files, path).await {
        Ok(content) => before == Some(&content),
        Err(Error::Rpc { error, .. }) => before.is_none() && error.code == NOT_FOUND,
        Err(_) => false,
    }
}
