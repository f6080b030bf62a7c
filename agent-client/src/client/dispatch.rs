//! One message from the server, to whom it is for.

use std::sync::Arc;

use base64::Engine as _;
use sidecar_protocol::frame::Output;
use sidecar_protocol::fs::ChangedNotification;
use sidecar_protocol::process::{ClosedNotification, ExitedNotification};
use sidecar_protocol::{BASE64, Incoming, RequestId, RpcError, envelope, method};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::routes::{Advance, Note};
use super::wire::Lanes;
use crate::events::{Event, Exit};

/// Hands a message on. The error says how the server broke the protocol.
pub(super) async fn dispatch(text: &Utf8Bytes, lanes: &Lanes) -> Result<(), String> {
    if let Some(read) = Output::read(text) {
        output(text, read, lanes).await;
        return Ok(());
    }
    match envelope::decode(text).map_err(|e| e.to_string())? {
        Incoming::Response { id: RequestId::NONE, outcome: Err(e) } => {
            // Whoever sent the message would wait for ever.
            return Err(format!("it could not read a message of ours: {e}"));
        }
        Incoming::Response { id: RequestId::Int(id), outcome } => {
            lanes.table.answer(id, outcome.map(ToOwned::to_owned));
        }
        Incoming::Response { id, .. } => tracing::debug!(%id, "an answer to no request"),
        Incoming::Notification { method, params } => {
            let invalid = |e: RpcError| format!("{method}: {}", e.message);
            match method.as_ref() {
                method::PROCESS_OUTPUT => {
                    output(text, envelope::params(params).map_err(invalid)?, lanes).await;
                }
                method::PROCESS_EXITED => {
                    exited(text, envelope::params(params).map_err(invalid)?, lanes).await;
                }
                method::PROCESS_CLOSED => {
                    closed(text, envelope::params(params).map_err(invalid)?, lanes).await;
                }
                _ if lanes.tap.is_some() => pass_on(text, None, lanes).await,
                method::FS_CHANGED => match envelope::params(params) {
                    Ok(change) => changed(change, lanes),
                    Err(e) => tracing::debug!(error = %invalid(e), "not understood"),
                },
                _ => tracing::debug!(%method, "a notification that is not known here"),
            }
        }
        Incoming::Request { method, .. } => tracing::debug!(%method, "a request from the server is ignored"),
    }
    Ok(())
}

async fn output(text: &Utf8Bytes, output: Output<'_>, lanes: &Lanes) {
    let (process_id, seq) = (output.process_id.as_ref(), output.seq);
    let event = || match BASE64.decode(output.chunk.as_bytes()) {
        Ok(bytes) => Ok(Event::Output { stream: output.stream, bytes, seq }),
        Err(e) => Err(format!("output that is no base64: {e}")),
    };
    follow(text, process_id, seq, Note::Output(payload(&output.chunk)), event, lanes).await;
}

/// The bytes that a base64 text stands for.
fn payload(chunk: &str) -> usize {
    let padding = chunk.bytes().rev().take_while(|byte| *byte == b'=').count();
    (chunk.len() / 4 * 3).saturating_sub(padding)
}

async fn exited(text: &Utf8Bytes, exited: ExitedNotification, lanes: &Lanes) {
    let ExitedNotification { process_id, seq, exit_code, signal, cause, sandbox_denied, hint } = exited;
    let event = || Ok(Event::Exited(Exit { exit_code, signal, cause, sandbox_denied, hint }));
    follow(text, &process_id, seq, Note::Exited(cause), event, lanes).await;
}

async fn closed(text: &Utf8Bytes, closed: ClosedNotification, lanes: &Lanes) {
    follow(text, &closed.process_id, closed.seq, Note::Closed, || Ok(Event::Closed), lanes).await;
}

/// Takes a notification of a process to where it goes.
async fn follow(
    text: &Utf8Bytes,
    process_id: &str,
    seq: u64,
    note: Note,
    event: impl FnOnce() -> Result<Event, String>,
    lanes: &Lanes,
) {
    match lanes.table.advance(process_id, seq, note) {
        Advance::Deliver(events) => match event() {
            Ok(event) => {
                if !events.send(seq, event).await {
                    // Nobody listens, and the server must not wait for that.
                    lanes.acks.acknowledge(&process_id.into(), seq);
                }
            }
            Err(reason) => lanes.table.fail(process_id, reason),
        },
        Advance::Gap { expected } => {
            let reason = format!("output was lost: notification {expected} was due and {seq} came");
            lanes.table.fail(process_id, reason);
        }
        Advance::PassOn => pass_on(text, Some((process_id, seq, note)), lanes).await,
        // It had reached its end here, and the server does not know that yet.
        Advance::Unknown => lanes.acks.acknowledge(&process_id.into(), seq),
        Advance::Seen => {}
    }
}

async fn pass_on(text: &Utf8Bytes, process: Option<(&str, u64, Note)>, lanes: &Lanes) {
    let Some(tap) = &lanes.tap else { return };
    let process = process.map(|(id, seq, note)| {
        let bytes = if let Note::Output(bytes) = note { bytes } else { 0 };
        (Arc::from(id), seq, bytes)
    });
    tap.send(text.clone(), process, lanes.acks.pace().is_none()).await;
}

fn changed(change: ChangedNotification, lanes: &Lanes) {
    match lanes.table.find(|open| open.watches.changes(&change.watch_id)) {
        Some(changes) => changes.add(change),
        None => tracing::debug!("a change below a directory that nobody watches"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn payloads_are_counted_without_decoding(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(payload(&BASE64.encode(&bytes)), bytes.len());
        }
    }
}
