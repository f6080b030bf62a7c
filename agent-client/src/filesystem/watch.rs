//! What changes below a directory, as the server tells it, in the caller's paths. A consumer that is slow, and a lost
//! connection, lose names, never the fact.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Filesystem;
use crate::client::Watch;
use crate::error::Error;

/// Changes that were seen together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What has changed.
    pub paths: BTreeSet<PathBuf>,
    /// More has changed than is named: look at everything again.
    pub overflow: bool,
}

/// The changes below a directory. Dropped, the watch ends.
#[derive(Debug)]
pub struct Changes {
    files: Filesystem,
    watch: Watch,
}

impl Changes {
    pub(super) fn new(files: Filesystem, watch: Watch) -> Self {
        Self { files, watch }
    }

    /// The next changes. Cancel safe.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`]: nothing is watched any more.
    pub async fn recv(&mut self) -> Result<Change, Error> {
        let Some(notification) = self.watch.recv().await else {
            return Err(Error::ConnectionLost { reason: "the watch ended with it".into() });
        };
        let mut change = Change { paths: BTreeSet::new(), overflow: notification.overflow };
        for path in notification.paths {
            change.paths.insert(self.files.to_caller(path.as_path())?);
        }
        Ok(change)
    }
}
