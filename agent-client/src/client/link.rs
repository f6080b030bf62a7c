//! The task of one connection: it owns the socket. Reading and writing go on side by side, and when either ends,
//! everything that is open on the connection ends with the reason.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use sidecar_protocol::process::{ClosedNotification, ExitedNotification, OutputNotification};
use sidecar_protocol::{Incoming, RequestId, RpcError, envelope, method};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use super::table::Table;
use crate::events::{Event, Exit};

/// What a caller hands to the writer.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// One message.
    Text(String),
    /// The end of the connection, after all that was handed over before.
    Close,
}

/// Serves the connection until it ends.
pub(super) async fn run<S>(
    socket: WebSocketStream<S>,
    mut messages: mpsc::Receiver<Outgoing>,
    table: Arc<Table>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sink, stream) = socket.split();
    let reason = tokio::select! {
        reason = read(stream, &table) => reason,
        reason = write(sink, &mut messages) => reason,
    };
    tracing::debug!(reason, "the connection ended");
    // In this order: a caller whose message is refused finds the reason in the table.
    table.lose(reason);
    drop(messages);
}

/// Why the reading ended.
async fn read(mut stream: impl Stream<Item = Result<Message, WsError>> + Unpin, table: &Table) -> String {
    while let Some(message) = stream.next().await {
        let handled = match &message {
            Ok(Message::Text(text)) => dispatch(text, table).await,
            Ok(Message::Binary(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => dispatch(text, table).await,
                Err(e) => Err(format!("a binary message that is not UTF-8: {e}")),
            },
            Ok(Message::Close(frame)) => {
                return match frame {
                    Some(frame) => format!("the server closed it: {} ({})", frame.reason, frame.code),
                    None => "the server closed it".to_owned(),
                };
            }
            // The library answers pings by itself.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Ok(()),
            Err(e) => return e.to_string(),
        };
        if let Err(violation) = handled {
            return format!("the server broke the protocol: {violation}");
        }
    }
    "the server closed it".to_owned()
}

/// Why the writing ended. Messages that wait are sent together.
async fn write(
    mut sink: impl Sink<Message, Error = WsError> + Unpin,
    messages: &mut mpsc::Receiver<Outgoing>,
) -> String {
    while let Some(Outgoing::Text(text)) = messages.recv().await {
        let sent = async {
            sink.feed(Message::text(text)).await?;
            if messages.is_empty() { sink.flush().await } else { Ok(()) }
        };
        if let Err(e) = sent.await {
            return e.to_string();
        }
    }
    match sink.close().await {
        Ok(()) => "this client closed it".to_owned(),
        Err(e) => format!("this client closed it, uncleanly: {e}"),
    }
}

/// Hands one message to whom it is for.
async fn dispatch(text: &str, table: &Table) -> Result<(), String> {
    match envelope::decode(text).map_err(|e| e.to_string())? {
        Incoming::Response { id: RequestId::NONE, outcome: Err(e) } => {
            // Whoever sent the message would wait for ever.
            return Err(format!("it could not read a message of ours: {e}"));
        }
        Incoming::Response { id: RequestId::Int(id), outcome } => {
            table.answer(id, outcome.map(ToOwned::to_owned));
        }
        Incoming::Response { id, .. } => tracing::debug!(%id, "an answer to no request"),
        Incoming::Notification { method, params } => {
            let invalid = |e: RpcError| format!("{method}: {}", e.message);
            match method.as_ref() {
                method::PROCESS_OUTPUT => output(envelope::params(params).map_err(invalid)?, table).await,
                method::PROCESS_EXITED => exited(envelope::params(params).map_err(invalid)?, table).await,
                method::PROCESS_CLOSED => closed(envelope::params(params).map_err(invalid)?, table).await,
                method::FS_CHANGED => table.changed(envelope::params(params).map_err(invalid)?),
                _ => tracing::debug!(%method, "a notification that is not known here"),
            }
        }
        Incoming::Request { method, .. } => tracing::debug!(%method, "a request from the server is ignored"),
    }
    Ok(())
}

async fn output(output: OutputNotification, table: &Table) {
    let Some(events) = table.advance(&output.process_id, output.seq) else { return };
    match STANDARD.decode(&output.chunk) {
        Ok(bytes) => events.send(Event::Output { stream: output.stream, bytes, seq: output.seq }).await,
        Err(e) => table.fail(&output.process_id, format!("output that is no base64: {e}")),
    }
}

async fn exited(exited: ExitedNotification, table: &Table) {
    let Some(events) = table.advance(&exited.process_id, exited.seq) else { return };
    let exit = Exit {
        exit_code: exited.exit_code,
        signal: exited.signal,
        cause: exited.cause,
        sandbox_denied: exited.sandbox_denied,
        hint: exited.hint,
    };
    events.send(Event::Exited(exit)).await;
}

async fn closed(closed: ClosedNotification, table: &Table) {
    if table.advance(&closed.process_id, closed.seq).is_some()
        && let Some(events) = table.unroute(&closed.process_id)
    {
        events.send(Event::Closed).await;
    }
}
