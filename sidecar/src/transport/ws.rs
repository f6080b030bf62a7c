//! WebSocket: one message per text or binary frame in, fragmented text frames out, pings, the close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::stream::{SplitSink, SplitStream, StreamExt as _};
use sidecar_protocol::MAX_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::ahead::ReadAhead;
use super::drive::{self, Received};
use super::halves::{Halves, Tasks};
use super::progress::Progress;
use crate::caller::Caller;
use crate::connection::outbox::{self, Close, Item, Outgoing, Text};
use crate::connection::spare::Spare;
use crate::server::Shared;

/// Bytes read from the socket at once. Each connection holds so many, and most messages to a server are short.
const READ_BUFFER: usize = 2 << 10;

/// Bytes that are collected before they are written: small messages go out together, and a frame of output by itself, without
/// being moved within the buffer after a part of it was written.
const COLLECT: usize = 16 << 10;

/// More than one frame of ours beside what the library collects before it writes; its own default has no limit.
const WRITE_BUFFER: usize = 4 * MAX_FRAME_BYTES;

/// How many pings in a row may stay unanswered.
const MAX_UNANSWERED: u32 = 2;

/// What a ping carries that is a probe: its pong is no answer to another one, nor is what came before it.
const PROBE: &[u8] = b"probe";

/// The longest reason that a close frame holds.
const MAX_REASON_BYTES: usize = 123;

/// Serves a connection whose HTTP upgrade has been answered; `early` was read along with the request.
pub(crate) async fn serve_upgraded<S>(shared: Arc<Shared>, io: S, early: Vec<u8>, caller: Caller)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = websocket_config(shared.config.limits.message_bytes);
    let (outbox, outgoing) = outbox::new(shared.config.limits.response_bytes);
    let tasks = Tasks::default();
    let io = Halves::new(Progress::new(ReadAhead::new(io), outbox.heard().clone()), &tasks);
    let socket = WebSocketStream::from_partially_read(io, early, Role::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let pings = Pings { unanswered: Arc::default(), every: shared.config.limits.ping };
    let reader = Reader { stream, unanswered: pings.unanswered.clone(), tasks: tasks.clone() };
    let writer = Writer { sink, pings, shared: shared.clone(), tasks };
    drive::serve(shared, (reader, writer), (outbox, outgoing), caller).await;
}

/// Serves a connection that starts with the first frame.
pub(crate) async fn serve_raw<S>(shared: Arc<Shared>, io: S, caller: Caller)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_upgraded(shared, io, Vec::new(), caller).await;
}

fn websocket_config(message_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(COLLECT)
        .max_write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(message_bytes))
        .max_frame_size(Some(message_bytes))
}

struct Reader<S> {
    stream: SplitStream<WebSocketStream<Halves<S>>>,
    unanswered: Arc<AtomicU32>,
    tasks: Tasks,
}

impl<S> drive::Reader for Reader<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Text = Utf8Bytes;
    type Writer = Writer<S>;

    async fn next(&mut self) -> Received<Utf8Bytes> {
        match self.tasks.reading(self.stream.next()).await {
            Some(Ok(Message::Text(text))) => Received::Message(text),
            Some(Ok(Message::Binary(bytes))) => match Utf8Bytes::try_from(bytes) {
                Ok(text) => Received::Message(text),
                Err(e) => Received::Invalid(format!("not a valid message: {e}")),
            },
            Some(Ok(Message::Pong(echo))) => {
                self.unanswered.store(0, Ordering::Relaxed);
                if echo == PROBE { Received::Alive } else { Received::Nothing }
            }
            Some(Ok(Message::Ping(_) | Message::Frame(_))) => Received::Nothing,
            Some(Ok(Message::Close(_))) | None => Received::End(None),
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { max_size, .. }))) => {
                Received::End(Some(drive::too_large(max_size)))
            }
            Some(Err(Error::Utf8(_))) => {
                Received::End(Some(Close { code: 1007, reason: String::from("text that is not UTF-8") }))
            }
            // Hanging up without a close frame breaks the protocol too, but there is nobody left to be told.
            Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => Received::End(None),
            Some(Err(Error::Protocol(e))) => Received::End(Some(Close::protocol(e.to_string()))),
            Some(Err(_)) => Received::End(None),
        }
    }

    async fn farewell(self, writer: Writer<S>) {
        if let Ok(socket) = writer.sink.reunite(self.stream) {
            linger(socket.into_inner().into_inner()).await;
        }
    }
}

struct Pings {
    unanswered: Arc<AtomicU32>,
    every: Duration,
}

type Sink<S> = SplitSink<WebSocketStream<Halves<S>>, Message>;

struct Writer<S> {
    sink: Sink<S>,
    pings: Pings,
    shared: Arc<Shared>,
    tasks: Tasks,
}

impl<S> drive::Writer for Writer<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    /// The last item becomes a close frame.
    async fn run(mut self, mut outgoing: Outgoing) -> Option<Self> {
        let Writer { sink, pings, shared, tasks } = &mut self;
        // The library may have the last message in its hands until it is given the next one, or has sent all.
        let mut last = None;
        let mut next_ping = Instant::now() + pings.every;
        loop {
            let now = Instant::now();
            if now >= next_ping {
                if pings.unanswered.fetch_add(1, Ordering::Relaxed) >= MAX_UNANSWERED {
                    tracing::warn!("the client answers no pings");
                    return None;
                }
                tasks.writing(sink.feed(Message::Ping(Bytes::new()))).await.ok()?;
                next_ping = now + pings.every;
            }
            let item = match outgoing.try_next() {
                Some(item) => item,
                None => {
                    tasks.writing(sink.flush()).await.ok()?;
                    if let Some(sent) = last.take() {
                        shared.spare.put_sent(sent);
                    }
                    tokio::select! {
                        item = outgoing.next() => item,
                        () = tokio::time::sleep_until(next_ping) => continue,
                    }
                }
            };
            match item {
                Item::Message(text, permit) => {
                    let sent = tasks.writing(send(sink, text, &shared.spare)).await.ok()?;
                    drop(permit);
                    if let Some(before) = std::mem::replace(&mut last, sent) {
                        shared.spare.put_sent(before);
                    }
                }
                Item::Probe => {
                    let ping = Message::Ping(Bytes::from_static(PROBE));
                    tasks.writing(sink.send(ping)).await.ok()?;
                }
                Item::Close(close) => {
                    let reason = truncated(&close.reason, MAX_REASON_BYTES).into();
                    let frame = CloseFrame { code: CloseCode::from(close.code), reason };
                    // Fails where the peer closed first: then the answer to its close frame is what there is to flush.
                    if tasks.writing(sink.send(Message::Close(Some(frame)))).await.is_err() {
                        let _ = tasks.writing(sink.flush()).await;
                    }
                    return Some(self);
                }
            }
        }
    }
}

/// One message, in frames that let control frames in between. Gives it back where its memory is worth having.
async fn send<S>(sink: &mut Sink<S>, text: Text, spare: &Spare) -> Result<Option<Bytes>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut kind = Data::Text;
    match text {
        Text::Whole(text) => {
            let text = Bytes::from(text);
            let kept = spare.wants(text.len()).then(|| text.clone());
            send_part(sink, text, &mut kind, true).await?;
            Ok(kept)
        }
        Text::File(mut response) => {
            while let Some(part) = response.next() {
                send_part(sink, part.into(), &mut kind, response.is_empty()).await?;
            }
            Ok(None)
        }
    }
}

/// A part of a message, the first one where `kind` is text.
async fn send_part<S>(
    sink: &mut Sink<S>,
    mut rest: Bytes,
    kind: &mut Data,
    is_last: bool,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while !rest.is_empty() {
        let frame = rest.split_to(rest.len().min(MAX_FRAME_BYTES));
        let is_final = is_last && rest.is_empty();
        sink.feed(Message::Frame(Frame::message(frame, OpCode::Data(*kind), is_final))).await?;
        *kind = Data::Continue;
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
