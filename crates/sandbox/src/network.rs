//! What a launch may do on the network, and how two such rules meet. It enforces nothing: `landlock` and `seccomp` do.

use std::collections::BTreeSet;
use std::fmt;

use crate::seccomp::Sockets;

/// What a policy lets a launch do on the network.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Network {
    /// Unix sockets only.
    None,
    /// TCP to some ports.
    Ports(Ports),
    /// Everything.
    #[default]
    Open,
}

/// TCP by port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ports {
    /// The ports that may be connected to; `None` is any.
    pub connect: Option<BTreeSet<u16>>,
    /// The ports that may be bound; `None` is any. 0 stands for one of the kernel's choice.
    pub bind: Option<BTreeSet<u16>>,
    /// Whether there are UDP sockets; to any port then, since no kernel of today limits those.
    pub udp: bool,
}

/// Most ports of one list: each is a rule, and each launch under a ruleset of its own pays for them.
pub const MAX_PORTS: usize = 1024;

/// The first Landlock ABI with rules on TCP ports.
pub(crate) const PORTS_ABI: u32 = 4;

impl Network {
    /// What both allow.
    pub(crate) fn meet(&self, other: &Network) -> Network {
        match (self, other) {
            (Network::None, _) | (_, Network::None) => Network::None,
            (Network::Open, other) | (other, Network::Open) => other.clone(),
            (Network::Ports(a), Network::Ports(b)) => Network::Ports(Ports {
                connect: both(a.connect.as_ref(), b.connect.as_ref()),
                bind: both(a.bind.as_ref(), b.bind.as_ref()),
                udp: a.udp && b.udp,
            }),
        }
    }

    /// Which sockets there are at all.
    pub(crate) fn sockets(&self) -> Sockets {
        match self {
            Network::None => Sockets::Unix,
            Network::Ports(Ports { udp: false, .. }) => Sockets::Tcp,
            Network::Ports(_) | Network::Open => Sockets::All,
        }
    }

    /// Whether Landlock has to look at ports; seccomp does the rest.
    pub(crate) fn has_ports(&self) -> bool {
        matches!(self, Network::Ports(ports) if ports.connect.is_some() || ports.bind.is_some())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Network::Ports(Ports { connect, bind, udp }) = self else {
            return f.write_str(if *self == Network::None { "none" } else { "open" });
        };
        let list = |ports: &Option<BTreeSet<u16>>| match ports {
            None => String::from("any"),
            Some(ports) if ports.is_empty() => String::from("none"),
            Some(ports) => ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" "),
        };
        let udp = if *udp { "any" } else { "none" };
        write!(f, "connect {}, bind {}, udp {udp}", list(connect), list(bind))
    }
}

fn both(a: Option<&BTreeSet<u16>>, b: Option<&BTreeSet<u16>>) -> Option<BTreeSet<u16>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a & b),
        (one, other) => one.or(other).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(connect: Option<&[u16]>, bind: Option<&[u16]>, udp: bool) -> Network {
        let set = |list: &[u16]| list.iter().copied().collect();
        Network::Ports(Ports { connect: connect.map(set), bind: bind.map(set), udp })
    }

    #[test]
    fn what_two_rules_leave() {
        let web = ports(Some(&[80, 443]), None, false);
        let tls = ports(Some(&[443, 8443]), Some(&[0]), true);
        assert_eq!(web.meet(&tls), ports(Some(&[443]), Some(&[0]), false));
        for network in [Network::None, web.clone(), tls, Network::Open] {
            assert_eq!(network.meet(&Network::Open), network);
            assert_eq!(Network::Open.meet(&network), network);
            assert_eq!(network.meet(&Network::None), Network::None);
            assert_eq!(network.meet(&network), network);
        }
        assert_eq!(web.meet(&ports(Some(&[22]), None, false)), ports(Some(&[]), None, false));
    }

    #[test]
    fn in_words() {
        assert_eq!(Network::None.to_string(), "none");
        assert_eq!(Network::Open.to_string(), "open");
        assert_eq!(ports(Some(&[443, 80]), None, false).to_string(), "connect 80 443, bind any, udp none");
        assert_eq!(ports(None, Some(&[]), true).to_string(), "connect any, bind none, udp any");
    }

    #[test]
    fn who_enforces_it() {
        assert_eq!((Network::None.sockets(), Network::None.has_ports()), (Sockets::Unix, false));
        assert_eq!((Network::Open.sockets(), Network::Open.has_ports()), (Sockets::All, false));
        let no_udp = ports(None, None, false);
        assert_eq!((no_udp.sockets(), no_udp.has_ports()), (Sockets::Tcp, false));
        let listening = ports(None, Some(&[]), true);
        assert_eq!((listening.sockets(), listening.has_ports()), (Sockets::All, true));
    }
}
