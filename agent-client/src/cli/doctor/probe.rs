//! Who answers at an address: one plain HTTP request, for what a WebSocket handshake does not tell.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// An HTTP server, with the status of `/readyz` and what it says.
    Http { status: u16, body: String },
    /// Something that speaks TLS.
    Tls,
    /// Something that speaks neither.
    Other,
    /// Nobody; why.
    Nobody(String),
}

/// The scheme, the host and the port of a WebSocket URL; `None` for what is none.
pub(super) fn parts(url: &str) -> Option<(&str, String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme {
        "ws" => 80,
        "wss" => 443,
        _ => return None,
    };
    let authority = rest.split('/').next().unwrap_or(rest);
    let after_bracket = authority.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match authority[after_bracket..].rfind(':') {
        Some(at) => (&authority[..after_bracket + at], authority[after_bracket + at + 1..].parse().ok()?),
        None => (authority, default),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (scheme, host.to_owned(), port))
}

/// Asks.
pub(super) async fn ask(host: &str, port: u16, within: Duration) -> Answer {
    match tokio::time::timeout(within, exchange(host, port)).await {
        Ok(answer) => answer,
        Err(_) => Answer::Nobody(format!("no answer within {}", humantime::format_duration(within))),
    }
}

async fn exchange(host: &str, port: u16) -> Answer {
    let mut stream = match TcpStream::connect((host, port)).await {
        Ok(stream) => stream,
        Err(error) => return Answer::Nobody(error.to_string()),
    };
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut reply = Vec::new();
    let exchanged = async {
        stream.write_all(request.as_bytes()).await?;
        // Enough for a status line and a reason; what else it has to say is not read.
        (&mut stream).take(4096).read_to_end(&mut reply).await
    };
    // A server may reset the connection behind its answer.
    let _ = exchanged.await;
    understand(&reply)
}

fn understand(reply: &[u8]) -> Answer {
    // A TLS record: an alert, or a handshake.
    if let [0x15 | 0x16, 0x03, ..] = reply {
        return Answer::Tls;
    }
    let text = String::from_utf8_lossy(reply);
    let status = text
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_whitespace().nth(1))
        .and_then(|status| status.parse().ok());
    match status {
        // What many TLS servers say to a plain request.
        Some(400) if text.contains("HTTPS") => Answer::Tls,
        Some(status) => {
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
            Answer::Http { status, body: body.to_owned() }
        }
        None => Answer::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_urls() {
        for (url, expected) in [
            ("ws://127.0.0.1:8790", Some(("ws", "127.0.0.1", 8790))),
            ("wss://host/path", Some(("wss", "host", 443))),
            ("ws://[::1]:5/", Some(("ws", "::1", 5))),
            ("ws://[::1]", Some(("ws", "::1", 80))),
            ("http://a:1", None),
            ("ws://a:x", None),
            ("ws://:1", None),
            ("nonsense", None),
        ] {
            let expected = expected.map(|(scheme, host, port)| (scheme, host.to_owned(), port));
            assert_eq!(parts(url), expected, "{url}");
        }
    }

    #[test]
    fn answers() {
        let ready = b"HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\nno landlock\n";
        assert_eq!(understand(ready), Answer::Http { status: 503, body: "no landlock".to_owned() });
        assert_eq!(understand(b"\x15\x03\x01\x00\x02\x02\x46"), Answer::Tls);
        assert_eq!(understand(b"SSH-2.0-x\r\n"), Answer::Other);
        assert_eq!(understand(b""), Answer::Other);
    }
}
