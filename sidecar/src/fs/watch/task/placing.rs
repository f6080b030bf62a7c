//! What the task has done on confined threads: directories watched, paths looked at.

use std::path::{Path, PathBuf};

use sidecar_protocol::RpcError;
use tokio::time::Instant;

use super::super::place::{self, Look, Placed};
use super::super::{Confined, Subject};
use super::{Task, Watch};

impl Task {
    /// Watches a directory that has appeared, and all below it.
    pub(super) async fn grow(&mut self, number: u64, below: &Path) {
        // It may be gone again, or not to be listed: then there is nothing to watch.
        let Ok(placed) = self.place(number, below).await else { return };
        let overflow = placed.shortage.is_some() || placed.has_more();
        self.directories.add(number, placed.directories);
        let Some(watch) = self.watches.get_mut(&number) else { return };
        if overflow {
            watch.changes.overflow();
        } else if !below.as_os_str().is_empty() {
            placed.found.iter().for_each(|path| watch.changes.note(path));
        }
    }

    pub(super) async fn place(&self, number: u64, below: &Path) -> Result<Placed, RpcError> {
        let (Some(watch), Some(inotify)) = (self.watches.get(&number), self.inotify.as_ref()) else {
            return Ok(Placed::default());
        };
        let Subject::Tree(root) = &watch.subject else { return Ok(Placed::default()) };
        let (root, below, inotify) = (root.clone(), below.to_owned(), inotify.instance().clone());
        let limit = self.shared.config.limits.watch_directories;
        let room = limit.saturating_sub(self.directories.count(number));
        let place = move |confined: &Confined| {
            let placed = place::tree(confined, &inotify, root.as_path(), &below, room);
            placed.map_err(|error| error.into_rpc(root.spelling(), confined.prepared()))
        };
        self.shared.files.run(watch.request.clone(), place).await
    }

    /// Looks at the paths that are to appear or to go, and watches the directories that lead to them now.
    pub(super) async fn look(&mut self, number: u64) -> Result<(), RpcError> {
        let (Some(watch), Some(inotify)) = (self.watches.get_mut(&number), self.inotify.as_ref()) else {
            return Ok(());
        };
        let Subject::Missing(paths) = &watch.subject else { return Ok(()) };
        let (paths, inotify) = (paths.clone(), inotify.instance().clone());
        watch.changes.take();
        let look = move |confined: &Confined| Ok(place::look(confined, &inotify, &paths));
        let Look { directories, has_changed } = self.shared.files.run(watch.request.clone(), look).await?;
        watch.has_changed |= has_changed;
        self.directories.add(number, directories.iter().map(|directory| (*directory, PathBuf::new())));
        self.release(number, |directory, _| !directories.contains(&directory));
        Ok(())
    }

    pub(super) async fn look_again(&mut self) {
        let now = Instant::now();
        let is_due = |watch: &Watch| {
            matches!(watch.subject, Subject::Missing(_)) && watch.changes.due().is_some_and(|due| due <= now)
        };
        let due: Vec<u64> =
            self.watches.iter().filter(|(_, watch)| is_due(watch)).map(|(number, _)| *number).collect();
        for number in due {
            if let Err(error) = self.look(number).await {
                // The workspace is gone, say. What was watched still is; the next change asks again.
                tracing::debug!(%error, "cannot look at watched paths");
            }
        }
    }
}
