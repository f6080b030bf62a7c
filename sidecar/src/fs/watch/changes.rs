//! What has changed in one watched tree and is not told yet. Bounded: beyond that it is an overflow.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

/// What comes within it is told in one notification.
const WINDOW: Duration = Duration::from_millis(50);

/// Bytes of these paths.
const MAX_TEXT: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Changes {
    /// Paths of one notification.
    max_paths: usize,
    paths: BTreeSet<PathBuf>,
    text: usize,
    overflow: bool,
    /// When the window that is open ends.
    due: Option<Instant>,
}

impl Changes {
    pub(super) fn new(max_paths: usize) -> Changes {
        Changes { max_paths, paths: BTreeSet::new(), text: 0, overflow: false, due: None }
    }

    /// Something has changed; what, is known elsewhere.
    pub(super) fn touch(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + WINDOW);
    }

    pub(super) fn note(&mut self, path: &Path) {
        self.touch();
        if self.paths.contains(path) {
            return;
        }
        self.text += path.as_os_str().len();
        if self.paths.len() == self.max_paths || self.text > MAX_TEXT {
            self.overflow = true;
        } else {
            self.paths.insert(path.to_owned());
        }
    }

    /// More has changed than can be named.
    pub(super) fn overflow(&mut self) {
        self.touch();
        self.overflow = true;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The paths, and whether there were more.
    pub(super) fn take(&mut self) -> (BTreeSet<PathBuf>, bool) {
        let taken = std::mem::replace(self, Changes::new(self.max_paths));
        (taken.paths, taken.overflow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_path_once_and_no_more_than_the_bound() {
        const MAX_PATHS: usize = 1000;
        let mut changes = Changes::new(MAX_PATHS);
        assert_eq!(changes.due(), None);
        for _ in 0..2 {
            for number in 0..MAX_PATHS {
                changes.note(Path::new(&number.to_string()));
            }
        }
        let due = changes.due();
        assert!(due.is_some());
        let (paths, overflow) = changes.take();
        assert_eq!((paths.len(), overflow, changes.due()), (MAX_PATHS, false, None));
        for number in 0..=MAX_PATHS {
            changes.note(Path::new(&number.to_string()));
        }
        let (paths, overflow) = changes.take();
        assert_eq!((paths.len(), overflow), (MAX_PATHS, true));
        changes.note(&PathBuf::from("x".repeat(MAX_TEXT + 1)));
        assert_eq!(changes.take(), (BTreeSet::new(), true));
    }
}
