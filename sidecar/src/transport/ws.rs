//! WebSocket: one message per text or binary frame in, fragmented text frames out, pings, the close.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::SinkExt as _;
use futures_util::stream::{SplitSink, SplitStream, StreamExt as _};
use sidecar_protocol::MAX_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::ahead::ReadAhead;
use super::direct::{Direct, Way};
use super::drive::{self, Received};
use super::halves::{Halves, Tasks};
use super::progress::Progress;
use crate::caller::Caller;
use crate::connection::outbox::{self, Close, Item, Outgoing, Text};
use crate::connection::spare::Spare;
use crate::server::Shared;

/// Bytes read from the socket at once. Each connection holds so many, and most messages to a server are short.
const READ_BUFFER: usize = 2 << 10;

/// Bytes that are collected before they are written: small messages go out together.
const COLLECT: usize = 16 << 10;

/// A message of more bytes is not copied into what is collected.
const SMALL: usize = 8 << 10;

/// More than what is collected, and a small message beside it; the library's own default has no limit.
const WRITE_BUFFER: usize = 4 * COLLECT;

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
    let (tasks, way) = (Tasks::default(), Way::default());
    let io = Progress::new(ReadAhead::new(io), outbox.heard().clone());
    let io = Halves::new(Direct::new(io, way.clone()), &tasks);
    let socket = WebSocketStream::from_partially_read(io, early, Role::Server, Some(config)).await;
    let (sink, stream) = socket.split();
    let pings = Pings { unanswered: Arc::default(), every: shared.config.limits.ping };
    let reader = Reader { stream, unanswered: pings.unanswered.clone(), tasks: tasks.clone() };
    let writer = Writer { sink, way, pings, shared: shared.clone(), tasks };
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
    way: Way,
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
        let Writer { sink, way, pings, shared, tasks } = &mut self;
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
                    tokio::select! {
                        item = outgoing.next() => item,
                        () = tokio::time::sleep_until(next_ping) => continue,
                    }
                }
            };
            match item {
                Item::Message(text, permit) => {
                    tasks.writing(send(sink, way, text, &shared.spare)).await.ok()?;
                    drop(permit);
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

/// One message, in frames that let control frames in between.
async fn send<S>(sink: &mut Sink<S>, way: &Way, text: Text, spare: &Spare) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut kind = Data::Text;
    match text {
        Text::Whole(text) if text.len() <= SMALL => {
            sink.feed(Message::Frame(Frame::message(text, OpCode::Data(kind), true))).await
        }
        Text::Whole(text) => {
            let text = Bytes::from(text);
            send_part(sink, way, text.clone(), &mut kind, true).await?;
            spare.put_sent(text);
            Ok(())
        }
        Text::File(mut response) => {
            while let Some(part) = response.next() {
                send_part(sink, way, part.into(), &mut kind, response.is_empty()).await?;
            }
            Ok(())
        }
    }
}

/// A part of a message, the first one where `kind` is text.
async fn send_part<S>(
    sink: &mut Sink<S>,
    way: &Way,
    mut rest: Bytes,
    kind: &mut Data,
    is_last: bool,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(MAX_FRAME_BYTES));
        let opcode = OpCode::Data(std::mem::replace(kind, Data::Continue));
        let header = FrameHeader { is_final: is_last && rest.is_empty(), opcode, ..FrameHeader::default() };
        let mut head = Vec::new();
        header.format(part.len() as u64, &mut head)?;
        let mut frame = Bytes::from(head).chain(part);
        // What the library has collected goes first.
        loop {
            sink.flush().await?;
            match way.take(frame) {
                Ok(()) => break,
                // The answer to a ping came in between.
                Err(back) => frame = back,
            }
        }
        sink.flush().await?;
        // The library says nothing of a flush after the peer has closed.
        if !way.is_clear() {
            return Err(Error::AlreadyClosed);
        }
    }
    Ok(())
}

/// Reads until the peer hangs up. A socket that is closed with unread bytes is reset, and a reset can overtake the
/// close frame.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut io: S) {
    if io.shutdown().await.is_err() {
        return;
    }
    // Not within the future, which is there as long as its connection is.
    let mut sink = vec![0; 4096];
    while matches!(io.read(&mut sink).await, Ok(n) if n > 0) {}
}

fn truncated(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    /// What a ping carries: the most that it may.
    const PING: [u8; 125] = [b'p'; 125];

    /// Bytes that the wire takes at once: less than a pong, so that each is written in parts.
    const WIRE: usize = 100;

    /// Sends texts of these lengths while the peer pings all the time; what the peer gets.
    async fn sent_beside_pings(lengths: Vec<usize>) -> Vec<String> {
        let (near, far) = tokio::io::duplex(WIRE);
        let (tasks, way) = (Tasks::default(), Way::default());
        let near = Halves::new(Direct::new(near, way.clone()), &tasks);
        let config = Some(websocket_config(1 << 20));
        let socket = WebSocketStream::from_raw_socket(near, Role::Server, config).await;
        let (mut sink, mut stream) = socket.split();
        let (mut pings, mut texts) = WebSocketStream::from_raw_socket(far, Role::Client, None).await.split();
        let reading = tasks.clone();
        let reader = tokio::spawn(async move { while reading.reading(stream.next()).await.is_some() {} });
        let pinging = tokio::spawn(async move {
            while pings.send(Message::Ping(Bytes::from_static(&PING))).await.is_ok() {}
        });
        let (ponged, pong) = tokio::sync::oneshot::channel();
        let writer = tokio::spawn(async move {
            let spare = Spare::default();
            pong.await.expect("a pong");
            for (index, len) in lengths.into_iter().enumerate() {
                let text = text(index, len).into_bytes().into();
                tasks.writing(send(&mut sink, &way, text, &spare)).await.expect("sent");
            }
            tasks.writing(sink.send(Message::Close(None))).await.expect("closed");
            assert!(way.is_clear());
            sink
        });
        let (mut came, mut ponged) = (Vec::new(), Some(ponged));
        loop {
            match texts.next().await.expect("before the close").expect("a frame") {
                Message::Text(text) => came.push(text.as_str().to_owned()),
                Message::Pong(pong) => {
                    assert_eq!(&*pong, PING);
                    if let Some(first) = ponged.take() {
                        first.send(()).expect("the writer waits");
                    }
                }
                Message::Close(_) => break,
                other => panic!("{other:?}"),
            }
        }
        drop(writer.await.expect("the writer"));
        reader.abort();
        pinging.abort();
        came
    }

    fn text(index: usize, len: usize) -> String {
        format!("{index} {}", "x".repeat(len))
    }

    /// A frame that went past the library into the midst of one of its own would be seen as a broken one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn frames_stay_whole_and_in_order() {
        let lengths = [0, 5, SMALL, 2 * SMALL, 10, SMALL + 1];
        let expected: Vec<_> = lengths.iter().enumerate().map(|(index, len)| text(index, *len)).collect();
        assert_eq!(sent_beside_pings(lengths.into()).await, expected);
    }

    /// What is collected goes out before what goes past it, and a message with more than a frame holds in several.
    #[tokio::test]
    async fn what_was_collected_goes_first() {
        let (near, far) = tokio::io::duplex(4 * MAX_FRAME_BYTES);
        let way = Way::default();
        let near = Direct::new(near, way.clone());
        let near = Halves::new(near, &Tasks::default());
        let (mut sink, _stream) =
            WebSocketStream::from_raw_socket(near, Role::Server, Some(websocket_config(1 << 20)))
                .await
                .split();
        let spare = Spare::default();
        let large = "y".repeat(2 * MAX_FRAME_BYTES + 1);
        for text in ["small", &large, "last"] {
            let text = Text::Whole(text.into());
            send(&mut sink, &way, text, &spare).await.expect("sent");
        }
        let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        for expected in ["small", &large] {
            let came = far.next().await.expect("a message").expect("a message");
            assert!(came.to_text().expect("text") == expected);
        }
        assert!(far.next().now_or_never().is_none(), "what is small waits for a flush");
        sink.flush().await.expect("flushed");
        assert_eq!(far.next().await.expect("a message").expect("a message").to_text().expect("text"), "last");
    }
}
