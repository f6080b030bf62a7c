//! Files on the sidecar's side, typed: `fs/*` with paths mapped both ways, and names kept byte for byte.
//!
//! | module | what it owns |
//! |---|---|
//! | [`entry`] | what a file, a directory or a symlink is |
//! | [`blocks`] | files that are read and replaced in blocks |
//! | [`watch`] | what changes below a directory |
//!
//! What may be read and written is the server's to decide, under the rules of a launch; nothing is checked here.

pub mod blocks;
pub mod entry;
pub mod watch;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use sidecar_protocol::fs::{
    CanonicalizeResult, CopyParams, CreateDirectoryParams, CreateSymlinkParams, PathParams,
    ReadDirectoryResult, ReadFileResult, RemoveParams, RenameParams, WalkOptions, WalkParams, WalkResult,
    WriteFileParams, WriteFileResult,
};
use sidecar_protocol::path::Spelling;
use sidecar_protocol::process::Sandbox;
use sidecar_protocol::{BASE64, Method, WirePath};

pub use blocks::{FileReader, FileWriter};
pub use entry::{Attributes, DirEntry, Kind, Metadata, Tree, TreeEntry};
pub use watch::Changes;

use crate::client::Client;
use crate::error::Error;
use crate::mapping::Mapping;

/// The files of one sidecar. Clones share the connection.
///
/// Paths are absolute local paths, which [`Mapping`] maps, and answers are mapped back; see [`Filesystem::unmapped`].
#[derive(Debug, Clone)]
pub struct Filesystem {
    client: Client,
    /// `None`: paths are the sidecar's own.
    mapping: Option<Mapping>,
    /// What each operation asks for.
    sandbox: Option<Sandbox>,
}

impl Filesystem {
    /// The files that `client` reaches, named by local paths.
    pub fn new(client: Client, mapping: Mapping) -> Self {
        Self { client, mapping: Some(mapping), sandbox: None }
    }

    /// The same files, named by their paths on the sidecar's side: it reaches what lies outside of the workspace root.
    #[must_use]
    pub fn unmapped(&self) -> Self {
        Self { mapping: None, ..self.clone() }
    }

    /// The same files under another sandbox than the server's default, as of a launch. Watches take none.
    #[must_use]
    pub fn within(&self, sandbox: Option<Sandbox>) -> Self {
        Self { sandbox, ..self.clone() }
    }

    /// The content of a file. What does not fit one message is read in blocks, so its size is bounded by memory alone.
    ///
    /// # Errors
    /// [`Error::Rpc`], [`Error::ConnectionLost`], those of the mapping; so with all that follow.
    pub async fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        self.open(path).await?.read_to_end().await
    }

    /// The content of a small file, in one request: what has more than about 47 MiB is refused.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn read_small(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let method = Method::FsReadFile;
        let result: ReadFileResult = self.about(method, path).await?;
        decode(method, &result.data_base64)
    }

    /// Writes a file in one request. Tells whether others saw either the old content or the new, never a part; where
    /// the answer is `false`, the file was written in place, for example since it has more than one name.
    ///
    /// # Errors
    /// As [`Filesystem::read`]; [`Error::RequestTooLarge`] above about 47 MiB, for which there is
    /// [`Filesystem::replace`].
    pub async fn write(&self, path: &Path, content: &[u8], attributes: Attributes) -> Result<bool, Error> {
        let params = WriteFileParams {
            path: self.to_wire(path)?,
            data_base64: BASE64.encode(content).into(),
            mode: None,
            permissions: attributes.permissions,
            modified_at_ms: attributes.modified_at_ms,
            create_parents: attributes.create_parents,
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        let result: WriteFileResult = self.client.request(Method::FsWriteFile, &params).await?;
        Ok(result.atomic)
    }

    /// Opens a file to be read in blocks.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn open(&self, path: &Path) -> Result<FileReader, Error> {
        FileReader::open(&self.client, self.to_wire(path)?, self.sandbox.clone()).await
    }

    /// Starts a new content of a file, written in blocks. It takes the old one's place at [`FileWriter::finish`].
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn replace(&self, path: &Path, attributes: Attributes) -> Result<FileWriter, Error> {
        FileWriter::open(&self.client, self.to_wire(path)?, attributes, self.sandbox.clone()).await
    }

    /// What a path is; a symlink is described by its target.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn metadata(&self, path: &Path) -> Result<Metadata, Error> {
        self.about(Method::FsGetMetadata, path).await
    }

    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// As [`Filesystem::read`]; [`Error::TooManyEntries`] where the server does not list all of them.
    pub async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>, Error> {
        let result: ReadDirectoryResult = self.about(Method::FsReadDirectory, path).await?;
        if result.truncated {
            return Err(Error::TooManyEntries { path: path.to_owned(), listed: result.entries.len() });
        }
        let mut entries =
            result.entries.into_iter().map(DirEntry::from_wire).collect::<Result<Vec<_>, _>>()?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Everything below a directory, parents before their children, within the server's caps; `truncated` tells whether
    /// there was more.
    ///
    /// # Errors
    /// As [`Filesystem::read`], about the directory itself. What could not be looked at below it is in the answer.
    pub async fn walk(&self, path: &Path, options: WalkOptions) -> Result<Tree, Error> {
        let params = WalkParams { path: self.to_wire_exactly(path)?, options, sandbox: self.sandbox.clone() };
        let result: WalkResult = self.ask(Method::FsWalk, &params, &params.path).await?;
        Tree::from_wire(result, |path| self.to_caller(path))
    }

    /// Makes a directory. With its parents where `attributes` say so; one that is there already is fine then.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn create_dir(&self, path: &Path, attributes: Attributes) -> Result<(), Error> {
        let params = CreateDirectoryParams {
            path: self.to_wire(path)?,
            recursive: Some(attributes.create_parents),
            permissions: attributes.permissions,
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        self.done(Method::FsCreateDirectory, &params).await
    }

    /// Makes a symlink with that target, as it is; `overwrite` replaces a file or a symlink.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn create_symlink(&self, path: &Path, target: &Path, overwrite: bool) -> Result<(), Error> {
        let params = CreateSymlinkParams {
            path: self.to_wire(path)?,
            target: target.to_string_lossy().into_owned(),
            target_base64: entry::exact(target.as_os_str()),
            overwrite,
            sandbox: self.sandbox.clone(),
        };
        self.done(Method::FsCreateSymlink, &params).await
    }

    /// Removes a file, a symlink or a directory; with `recursive` all that is in it. A missing one is an error.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn remove(&self, path: &Path, recursive: bool) -> Result<(), Error> {
        let params = RemoveParams {
            path: self.to_wire(path)?,
            recursive: Some(recursive),
            force: Some(false),
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        self.done(Method::FsRemove, &params).await
    }

    /// Copies a file, or with `recursive` a tree, on the sidecar's side.
    ///
    /// # Errors
    /// As [`Filesystem::read`]; the first thing that could not be copied, when the rest is.
    pub async fn copy(&self, from: &Path, to: &Path, recursive: bool) -> Result<(), Error> {
        let params = CopyParams {
            source_path: self.to_wire(from)?,
            destination_path: self.to_wire(to)?,
            recursive,
            sandbox: self.sandbox.clone(),
        };
        self.done(Method::FsCopy, &params).await
    }

    /// Renames a file or a tree; what has the new name already is replaced only with `overwrite`.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn rename(&self, from: &Path, to: &Path, overwrite: bool) -> Result<(), Error> {
        let params = RenameParams {
            source_path: self.to_wire(from)?,
            destination_path: self.to_wire(to)?,
            overwrite,
            sandbox: self.sandbox.clone(),
        };
        self.done(Method::FsRename, &params).await
    }

    /// The path without symlinks, `.` and `..`.
    ///
    /// # Errors
    /// As [`Filesystem::read`]; [`Error::NoCounterpart`] where it leads out of the workspace root.
    pub async fn canonicalize(&self, path: &Path) -> Result<PathBuf, Error> {
        let params = PathParams {
            path: self.to_wire_exactly(path)?,
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        let result: CanonicalizeResult = self.ask(Method::FsCanonicalize, &params, &params.path).await?;
        self.to_caller(result.path.as_path())
    }

    /// Follows what changes below a directory.
    ///
    /// # Errors
    /// As [`Filesystem::read`].
    pub async fn watch(&self, path: &Path) -> Result<Changes, Error> {
        let path = self.to_wire_exactly(path)?;
        let watch = self.client.watch(&path).await.map_err(|error| plainly(error, &path))?;
        Ok(Changes::new(self.clone(), watch))
    }

    /// A path of the sidecar's as the caller names it.
    fn to_caller(&self, path: &Path) -> Result<PathBuf, Error> {
        match &self.mapping {
            Some(mapping) => {
                mapping.to_local(path).ok_or_else(|| Error::NoCounterpart { path: path.to_owned() })
            }
            None => Ok(path.to_owned()),
        }
    }

    /// Plain where that is lossless: errors come back in the same spelling and are for people.
    fn to_wire(&self, path: &Path) -> Result<WirePath, Error> {
        let path = self.to_sidecar(path)?;
        let spelling = if path.to_str().is_some() { Spelling::Plain } else { Spelling::Uri };
        Ok(WirePath::new(path, spelling))
    }

    /// For answers that hold paths: as URIs they are exact.
    fn to_wire_exactly(&self, path: &Path) -> Result<WirePath, Error> {
        Ok(WirePath::new(self.to_sidecar(path)?, Spelling::Uri))
    }

    fn to_sidecar(&self, path: &Path) -> Result<PathBuf, Error> {
        match &self.mapping {
            Some(mapping) => mapping.to_workspace(path),
            None => Ok(path.to_owned()),
        }
    }

    async fn about<R: DeserializeOwned>(&self, method: Method, path: &Path) -> Result<R, Error> {
        let params =
            PathParams { path: self.to_wire(path)?, follow_symlinks: None, sandbox: self.sandbox.clone() };
        self.client.request(method, &params).await
    }

    async fn done<P: Serialize>(&self, method: Method, params: &P) -> Result<(), Error> {
        self.client.request::<P, IgnoredAny>(method, params).await.map(drop)
    }

    async fn ask<P: Serialize, R: DeserializeOwned>(
        &self,
        method: Method,
        params: &P,
        path: &WirePath,
    ) -> Result<R, Error> {
        self.client.request(method, params).await.map_err(|error| plainly(error, path))
    }
}

/// Names a path as people write it, where the error names it by its URI.
fn plainly(error: Error, path: &WirePath) -> Error {
    match error {
        Error::Rpc { method, error: mut rpc } => {
            rpc.message = rpc.message.replace(&path.to_string(), &path.as_path().display().to_string());
            Error::Rpc { method, error: rpc }
        }
        error => error,
    }
}

/// The bytes of an answer.
fn decode(method: Method, base64: &str) -> Result<Vec<u8>, Error> {
    BASE64.decode(base64).map_err(|cause| Error::Answer {
        method: method.name(),
        cause: serde::de::Error::custom(format!("no base64: {cause}")),
    })
}
