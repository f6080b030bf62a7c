//! The operator's own profiles, `[profiles.NAME]`, from their raw values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sidecar_sandbox::{CUSTOM, CustomProfile, Network, Ports, Profile, TmpPolicy};

use super::error::ConfigError;
use super::keys::PROFILES;
use super::network::check_ports;
use super::source::{Raw, Settings};

/// Longest name: it is a label of metrics.
const MAX_NAME: usize = 64;
/// Words of `sandbox.mode` that are no profiles.
const MODES: [&str; 2] = ["hostDefault", "default"];

/// Every profile of the file, by name. Relative roots are relative to `cwd`.
pub(super) fn from_settings(settings: &Settings, cwd: &Path) -> Result<Vec<Arc<CustomProfile>>, ConfigError> {
    let profiles = settings.profiles().iter();
    profiles.map(|(name, values)| Table { name, values }.profile(cwd).map(Arc::new)).collect()
}

/// One `[profiles.NAME]`.
struct Table<'a> {
    name: &'a str,
    values: &'a BTreeMap<&'static str, Raw>,
}

impl Table<'_> {
    fn profile(&self, cwd: &Path) -> Result<CustomProfile, ConfigError> {
        self.check_name()?;
        let bases = Profile::ALL.into_iter().filter(|base| *base != Profile::None);
        let extends = self.text("extends").unwrap_or_default();
        let extends = bases.into_iter().find(|base| base.name() == extends);
        Ok(CustomProfile {
            name: self.name.to_owned(),
            extends: extends
                .ok_or_else(|| self.bad("extends", "readOnly, workspaceWriteNoNetwork or workspaceWrite"))?,
            read_roots: self.roots("readRoots", cwd),
            write_roots: self.roots("writeRoots", cwd),
            network: self.network()?,
            tmp: match self.text("tmp") {
                None => None,
                Some("shared") => Some(TmpPolicy::Shared),
                Some("private") => Some(TmpPolicy::Private),
                Some(_) => return Err(self.bad("tmp", "shared or private")),
            },
            debug: self.boolean("debug"),
        })
    }

    fn check_name(&self) -> Result<(), ConfigError> {
        let name = self.name;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let reason =
            if Profile::ALL.iter().any(|p| p.name() == name) || MODES.contains(&name) || name == CUSTOM {
                "this name has a meaning already; take another one"
            } else if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
                "a name is of letters, digits, - and _, at most 64 of them"
            } else {
                return Ok(());
            };
        Err(ConfigError::Invalid { key: format!("{PROFILES}.{name}"), reason: reason.to_owned() })
    }

    fn network(&self) -> Result<Option<Network>, ConfigError> {
        let network = match self.text("network") {
            Some("ports") => {
                let (connect, bind) = (self.ports("tcpConnect", 1)?, self.ports("tcpBind", 0)?);
                let udp = self.boolean("udp").unwrap_or(false);
                if connect.is_none() && bind.is_none() && udp {
                    return Err(self.bad("network", "open, where nothing is limited"));
                }
                return Ok(Some(Network::Ports(Ports { connect, bind, udp })));
            }
            None => None,
            Some("none") => Some(Network::None),
            Some("open") => Some(Network::Open),
            Some(_) => return Err(self.bad("network", "none, open or ports")),
        };
        match ["tcpConnect", "tcpBind", "udp"].into_iter().find(|key| self.values.contains_key(key)) {
            Some(key) => Err(self.bad(key, "network = \"ports\" beside it")),
            None => Ok(network),
        }
    }

    fn ports(&self, key: &'static str, min: u16) -> Result<Option<BTreeSet<u16>>, ConfigError> {
        let Some(Raw::Ports(ports)) = self.values.get(key) else { return Ok(None) };
        check_ports(ports, min).map_err(|expected| self.bad(key, &expected))?;
        Ok(Some(ports.iter().copied().collect()))
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key)? {
            Raw::Text(text) => Some(text),
            _ => None,
        }
    }

    fn boolean(&self, key: &str) -> Option<bool> {
        match self.values.get(key)? {
            Raw::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn roots(&self, key: &str, cwd: &Path) -> Vec<PathBuf> {
        match self.values.get(key) {
            Some(Raw::List(roots)) => roots.iter().map(|root| cwd.join(root)).collect(),
            _ => Vec::new(),
        }
    }

    fn bad(&self, key: &str, expected: &str) -> ConfigError {
        let value = self.values.get(key).map_or_else(|| String::from("nothing"), |raw| format!("{raw:.64}"));
        ConfigError::Invalid {
            key: format!("{PROFILES}.{}.{key}", self.name),
            reason: format!("it is {value}: expected {expected}"),
        }
    }
}
