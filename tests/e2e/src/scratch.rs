//! The folders of one test. They lie outside /tmp, which most profiles grant.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The folders of one test; removed on drop.
#[derive(Debug)]
pub struct Scratch {
    base: TempDir,
}

impl Scratch {
    /// Makes them.
    pub fn new() -> Self {
        let base = tempfile::Builder::new().prefix("e2e-").tempdir_in("/var/tmp").unwrap();
        // Anyone may pass through, so that a refused write is the sandbox's doing and not the mode bits'.
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let scratch = Self { base };
        for (dir, mode) in [
            (scratch.workspace(), 0o755),
            (scratch.outside(), 0o777),
            (scratch.home(), 0o755),
            (scratch.state(), 0o700),
        ] {
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
        }
        scratch
    }

    /// The folder that holds all of them.
    pub fn base(&self) -> &Path {
        self.base.path()
    }

    /// The workspace root.
    pub fn workspace(&self) -> PathBuf {
        self.base.path().join("ws")
    }

    /// A world-writable folder that no profile grants.
    pub fn outside(&self) -> PathBuf {
        self.base.path().join("outside")
    }

    /// The server's HOME.
    pub fn home(&self) -> PathBuf {
        self.base.path().join("home")
    }

    /// The server's state folder.
    pub fn state(&self) -> PathBuf {
        self.base.path().join("state")
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
