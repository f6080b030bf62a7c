//! What changes below a directory, as the server tells it. A consumer that is slow loses names, never the fact.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::de::IgnoredAny;
use sidecar_protocol::Method;
use sidecar_protocol::fs::{ChangedNotification, Watch, WatchId};
use tokio::sync::mpsc;

use super::Filesystem;
use crate::error::Error;

/// Notifications that wait for their consumer, at most; what comes beyond is an overflow.
const WAITING: usize = 64;

/// A number that no other watch of this process has.
pub(super) fn next_id() -> WatchId {
    static WATCHES: AtomicU64 = AtomicU64::new(1);
    WatchId::Number(WATCHES.fetch_add(1, Ordering::Relaxed))
}

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
    id: WatchId,
    feed: Feed,
}

impl Changes {
    pub(super) fn new(files: Filesystem, id: WatchId, feed: Feed) -> Self {
        Self { files, id, feed }
    }

    /// The next changes. Cancel safe.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`]: nothing is watched any more.
    pub async fn recv(&mut self) -> Result<Change, Error> {
        let Some(notification) = self.feed.queue.recv().await else {
            return Err(Error::ConnectionLost { reason: "the watch ended with it".into() });
        };
        let mut change = Change { paths: BTreeSet::new(), overflow: notification.overflow };
        change.overflow |= self.feed.lost.swap(false, Ordering::Relaxed);
        for path in notification.paths {
            change.paths.insert(self.files.to_caller(path.as_path())?);
        }
        Ok(change)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let client = self.files.client.clone();
        let params = Watch { watch_id: self.id.clone() };
        client.unwatch(&params.watch_id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = client.request::<_, IgnoredAny>(Method::FsUnwatch, &params).await {
                    tracing::debug!("a watch ends with the connection: {error}");
                }
            });
        }
    }
}

/// The consumer's end of a watch's queue.
#[derive(Debug)]
pub(crate) struct Feed {
    queue: mpsc::Receiver<ChangedNotification>,
    lost: Arc<AtomicBool>,
}

/// The connection's end.
#[derive(Debug)]
pub(crate) struct FeedSender {
    queue: mpsc::Sender<ChangedNotification>,
    lost: Arc<AtomicBool>,
}

/// A queue for one watch.
pub(crate) fn feed() -> (FeedSender, Feed) {
    let (sender, queue) = mpsc::channel(WAITING);
    let lost = Arc::new(AtomicBool::new(false));
    (FeedSender { queue: sender, lost: Arc::clone(&lost) }, Feed { queue, lost })
}

impl FeedSender {
    /// Queues it, or keeps in mind that it was lost: the connection's reader waits for no consumer of changes.
    pub(crate) fn send(&self, notification: ChangedNotification) {
        if self.queue.try_send(notification).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
    }
}
