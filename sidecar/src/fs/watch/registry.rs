//! Which directory is watched for whom.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify;

/// By the kernel's number: the watches that a directory belongs to, and where it is below their roots. The kernel has
/// one number for all who watch a directory.
#[derive(Debug, Default)]
pub(super) struct Registry {
    directories: HashMap<i32, Vec<(u64, PathBuf)>>,
}

impl Registry {
    /// For whom a directory is watched.
    pub(super) fn watchers(&self, directory: i32) -> Vec<(u64, PathBuf)> {
        self.directories.get(&directory).cloned().unwrap_or_default()
    }

    /// How many directories a watch has.
    pub(super) fn count(&self, watch: u64) -> usize {
        self.directories.values().filter(|watchers| watchers.iter().any(|(other, _)| *other == watch)).count()
    }

    /// Adds directories to a watch. One that it has already is elsewhere now.
    pub(super) fn add(&mut self, watch: u64, directories: impl IntoIterator<Item = (i32, PathBuf)>) {
        for (directory, path) in directories {
            let watchers = self.directories.entry(directory).or_default();
            match watchers.iter_mut().find(|(other, _)| *other == watch) {
                Some((_, old)) => *old = path,
                None => watchers.push((watch, path)),
            }
        }
    }

    /// The kernel watches it no more.
    pub(super) fn forget(&mut self, directory: i32) {
        self.directories.remove(&directory);
    }

    /// Takes directories from a watch; the kernel need not watch those that nobody else has.
    pub(super) fn release(
        &mut self,
        inotify: Option<&OwnedFd>,
        watch: u64,
        which: impl Fn(i32, &Path) -> bool,
    ) {
        self.directories.retain(|directory, watchers| {
            watchers.retain(|(other, path)| *other != watch || !which(*directory, path));
            if watchers.is_empty()
                && let Some(inotify) = inotify
            {
                // The directory may be gone meanwhile, and its watch with it.
                let _ = inotify::remove_watch(inotify, *directory);
            }
            !watchers.is_empty()
        });
    }
}
