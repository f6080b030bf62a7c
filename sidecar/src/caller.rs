//! Who is at the other end of a connection: for the audit trail, and for what a caller may reach: the sessions that are its
//! own, to resume them and for `process/*` of another one. Never for what a launch may do.

use std::fmt;
use std::net::SocketAddr;

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whose doings these are: the name of a token, never the token.
    pub(crate) principal: String,
    /// Where the connection comes from.
    pub(crate) peer: Peer,
}

/// Where a connection comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over TCP.
    Tcp(SocketAddr),
    /// Over a unix socket, by this process.
    Unix {
        /// Its pid; `None` where the kernel does not tell.
        pid: Option<i32>,
    },
    /// Whoever started the server.
    Stdio,
    /// The process that embeds the server.
    InProcess,
}

impl Caller {
    /// Whether a session of one is the other's too: let in under the same name, in the same way.
    pub(crate) fn is_same(&self, other: &Caller) -> bool {
        let way = std::mem::discriminant::<Peer>;
        self.principal == other.principal && way(&self.peer) == way(&other.peer)
    }

    /// Whether it can connect a second time.
    pub(crate) fn can_return(&self) -> bool {
        self.peer != Peer::Stdio
    }

    /// Whether it may take only so long to begin. Whoever started the server may have it wait.
    pub(crate) fn has_to_begin(&self) -> bool {
        matches!(self.peer, Peer::Tcp(_) | Peer::Unix { .. })
    }

    /// A client that was let in under this name; "anybody" where nobody is asked.
    pub(crate) fn tcp(principal: String, peer: SocketAddr) -> Caller {
        Caller { principal, peer: Peer::Tcp(peer) }
    }

    /// A peer of a unix socket goes by its uid.
    pub(crate) fn unix(uid: u32, pid: Option<i32>) -> Caller {
        Caller { principal: format!("uid:{uid}"), peer: Peer::Unix { pid } }
    }

    /// Whoever started the server.
    pub(crate) fn stdio() -> Caller {
        Caller { principal: String::from("local"), peer: Peer::Stdio }
    }

    /// The process that embeds the server.
    pub(crate) fn in_process() -> Caller {
        Caller { principal: String::from("local"), peer: Peer::InProcess }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(addr) => addr.fmt(f),
            Peer::Unix { pid: Some(pid) } => write!(f, "unix pid {pid}"),
            Peer::Unix { pid: None } => f.write_str("unix"),
            Peer::Stdio => f.write_str("stdio"),
            Peer::InProcess => f.write_str("in process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_session_is() {
        let tcp = |name: &str, port| Caller::tcp(name.into(), SocketAddr::from(([127, 0, 0, 1], port)));
        assert!(tcp("a", 1).is_same(&tcp("a", 2)));
        assert!(!tcp("a", 1).is_same(&tcp("b", 1)));
        assert!(Caller::unix(7, Some(1)).is_same(&Caller::unix(7, None)));
        assert!(!Caller::unix(7, Some(1)).is_same(&Caller::unix(8, Some(1))));
        assert!(!Caller::unix(7, None).is_same(&tcp("uid:7", 1)), "a token may have any name");
        assert!(!Caller::stdio().is_same(&Caller::in_process()));
    }
}
