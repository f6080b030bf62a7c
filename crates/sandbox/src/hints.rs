//! What would grant what a policy denies, in the words of the config. It knows what the policy says; whether that was in a
//! command's way is for others to guess.

use std::path::Path;

use crate::explain::{self, Access};
use crate::network::Network;
use crate::prepared::{CUSTOM, Prepared};

/// The tightest profile that writes.
const WRITES: &str = "workspaceWriteNoNetwork";
/// The tightest profile with a network.
const CONNECTS: &str = "workspaceWrite";

impl Prepared {
    /// What would grant `path`, where nothing does now. A guess where symlinks are in the way.
    pub fn hint(&self, path: &Path, write: bool) -> Option<String> {
        let wanted = |access: Access| if write { access.write } else { access.read };
        if self.layers.is_empty() || wanted(explain::access(path, self.trees())) {
            return None;
        }
        if self.own_tmp.as_deref().is_some_and(|tmp| path.starts_with(tmp)) {
            return None;
        }
        if let Some(place) = self.protected.iter().find(|place| path.starts_with(place)) {
            return Some(format!("nothing: {:?} is protected", place.display().to_string()));
        }
        let parent = path.parent().filter(|dir| *dir != Path::new("/"));
        let dir = if path.is_dir() { path } else { parent.unwrap_or(path) };
        // The root as a whole cannot be granted: it holds every protected place.
        if dir == Path::new("/") {
            return None;
        }
        let quoted = format!("{:?}", dir.display().to_string());
        let ceiling = self.trees().next().unwrap_or_default();
        if wanted(explain::access(path, std::iter::once(ceiling))) {
            // What is asked for is the tighter one.
            return Some(match self.receipt.profile.as_str() {
                CUSTOM => format!("a file_system entry: {} {quoted}", if write { "write" } else { "read" }),
                _ if write => format!("profile = {WRITES:?}"),
                _ => format!("profile = {:?}", self.ceiling),
            });
        }
        // A tree that is granted, and would be to write under another ceiling.
        let own = |rule: &explain::Rule| matches!(rule.from.as_str(), "workspaceRoot" | "writeRoots");
        if write && explain::rules(path, std::iter::once(ceiling)).iter().any(own) {
            return Some(format!("ceiling = {WRITES:?}"));
        }
        Some(match (write, self.class.read_only) {
            (false, _) => format!("readRoots += {quoted}"),
            (true, false) => format!("writeRoots += {quoted}"),
            (true, true) => format!("writeRoots += {quoted}, and a profile that writes: {WRITES}"),
        })
    }

    /// What would let a launch use the network that was in its way: `port` is the TCP port, where it is known.
    pub fn hint_network(&self, port: Option<u16>) -> Option<String> {
        let (at, layer) = self.layers.iter().enumerate().find(|(_, layer)| match (&layer.network, port) {
            (Network::Open, _) => false,
            (Network::None, _) => true,
            (Network::Ports(ports), Some(port)) => {
                [&ports.connect, &ports.bind].into_iter().flatten().any(|list| !list.contains(&port))
            }
            (Network::Ports(ports), None) => !ports.udp,
        })?;
        let key = &layer.network_key;
        Some(match (&layer.network, port) {
            (Network::Ports(ports), Some(port)) => {
                let connects = ports.connect.as_ref().is_some_and(|list| !list.contains(&port));
                format!("{key}.{} += {port}", if connects { "tcpConnect" } else { "tcpBind" })
            }
            (Network::Ports(_), None) => format!("{key}.udp = true, where it was about UDP"),
            _ if self.receipt.profile == CUSTOM && at > 0 => String::from("network: enabled"),
            _ => format!("{} = {CONNECTS:?}", if at == 0 { "ceiling" } else { "profile" }),
        })
    }

    /// What would let a launch change metadata, where it may not.
    pub fn hint_metadata(&self) -> Option<String> {
        self.class.read_only.then(|| format!("a profile that writes: {WRITES}"))
    }
}
