//! Watches of directories. A watch belongs to its connection, so it is made anew on the next one; what changed between
//! the two is not known, which is told as an overflow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use sidecar_protocol::fs::{ChangedNotification, WatchId};
use tokio::sync::Notify;

/// Paths that wait for their consumer, at most; beyond, they become an overflow.
const PATHS: usize = 4096;

/// The watches that are made anew on the next connection.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watches: HashMap<WatchId, Watched>,
}

#[derive(Debug)]
pub(super) struct Watched {
    /// `fs/watch` or `fs/watchMissing`.
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    /// `None` where notifications are passed on as they are.
    pub(super) changes: Option<Changes>,
}

impl Watches {
    pub(super) fn add(&mut self, id: WatchId, watched: Watched) {
        self.watches.insert(id, watched);
    }

    pub(super) fn remove(&mut self, id: &WatchId) -> Option<Watched> {
        self.watches.remove(id)
    }

    pub(super) fn changes(&self, id: &WatchId) -> Option<Changes> {
        self.watches.get(id)?.changes.clone()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&WatchId, &Watched)> {
        self.watches.iter()
    }
}

/// What has changed and was not told yet. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    next: Option<ChangedNotification>,
    ended: bool,
}

impl Changes {
    /// Adds to what waits.
    pub(super) fn add(&self, change: ChangedNotification) {
        let mut pending = self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut pending.next {
            None => pending.next = Some(change),
            Some(next) => {
                next.overflow |= change.overflow;
                for path in change.paths {
                    if next.paths.len() == PATHS {
                        next.overflow = true;
                        break;
                    }
                    if !next.paths.contains(&path) {
                        next.paths.push(path);
                    }
                }
            }
        }
        self.shared.changed.notify_one();
    }

    /// More has changed than can be said.
    pub(super) fn overflow(&self, watch_id: WatchId) {
        self.add(ChangedNotification { watch_id, paths: Vec::new(), overflow: true });
    }

    /// The last of it.
    pub(super) fn end(&self) {
        self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.shared.changed.notify_one();
    }

    /// Waits for the next; `None` once there is nothing more. Cancel safe.
    pub(super) async fn next(&self) -> Option<ChangedNotification> {
        loop {
            {
                let mut pending = self.shared.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(next) = pending.next.take() {
                    return Some(next);
                }
                if pending.ended {
                    return None;
                }
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for changes in self.watches.values().filter_map(|watched| watched.changes.as_ref()) {
            changes.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use sidecar_protocol::WirePath;
    use sidecar_protocol::path::Spelling;

    use super::*;

    fn change(paths: &[&str]) -> ChangedNotification {
        let path = |p: &&str| WirePath::new(*p, Spelling::Plain);
        ChangedNotification {
            watch_id: WatchId::Number(1),
            paths: paths.iter().map(path).collect(),
            overflow: false,
        }
    }

    #[tokio::test]
    async fn what_waits_is_told_once_and_bounded() {
        let changes = Changes::default();
        changes.add(change(&["/a", "/b"]));
        changes.add(change(&["/b", "/c"]));
        assert_eq!(changes.next().await, Some(change(&["/a", "/b", "/c"])));
        for n in 0..=PATHS {
            changes.add(change(&[&format!("/{n}")]));
        }
        let next = changes.next().await.unwrap();
        assert!(next.overflow && next.paths.len() == PATHS);
        changes.end();
        assert_eq!(changes.next().await, None);
    }
}
