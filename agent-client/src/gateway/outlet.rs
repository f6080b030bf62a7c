//! What goes out to one client, in two lanes: answers first, then notifications. What has gone out is acknowledged to the
//! sidecar, unless the client does that itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::SinkExt as _;
use serde_json::value::RawValue;
use sidecar_protocol::{Incoming, RequestId, RpcError, envelope, method};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::translate::Translator;
use crate::client::{Tapped, Watching, Wire};
use crate::transport::{Outgoing, Sent};

/// A request's share of what may wait.
pub(super) type Permit = Option<OwnedSemaphorePermit>;

/// Notifications that are sent before they are acknowledged, at most.
const TOGETHER: usize = 16;

/// The same in bytes of output: a small part of the 1 MiB that a server keeps by default, and waits with if it is not
/// acknowledged.
const TOGETHER_BYTES: usize = 256 << 10;

/// What the reader, and the answers to its requests, tell the writer. What waits is bounded by the permits of the
/// requests.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    items: mpsc::UnboundedSender<Item>,
}

enum Item {
    /// The permit goes back when it has been written.
    Answer(String, Permit),
    /// The session that the client has.
    Session(Notes),
    /// The client may get notifications from here on.
    Initialized,
    /// The last of it.
    Close(u16, String),
}

impl Outlet {
    pub(super) fn result(&self, id: &RequestId, result: &RawValue, permit: Permit) {
        self.put(Item::Answer(envelope::response(id, &result), permit));
    }

    pub(super) fn error(&self, id: &RequestId, error: &RpcError, permit: Permit) {
        self.put(Item::Answer(envelope::error_response(id, error), permit));
    }

    pub(super) fn session(&self, notes: Notes) {
        self.put(Item::Session(notes));
    }

    pub(super) fn initialized(&self) {
        self.put(Item::Initialized);
    }

    pub(super) fn close(&self, code: u16, reason: impl Into<String>) {
        self.put(Item::Close(code, reason.into()));
    }

    fn put(&self, item: Item) {
        // The client may have gone.
        let _ = self.items.send(item);
    }
}

/// A session's notifications.
pub(super) struct Notes {
    pub(super) queue: mpsc::UnboundedReceiver<Tapped>,
    pub(super) wire: Wire,
    pub(super) translator: Arc<Translator>,
    /// The client acknowledges by itself.
    pub(super) acknowledged: Arc<AtomicBool>,
}

/// The writer of one client.
pub(super) struct Writer {
    sink: Outgoing,
    items: mpsc::UnboundedReceiver<Item>,
    notes: Option<Notes>,
    initialized: bool,
    /// Sent, and to be acknowledged once they are out.
    sent: Vec<(Arc<str>, u64, usize)>,
}

pub(super) fn channel(sink: Outgoing) -> (Outlet, Writer) {
    let (sender, items) = mpsc::unbounded_channel();
    (Outlet { items: sender }, Writer { sink, items, notes: None, initialized: false, sent: Vec::new() })
}

impl Writer {
    /// Writes until it is told to close, or the client takes nothing more.
    pub(super) async fn run(mut self) -> Result<(), String> {
        loop {
            tokio::select! {
                // The answer to a start goes out before the first output.
                biased;
                item = self.items.recv() => match item {
                    Some(Item::Answer(text, permit)) => {
                        self.sink.feed(Sent::Text(text.into())).await?;
                        drop(permit);
                    }
                    Some(Item::Session(notes)) => self.notes = Some(notes),
                    Some(Item::Initialized) => self.initialized = true,
                    Some(Item::Close(code, reason)) => return self.close(code, reason).await,
                    None => return self.sink.close().await,
                },
                note = next(&mut self.notes), if self.initialized && self.notes.is_some() => match note {
                    Some(note) => self.note(note).await?,
                    // The session has ended; the reader tells why.
                    None => self.notes = None,
                },
            }
            let waits = !self.items.is_empty() || self.notes.as_ref().is_some_and(|n| !n.queue.is_empty());
            if !waits || self.is_much_sent() {
                self.flush().await?;
            }
        }
    }

    fn is_much_sent(&self) -> bool {
        let bytes: usize = self.sent.iter().map(|(_, _, bytes)| bytes).sum();
        self.sent.len() >= TOGETHER || bytes >= TOGETHER_BYTES
    }

    async fn note(&mut self, note: Tapped) -> Result<(), String> {
        let text = match (&note.process, &self.notes) {
            (None, Some(notes)) => notes.translate(note.text),
            _ => note.text,
        };
        self.sink.feed(Sent::Text(text)).await?;
        self.sent.extend(note.process);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), String> {
        self.sink.flush().await?;
        if let Some(notes) = &self.notes {
            self.sent.drain(..).for_each(|(process_id, seq, bytes)| notes.passed_on(&process_id, seq, bytes));
        }
        Ok(())
    }

    /// What has come before the end goes out before it.
    async fn close(mut self, code: u16, reason: String) -> Result<(), String> {
        while self.initialized
            && let Some(Ok(note)) = self.notes.as_mut().map(|notes| notes.queue.try_recv())
        {
            self.note(note).await?;
        }
        self.flush().await?;
        self.sink.send(Sent::Close(code, reason)).await?;
        self.sink.close().await
    }
}

async fn next(notes: &mut Option<Notes>) -> Option<Tapped> {
    notes.as_mut()?.queue.recv().await
}

impl Notes {
    /// A notification that is of no process, as the client is to get it.
    fn translate(&self, text: Utf8Bytes) -> Utf8Bytes {
        let Ok(Incoming::Notification { method, params: Some(params) }) = envelope::decode(&text) else {
            return text;
        };
        let translated = match method.as_ref() {
            method::FS_CHANGED => self.translator.changed(params),
            method::FS_MISSING_CHANGED => {
                forget(&self.wire.watches(), params);
                None
            }
            _ => None,
        };
        translated.map_or_else(|| text.clone(), |params| envelope::notification(&method, &params).into())
    }

    fn passed_on(&self, process_id: &Arc<str>, seq: u64, bytes: usize) {
        if !self.acknowledged.load(Ordering::Relaxed) {
            self.wire.passed_on(process_id, seq, bytes);
        }
    }
}

/// A watch that tells once has told.
fn forget(watches: &Watching, params: &RawValue) {
    if let Ok(watch) = serde_json::from_str::<sidecar_protocol::fs::Watch>(params.get()) {
        watches.ended(&watch.watch_id);
    }
}
