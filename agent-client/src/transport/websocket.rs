//! WebSockets: over TCP with the HTTP upgrade and the token, or over a stream of this process.

use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _, future};
use sidecar_protocol::MAX_MESSAGE_BYTES;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, tungstenite};

use super::url::WebSocketUrl;
use super::{Connection, Received, Sent};
use crate::error::Error;

/// Connects over TCP and upgrades to a WebSocket.
pub(super) async fn connect(url: &WebSocketUrl, token_file: Option<&Path>) -> Result<Connection, Error> {
    let mut request = url.uri.clone().into_client_request().map_err(|e| upgrade_error(url, token_file, e))?;
    if let Some(path) = token_file {
        request.headers_mut().insert(header::AUTHORIZATION, bearer(path).await?);
    }
    let unreachable = |cause| Error::Unreachable { url: url.to_string(), cause };
    let tcp = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(unreachable)?;
    prepare(&tcp).map_err(unreachable)?;
    #[cfg(feature = "tls")]
    if url.tls {
        let stream = super::tls::connect(url, tcp).await?;
        return upgrade(url, token_file, request, stream).await;
    }
    upgrade(url, token_file, request, tcp).await
}

async fn upgrade<S>(
    url: &WebSocketUrl,
    token_file: Option<&Path>,
    request: Request,
    stream: S,
) -> Result<Connection, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, Some(limits()))
        .await
        .map_err(|e| upgrade_error(url, token_file, e))?;
    Ok(connection(socket))
}

/// A connection over a stream of this process: frames from the first byte on, no HTTP.
pub async fn in_process<S>(stream: S) -> Connection
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    connection(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits())).await)
}

/// A connection of a client of ours, past the upgrade.
pub(crate) fn accepted<S>(socket: WebSocketStream<S>) -> Connection
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    connection(socket)
}

fn connection<S>(socket: WebSocketStream<S>) -> Connection
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, stream) = socket.split();
    let incoming = stream.map(|message| message.map_err(|e| e.to_string()).and_then(received));
    let outgoing = sink
        .sink_map_err(|e: WsError| e.to_string())
        .with(|sent| future::ready(Ok::<_, String>(message(sent))));
    Connection { incoming: Box::pin(incoming), outgoing: Box::pin(outgoing), pings: true }
}

fn received(message: Message) -> Result<Received, String> {
    Ok(match message {
        Message::Text(text) => Received::Text(text),
        Message::Binary(bytes) => Received::Text(
            Utf8Bytes::try_from(bytes).map_err(|e| format!("a binary message that is not UTF-8: {e}"))?,
        ),
        Message::Close(frame) => match frame {
            Some(frame) => {
                Received::Close { code: Some(frame.code.into()), reason: frame.reason.as_str().to_owned() }
            }
            None => Received::Close { code: None, reason: String::new() },
        },
        // The library answers pings by itself.
        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Received::Alive,
    })
}

fn message(sent: Sent) -> Message {
    match sent {
        Sent::Text(text) => Message::Text(text),
        Sent::Ping => Message::Ping(tungstenite::Bytes::new()),
        Sent::Close(code, reason) => {
            Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
        }
    }
}

/// Bytes read at once: most of a frame of output.
const READ_BUFFER: usize = 64 << 10;

/// Bytes that are collected before they are written: small messages go out together, and a frame of output by itself, without
/// being moved within the buffer after a part of it was written.
const COLLECT: usize = 16 << 10;

/// What both sides take: tungstenite's own defaults would refuse frames over 16 MiB and buffer writes without end.
pub(crate) fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(COLLECT)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
        // One message of the largest size and the usual buffer beside it.
        .max_write_buffer_size(MAX_MESSAGE_BYTES + (1 << 20))
}

fn prepare(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    // A server that is gone without a word is noticed in about a minute, also while nothing is being said.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    SockRef::from(tcp).set_tcp_keepalive(&keepalive)
}

async fn bearer(path: &Path) -> Result<HeaderValue, Error> {
    let text =
        tokio::fs::read(path).await.map_err(|cause| Error::TokenRead { path: path.to_owned(), cause })?;
    let token = text.trim_ascii();
    let printable = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    let header = printable.then(|| HeaderValue::from_bytes(&[b"Bearer ", token].concat()).ok()).flatten();
    let mut header = header.ok_or_else(|| Error::TokenContent { path: path.to_owned() })?;
    header.set_sensitive(true);
    Ok(header)
}

fn upgrade_error(url: &WebSocketUrl, token_file: Option<&Path>, error: tungstenite::Error) -> Error {
    let url = url.to_string();
    match error {
        tungstenite::Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            Error::Unauthorized { url, token_file: token_file.map(Path::to_owned) }
        }
        tungstenite::Error::Http(response) if speaks_tls(&response) => Error::SpeaksTls { url },
        tungstenite::Error::Http(response) => Error::Refused { url, status: response.status().as_u16() },
        other => Error::Upgrade { url, cause: Box::new(other) },
    }
}

/// What many TLS servers, the sidecar among them, say to a plain request.
fn speaks_tls(response: &Response<Option<Vec<u8>>>) -> bool {
    let body = response.body().as_deref().unwrap_or_default();
    response.status() == StatusCode::BAD_REQUEST && String::from_utf8_lossy(body).contains("HTTPS")
}
