//! Where a sidecar listens, as a user writes it.

use std::fmt;
use std::path::PathBuf;

use tokio_tungstenite::tungstenite::http::Uri;

/// The ports of URLs that name none.
const DEFAULT_PORT: u16 = 80;
const DEFAULT_TLS_PORT: u16 = 443;

const EXPECTED: &str = "expected ws://HOST:PORT, as sandbox-sidecar prints it, or unix:///PATH";

/// A `ws://`, `wss://` or `unix://` URL. Its text is fit for logs: it cannot hold credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SidecarUrl {
    /// `ws://HOST[:PORT][/PATH]`, or `wss://`
    WebSocket(WebSocketUrl),
    /// `unix:///PATH`
    Unix(PathBuf),
}

/// A `ws://` or `wss://` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSocketUrl {
    pub(super) uri: Uri,
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether it is `wss://`.
    pub(super) tls: bool,
}

impl SidecarUrl {
    /// Parses `ws://HOST[:PORT][/PATH]`, the same with `wss://`, or `unix:///PATH`.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what was expected; the caller knows where the URL came from.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            if !path.is_absolute() {
                return Err(format!("{text:?} names no absolute path; {EXPECTED}"));
            }
            return Ok(Self::Unix(path));
        }
        let uri: Uri = text.parse().map_err(|e| format!("{text:?} is no URL ({e}); {EXPECTED}"))?;
        let tls = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") if cfg!(feature = "tls") => true,
            Some("wss") => {
                return Err(format!(
                    "{text:?}: this program is built without TLS; build it with --features tls, or use ws:// on loopback, or \
                     through a tunnel that encrypts"
                ));
            }
            _ => return Err(format!("{text:?} has no scheme that is known here; {EXPECTED}")),
        };
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("the URL must not hold credentials; put the token into token_file".to_owned());
        }
        // The brackets of an IPv6 address belong to the URL, not to the address.
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(format!("{text:?} names no host; {EXPECTED}"));
        }
        let port = uri.port_u16().unwrap_or(if tls { DEFAULT_TLS_PORT } else { DEFAULT_PORT });
        Ok(Self::WebSocket(WebSocketUrl { uri, host, port, tls }))
    }
}

impl fmt::Display for SidecarUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SidecarUrl::WebSocket(url) => url.fmt(f),
            SidecarUrl::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Display for WebSocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_goes_by_the_build() {
        match SidecarUrl::parse("wss://sidecar/exec") {
            Ok(SidecarUrl::WebSocket(url)) => {
                let built_with = cfg!(feature = "tls");
                assert_eq!((url.host.as_str(), url.port, url.tls, built_with), ("sidecar", 443, true, true));
            }
            other => assert!(!cfg!(feature = "tls") && other.unwrap_err().contains("--features tls")),
        }
    }

    #[test]
    fn urls() {
        for (text, host, port) in [
            ("ws://127.0.0.1:8790", "127.0.0.1", 8790),
            ("ws://[::1]:1/", "::1", 1),
            ("ws://sidecar/exec", "sidecar", 80),
        ] {
            let SidecarUrl::WebSocket(url) = SidecarUrl::parse(text).unwrap() else { panic!("{text}") };
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
        }
        for text in ["unix:///run/a b.sock", "unix:/run/a b.sock"] {
            let url = SidecarUrl::parse(text).unwrap();
            assert_eq!(url, SidecarUrl::Unix("/run/a b.sock".into()));
            assert_eq!(url.to_string(), "unix:///run/a b.sock");
        }
        for (text, part) in [
            ("http://a:1", "expected ws://HOST:PORT"),
            ("a:1", "expected ws://HOST:PORT"),
            ("none", "expected ws://HOST:PORT"),
            ("", "expected ws://HOST:PORT"),
            ("unix:a.sock", "no absolute path"),
            ("ws://u:secret@a:1", "token_file"),
        ] {
            let message = SidecarUrl::parse(text).unwrap_err();
            assert!(message.contains(part) && !message.contains("secret"), "{message}");
        }
    }
}
