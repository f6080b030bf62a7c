//! The network that profiles give: open, or TCP by port.

use std::collections::BTreeSet;

use sidecar_sandbox::{MAX_PORTS, Network, Ports, Profile};

use super::error::ConfigError;
use super::source::{Raw, Settings};

const CONNECT: &str = "network.tcpConnect";
const BIND: &str = "network.tcpBind";
const UDP: &str = "network.udp";

/// The network of `workspaceWrite`. A port list without a word on UDP leaves UDP out: it would be a way around the list.
pub(super) fn from_settings(settings: &Settings, ceiling: &Profile) -> Result<Network, ConfigError> {
    let connect = list(settings, CONNECT, 1)?;
    let bind = list(settings, BIND, 0)?;
    let limited = connect.is_some() || bind.is_some();
    let udp = settings.boolean(UDP).unwrap_or(!limited);
    if !limited && udp {
        return Ok(Network::Open);
    }
    if *ceiling == Profile::None {
        let key = [CONNECT, BIND, UDP].into_iter().find(|key| settings.get(key).is_some()).unwrap_or(UDP);
        return Err(ConfigError::Refused {
            key,
            reason: String::from(
                "the ceiling none has no rules, for the network neither; leave the key out, or set another ceiling",
            ),
        });
    }
    Ok(Network::Ports(Ports { connect, bind, udp }))
}

fn list(settings: &Settings, key: &'static str, min: u16) -> Result<Option<BTreeSet<u16>>, ConfigError> {
    let Some(ports) = settings.ports(key) else { return Ok(None) };
    check_ports(ports, min)
        .map_err(|expected| settings.bad(key, &Raw::Ports(ports.to_vec()).to_string(), expected))?;
    Ok(Some(ports.iter().copied().collect()))
}

/// Whether a list of ports can be used; what was expected where it cannot.
pub(super) fn check_ports(ports: &[u16], min: u16) -> Result<(), String> {
    if ports.len() > MAX_PORTS {
        return Err(format!("at most {MAX_PORTS} ports, not {}: each costs time per launch", ports.len()));
    }
    match ports.iter().find(|port| **port < min) {
        Some(port) => Err(format!("ports from {min} to 65535, without {port}")),
        None => Ok(()),
    }
}
