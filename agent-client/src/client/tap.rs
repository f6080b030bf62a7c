//! Notifications as they came, for whoever passes them on: the gateway. In order, each once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Bytes that wait to be passed on, at most, where the server takes no acknowledgements.
const BYTES: usize = 4 << 20;

/// One notification.
#[derive(Debug)]
pub(crate) struct Tapped {
    pub(crate) text: Utf8Bytes,
    /// The process that it is of, its number, and the bytes of its output.
    pub(crate) process: Option<(Arc<str>, u64, usize)>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The reader's end.
#[derive(Debug, Clone)]
pub(crate) struct Tap {
    queue: mpsc::UnboundedSender<Tapped>,
    room: Arc<Semaphore>,
}

pub(crate) fn channel() -> (Tap, mpsc::UnboundedReceiver<Tapped>) {
    let (queue, receiver) = mpsc::unbounded_channel();
    (Tap { queue, room: Arc::new(Semaphore::new(BYTES)) }, receiver)
}

impl Tap {
    /// Passes on one of this side's own making, which is small.
    pub(super) fn put(&self, text: Utf8Bytes) {
        let _ = self.queue.send(Tapped { text, process: None, _room: None });
    }

    /// Passes one on. With `hold`, once there is room for it; without, the server holds back what is too much.
    pub(super) async fn send(&self, text: Utf8Bytes, process: Option<(Arc<str>, u64, usize)>, hold: bool) {
        let room = if hold {
            let cost = text.len().min(BYTES) as u32;
            Arc::clone(&self.room).acquire_many_owned(cost).await.ok()
        } else {
            None
        };
        // Nobody may be there to pass it on any more.
        let _ = self.queue.send(Tapped { text, process, _room: room });
    }
}
