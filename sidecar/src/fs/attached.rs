//! What one connection holds of the file system, beyond a single request. It ends with the connection.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::handles::Handles;
use super::watch::Watches;
use crate::server::Shared;

/// A connection's open files and watches.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) handles: Handles,
    pub(crate) watches: Watches,
}

impl Attached {
    /// Changes are told on that lane.
    pub(crate) fn new(shared: &Arc<Shared>, notifications: &mpsc::Sender<Vec<u8>>) -> Attached {
        Attached {
            handles: Handles::new(shared.clone()),
            watches: Watches::new(shared.clone(), notifications.clone()),
        }
    }

    /// Closes everything; returns when nothing is left of files that were not closed.
    pub(crate) async fn end(self) {
        drop(self.watches);
        self.handles.end().await;
    }
}
