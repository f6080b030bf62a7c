//! WebSocket: one message per text or binary frame in, fragmented text frames out, pings, the close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::stream::{SplitSink, StreamExt as _};
use sidecar_protocol::MAX_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use crate::connection::Connection;
use crate::connection::outbox::{self, Close, Item, Outbox, Outgoing};
use crate::server::Shared;

/// Bytes read from the socket at once.
const READ_BUFFER: usize = 16 << 10;

/// More than one frame of ours beside what the library collects before it writes; its own default has no limit.
const WRITE_BUFFER: usize = 4 * MAX_FRAME_BYTES;

/// How many pings in a row may stay unanswered.
const MAX_UNANSWERED: u32 = 2;

/// How long the peer may take for the close frame, and to hang up after it.
const LINGER: Duration = Duration::from_secs(2);

/// The longest reason that a close frame holds.
const MAX_REASON_BYTES: usize = 123;

/// Serves a connection whose HTTP upgrade has been answered; `early` was read along with the request.
pub(crate) async fn serve_upgraded<S>(shared: Arc<Shared>, io: S, early: Vec<u8>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = websocket_config(shared.config.limits.message_bytes);
    let socket = WebSocketStream::from_partially_read(io, early, Role::Server, Some(config)).await;
    serve(shared, socket).await;
}

/// Serves a connection that starts with the first frame.
pub(crate) async fn serve_raw<S>(shared: Arc<Shared>, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_upgraded(shared, io, Vec::new()).await;
}

fn websocket_config(message_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(message_bytes))
        .max_frame_size(Some(message_bytes))
}

async fn serve<S>(shared: Arc<Shared>, socket: WebSocketStream<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, mut stream) = socket.split();
    let (outbox, outgoing) = outbox::new();
    let pings = Pings { unanswered: Arc::default(), every: shared.config.limits.ping };
    let unanswered = pings.unanswered.clone();
    let mut writer = tokio::spawn(write(sink, outgoing, pings));
    let mut connection = Connection::new(shared.clone(), outbox.clone());
    let close = loop {
        let frame = tokio::select! {
            () = shared.stop.cancelled() => break Some(Close::going_away()),
            () = outbox.ended() => break None,
            frame = stream.next() => frame,
        };
        match take(&mut connection, frame, &unanswered).await {
            Ok(()) => {}
            Err(close) => break close,
        }
    };
    tracing::info!(
        reason = close.as_ref().map_or("the client is gone", |c| c.reason.as_str()),
        "disconnected"
    );
    let orderly = close.is_some();
    end(&outbox, close);
    // The farewell and the end of the launches have nothing to wait for in each other.
    let farewell = async {
        let Ok(Ok(Some(sink))) = tokio::time::timeout(LINGER, &mut writer).await else {
            writer.abort();
            return;
        };
        if let Ok(socket) = sink.reunite(stream)
            && orderly
        {
            let _ = tokio::time::timeout(LINGER, linger(socket.into_inner())).await;
        }
    };
    tokio::join!(connection.end(), farewell);
}

fn end(outbox: &Outbox, close: Option<Close>) {
    outbox.close(close.unwrap_or(Close { code: 1000, reason: String::new() }));
}

/// Hands one frame to the connection. The error ends it, with a close frame where there is one to send.
async fn take(
    connection: &mut Connection,
    frame: Option<Result<Message, Error>>,
    unanswered: &AtomicU32,
) -> Result<(), Option<Close>> {
    match frame {
        Some(Ok(Message::Text(text))) => connection.receive(&text).await.map_err(Some),
        Some(Ok(Message::Binary(bytes))) => match std::str::from_utf8(&bytes) {
            Ok(text) => connection.receive(text).await.map_err(Some),
            Err(e) => {
                connection.invalid_frame(format!("not a valid message: {e}")).await;
                Ok(())
            }
        },
        Some(Ok(Message::Pong(_))) => {
            unanswered.store(0, Ordering::Relaxed);
            Ok(())
        }
        Some(Ok(Message::Ping(_) | Message::Frame(_))) => Ok(()),
        Some(Ok(Message::Close(_))) | None => Err(None),
        Some(Err(Error::Capacity(CapacityError::MessageTooLong { size, max_size }))) => {
            let reason =
                format!("a message of {size} bytes is over the limit of {max_size} (limits.messageBytes)");
            Err(Some(Close { code: 1009, reason }))
        }
        Some(Err(Error::Utf8(_))) => {
            Err(Some(Close { code: 1007, reason: String::from("text that is not UTF-8") }))
        }
        Some(Err(Error::Protocol(e))) => Err(Some(Close::protocol(e.to_string()))),
        Some(Err(_)) => Err(None),
    }
}

struct Pings {
    unanswered: Arc<AtomicU32>,
    every: Duration,
}

type Sink<S> = SplitSink<WebSocketStream<S>, Message>;

/// Sends what the outbox holds; gives the sink back after the close frame. `None`: the peer is gone, or silent.
async fn write<S>(mut sink: Sink<S>, mut outgoing: Outgoing, pings: Pings) -> Option<Sink<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut next_ping = Instant::now() + pings.every;
    loop {
        let now = Instant::now();
        if now >= next_ping {
            if pings.unanswered.fetch_add(1, Ordering::Relaxed) >= MAX_UNANSWERED {
                tracing::warn!("the client answers no pings");
                return None;
            }
            sink.feed(Message::Ping(Bytes::new())).await.ok()?;
            next_ping = now + pings.every;
        }
        let item = match outgoing.try_next() {
            Some(item) => item,
            None => {
                sink.flush().await.ok()?;
                tokio::select! {
                    item = outgoing.next() => item,
                    () = tokio::time::sleep_until(next_ping) => continue,
                }
            }
        };
        match item {
            Item::Message(text, permit) => {
                send(&mut sink, text).await.ok()?;
                drop(permit);
            }
            Item::Close(close) => {
                let reason = truncated(&close.reason, MAX_REASON_BYTES).into();
                let frame = CloseFrame { code: CloseCode::from(close.code), reason };
                // Fails where the peer closed first: then the answer to its close frame is what there is to flush.
                let _ = sink.feed(Message::Close(Some(frame))).await;
                let _ = sink.flush().await;
                return Some(sink);
            }
        }
    }
}

/// One message, in frames that let control frames in between.
async fn send<S>(sink: &mut Sink<S>, text: String) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if text.len() <= MAX_FRAME_BYTES {
        return sink.feed(Message::Text(Utf8Bytes::from(text))).await;
    }
    let mut rest = Bytes::from(text);
    let mut kind = Data::Text;
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(MAX_FRAME_BYTES));
        sink.feed(Message::Frame(Frame::message(part, OpCode::Data(kind), rest.is_empty()))).await?;
        kind = Data::Continue;
    }
    Ok(())
}

/// Reads until the peer hangs up. A socket that is closed with unread bytes is reset, and a reset can overtake the
/// close frame.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut io: S) {
    if io.shutdown().await.is_err() {
        return;
    }
    let mut sink = [0; 4096];
    while matches!(io.read(&mut sink).await, Ok(n) if n > 0) {}
}

fn truncated(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
