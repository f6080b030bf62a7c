//! The URLs to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// `ws://IP:PORT`; port 0 lets the kernel pick one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenUrl(pub SocketAddr);

/// A URL that cannot be listened on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", self.expected())]
pub enum BadUrl {
    /// Not `ws://`.
    Scheme,
    /// Not an IP address and a port.
    Address,
}

impl BadUrl {
    pub(super) fn expected(&self) -> &'static str {
        match self {
            BadUrl::Scheme => "ws://IP:PORT; no other scheme is supported yet",
            BadUrl::Address => {
                "ws://IP:PORT with an IP address, not a host name, and a port, such as ws://127.0.0.1:8790 or ws://[::1]:0"
            }
        }
    }
}

impl ListenUrl {
    /// What is listened on where the config says nothing.
    pub const DEFAULT: ListenUrl = ListenUrl(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8790));

    /// Whether only this host (or pod) can reach it.
    pub fn is_loopback(&self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl FromStr for ListenUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let address = text.strip_prefix("ws://").ok_or(BadUrl::Scheme)?;
        address.strip_suffix('/').unwrap_or(address).parse().map(ListenUrl).map_err(|_| BadUrl::Address)
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ws://{}", self.0)
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
        ] {
            assert_eq!(text.parse::<ListenUrl>().expect(text).to_string(), shown);
        }
        assert!("ws://[::ffff:127.0.0.1]:1".parse::<ListenUrl>().expect("mapped").is_loopback());
        assert!(!"ws://0.0.0.0:1".parse::<ListenUrl>().expect("any").is_loopback());
    }

    #[test]
    fn what_cannot_be_listened_on() {
        for text in ["unix:///a", "stdio://", "wss://127.0.0.1:1", "127.0.0.1:1", ""] {
            assert_eq!(text.parse::<ListenUrl>(), Err(BadUrl::Scheme), "{text}");
        }
        for text in
            ["ws://localhost:1", "ws://127.0.0.1", "ws://::1:1", "ws://127.0.0.1:70000", "ws://127.0.0.1:1/x"]
        {
            assert_eq!(text.parse::<ListenUrl>(), Err(BadUrl::Address), "{text}");
        }
    }
}
