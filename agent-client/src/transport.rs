//! How a connection comes to be: TCP and the WebSocket upgrade with the token, or a stream within this process.
//!
//! It reads the token file and looks names up; what is said on the connection is [`crate::client`]'s.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use sidecar_protocol::MAX_MESSAGE_BYTES;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, Uri, header};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, tungstenite};

use crate::error::Error;

/// The port of a `ws://` URL that names none.
const DEFAULT_PORT: u16 = 80;

/// A `ws://` URL. Its text is fit for logs: it cannot hold credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidecarUrl {
    uri: Uri,
    host: String,
    port: u16,
}

impl SidecarUrl {
    /// Parses `ws://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what was expected; the caller knows where the URL came from.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected ws://HOST:PORT, as sandbox-sidecar prints it";
        let uri: Uri = text.parse().map_err(|e| format!("{text:?} is no URL ({e}); {expected}"))?;
        match uri.scheme_str() {
            Some("ws") => {}
            Some("wss") => {
                return Err(format!(
                    "{text:?}: TLS (wss://) is not offered yet; use ws:// on loopback, or through a tunnel that encrypts"
                ));
            }
            _ => return Err(format!("{text:?} has no scheme that is known here; {expected}")),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("the URL must not hold credentials; put the token into token_file".to_owned());
        }
        // The brackets of an IPv6 address belong to the URL, not to the address.
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(format!("{text:?} names no host; {expected}"));
        }
        Ok(Self { port: uri.port_u16().unwrap_or(DEFAULT_PORT), host, uri })
    }
}

impl fmt::Display for SidecarUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

/// Connects over TCP and upgrades to a WebSocket, within `timeout` in all. The token is read anew each time, since
/// the sidecar's can change.
///
/// # Errors
/// The errors of [`Error`] that are about the token, the connection and the upgrade.
pub async fn connect(
    url: &SidecarUrl,
    token_file: Option<&Path>,
    timeout: Duration,
) -> Result<WebSocketStream<TcpStream>, Error> {
    let mut request = url.uri.clone().into_client_request().map_err(|e| upgrade_error(url, token_file, e))?;
    if let Some(path) = token_file {
        request.headers_mut().insert(header::AUTHORIZATION, bearer(path).await?);
    }
    let attempt = async {
        let unreachable = |cause| Error::Unreachable { url: url.to_string(), cause };
        let tcp = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(unreachable)?;
        prepare(&tcp).map_err(unreachable)?;
        tokio_tungstenite::client_async_with_config(request, tcp, Some(limits()))
            .await
            .map(|(socket, _)| socket)
            .map_err(|e| upgrade_error(url, token_file, e))
    };
    tokio::time::timeout(timeout, attempt)
        .await
        .unwrap_or_else(|_| Err(Error::ConnectTimeout { url: url.to_string(), after: timeout }))
}

/// A WebSocket over a stream of this process: frames from the first byte on, no HTTP.
pub async fn in_process<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> WebSocketStream<S> {
    WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits())).await
}

/// What both sides take: tungstenite's own defaults would refuse frames over 16 MiB and buffer writes without end.
fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 << 10)
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

fn upgrade_error(url: &SidecarUrl, token_file: Option<&Path>, error: tungstenite::Error) -> Error {
    let url = url.to_string();
    match error {
        tungstenite::Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            Error::Unauthorized { url, token_file: token_file.map(Path::to_owned) }
        }
        tungstenite::Error::Http(response) => Error::Refused { url, status: response.status().as_u16() },
        other => Error::Upgrade { url, cause: Box::new(other) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, host, port) in [
            ("ws://127.0.0.1:8790", "127.0.0.1", 8790),
            ("ws://[::1]:1/", "::1", 1),
            ("ws://sidecar/exec", "sidecar", 80),
        ] {
            let url = SidecarUrl::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
        }
        for (text, part) in [
            ("wss://a:1", "TLS (wss://) is not offered yet"),
            ("http://a:1", "expected ws://HOST:PORT"),
            ("a:1", "expected ws://HOST:PORT"),
            ("none", "expected ws://HOST:PORT"),
            ("", "expected ws://HOST:PORT"),
            ("ws://u:secret@a:1", "token_file"),
        ] {
            let message = SidecarUrl::parse(text).unwrap_err();
            assert!(message.contains(part) && !message.contains("secret"), "{message}");
        }
    }
}
