//! Who is at the other end of a connection: for the audit trail, and for `process/*` of another session of the same
//! caller; never for what a launch may do.

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
