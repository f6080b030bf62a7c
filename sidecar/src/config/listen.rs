//! The URLs to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenUrl {
    /// `ws://IP:PORT`; port 0 lets the kernel pick one.
    Ws(SocketAddr),
    /// `wss://IP:PORT`: the same, over TLS.
    Wss(SocketAddr),
    /// `unix:///PATH`
    Unix(PathBuf),
    /// `stdio://`: one client, whoever started the server.
    Stdio,
}

/// A URL that cannot be listened on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", self.expected())]
pub enum BadUrl {
    /// None of the schemes.
    Scheme,
    /// Not an IP address and a port.
    Address,
    /// Not an absolute path that fits a socket's name.
    Path,
}

/// What the kernel has room for in a socket's name, bytes.
const MAX_PATH: usize = 107;

impl BadUrl {
    pub(super) fn expected(&self) -> &'static str {
        match self {
            BadUrl::Scheme => "ws://IP:PORT, wss://IP:PORT, unix:///PATH or stdio://",
            BadUrl::Address => {
                "ws://IP:PORT with an IP address, not a host name, and a port, such as ws://127.0.0.1:8790 or ws://[::1]:0"
            }
            BadUrl::Path => {
                "unix:// and an absolute path of at most 107 bytes, such as unix:///run/sidecar.sock"
            }
        }
    }
}

impl ListenUrl {
    /// What is listened on where the config says nothing.
    pub const DEFAULT: ListenUrl = ListenUrl::Ws(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8790));

    /// Whether only this host (or pod) can reach it.
    pub fn is_loopback(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, ListenUrl::Wss(_))
    }

    /// The address of a TCP listener: whoever reaches it must show a token.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            ListenUrl::Ws(address) | ListenUrl::Wss(address) => Some(*address),
            ListenUrl::Unix(_) | ListenUrl::Stdio => None,
        }
    }
}

impl FromStr for ListenUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        if text == "stdio://" {
            return Ok(ListenUrl::Stdio);
        }
        if let Some(path) = text.strip_prefix("unix://") {
            let fits = path.starts_with('/') && path.len() <= MAX_PATH && !path.ends_with('/');
            return if fits { Ok(ListenUrl::Unix(PathBuf::from(path))) } else { Err(BadUrl::Path) };
        }
        let (url, address): (fn(SocketAddr) -> ListenUrl, _) =
            match (text.strip_prefix("ws://"), text.strip_prefix("wss://")) {
                (Some(address), _) => (ListenUrl::Ws, address),
                (None, Some(address)) => (ListenUrl::Wss, address),
                (None, None) => return Err(BadUrl::Scheme),
            };
        let address = address.strip_suffix('/').unwrap_or(address);
        address.parse().map(url).map_err(|_| BadUrl::Address)
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenUrl::Ws(address) => write!(f, "ws://{address}"),
            ListenUrl::Wss(address) => write!(f, "wss://{address}"),
            ListenUrl::Unix(path) => write!(f, "unix://{}", path.display()),
            ListenUrl::Stdio => f.write_str("stdio://"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("ws://127.0.0.1:0", "ws://127.0.0.1:0"),
            ("ws://[::1]:80/", "ws://[::1]:80"),
            ("ws://0.0.0.0:1", "ws://0.0.0.0:1"),
            ("wss://0.0.0.0:1/", "wss://0.0.0.0:1"),
            ("unix:///run/a b.sock", "unix:///run/a b.sock"),
            ("stdio://", "stdio://"),
        ] {
            assert_eq!(text.parse::<ListenUrl>().expect(text).to_string(), shown);
        }
        assert!("ws://[::ffff:127.0.0.1]:1".parse::<ListenUrl>().expect("mapped").is_loopback());
        assert!(!"ws://0.0.0.0:1".parse::<ListenUrl>().expect("any").is_loopback());
        assert!("unix:///a".parse::<ListenUrl>().expect("a path").is_loopback());
    }

    #[test]
    fn what_cannot_be_listened_on() {
        for text in ["unix:/a", "stdio:", "http://127.0.0.1:1", "127.0.0.1:1", ""] {
            assert_eq!(text.parse::<ListenUrl>(), Err(BadUrl::Scheme), "{text}");
        }
        for text in
            ["ws://localhost:1", "ws://127.0.0.1", "ws://::1:1", "ws://127.0.0.1:70000", "ws://127.0.0.1:1/x"]
        {
            assert_eq!(text.parse::<ListenUrl>(), Err(BadUrl::Address), "{text}");
        }
        let long = format!("unix:///{}", "x".repeat(MAX_PATH));
        for text in ["unix://", "unix://relative", "unix:///dir/", &long] {
            assert_eq!(text.parse::<ListenUrl>(), Err(BadUrl::Path), "{text}");
        }
    }
}
