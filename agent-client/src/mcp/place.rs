//! Paths as a model writes them: relative to the workspace root, or absolute, by either side's name.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::Error;
use crate::filesystem::Filesystem;
use crate::gateway::Translator;
use crate::mapping::Mapping;

/// Where paths lead.
pub(super) struct Place {
    /// By the sidecar's own paths.
    files: Filesystem,
    mapping: Mapping,
    local_root: PathBuf,
    /// On the sidecar's side.
    root: PathBuf,
    /// Whether the sidecar runs in this process, so that its files are the ones here.
    is_here: bool,
}

impl Place {
    /// # Errors
    /// [`Error::WorkspaceRootUnknown`].
    pub(super) fn new(environment: &Environment) -> Result<Self, Error> {
        let mapping = environment.mapping().clone();
        let local_root = mapping.local_root().to_owned();
        let root = mapping.to_workspace(&local_root)?;
        let files = environment.files().unmapped();
        Ok(Self { files, mapping, local_root, root, is_here: environment.is_embedded() })
    }

    pub(super) fn local_root(&self) -> &Path {
        &self.local_root
    }

    /// The files, by paths as [`Place::there`] gives them.
    pub(super) fn files(&self) -> &Filesystem {
        &self.files
    }

    pub(super) fn translator(&self) -> Translator {
        Translator::new(self.mapping.clone())
    }

    /// The path on the sidecar's side. One below the local root is mapped; any other absolute one is the sidecar's own, for
    /// that is what commands print.
    pub(super) fn there(&self, path: &str) -> PathBuf {
        let path = self.root.join(path);
        self.mapping.to_workspace(&path).unwrap_or(path)
    }

    /// A directory to run in, as a launch names it.
    ///
    /// # Errors
    /// [`Error::NoCounterpart`]: it is outside of the workspace root.
    pub(super) fn workdir(&self, path: &str) -> Result<PathBuf, Error> {
        let there = self.there(path);
        self.mapping.to_local(&there).ok_or(Error::NoCounterpart { path: there })
    }

    /// A path on the sidecar's side, as it is told: relative to the root where it is below it.
    pub(super) fn told(&self, there: &Path) -> String {
        match there.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
            Ok(below) => below.display().to_string(),
            Err(_) => there.display().to_string(),
        }
    }

    /// What a model is told of all tools.
    pub(super) fn instructions(&self) -> String {
        let mut text = format!(
            "Commands and files of a sandbox whose workspace root is {}. Relative paths start there. Commands can write \
             there and in their temporary directory; what the sandbox refuses fails with \"Permission denied\", and trying \
             again does not help.",
            self.root.display()
        );
        if !self.is_here {
            text += " It is not the machine that you run on: its files and programs are its own.";
        }
        if self.local_root != self.root {
            text += &format!(" It stands for {} on your side.", self.local_root.display());
        }
        text
    }
}
