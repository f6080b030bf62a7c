//! The profiles: the four that are built in, and the operator's own, each an extension of one of them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::network::Network;
use crate::policy::{Options, TmpPolicy};

/// What a launch may do, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Read and execute; no network; a private temporary directory.
    ReadOnly,
    /// Write to the workspace and /tmp; no network. The default.
    WorkspaceWriteNoNetwork,
    /// Write to the workspace and /tmp; network.
    WorkspaceWrite,
    /// Everything that the sidecar itself may do; only where the operator's ceiling is `none`.
    None,
    /// The operator's own.
    Custom(Arc<CustomProfile>),
}

/// A profile of the operator's: another one, with more roots, and a word of its own on the rest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CustomProfile {
    /// Its name, none of the built-in ones.
    pub name: String,
    /// The built-in profile that it starts from; not `none`.
    pub extends: Profile,
    /// More trees to read and execute from; each must exist.
    pub read_roots: Vec<PathBuf>,
    /// More trees to write to; each must exist.
    pub write_roots: Vec<PathBuf>,
    /// The network; that of `extends` without it.
    pub network: Option<Network>,
    /// Where temporary files go. Without it they are private where `extends` is `readOnly`, and as [`Options::tmp`] says
    /// elsewhere.
    pub tmp: Option<TmpPolicy>,
    /// Whether ptrace is allowed; [`Options::debug`] without it.
    pub debug: Option<bool>,
}

impl Profile {
    /// The built-in profiles, the tightest first.
    pub const ALL: [Profile; 4] =
        [Profile::ReadOnly, Profile::WorkspaceWriteNoNetwork, Profile::WorkspaceWrite, Profile::None];

    /// The name on the wire and in the config; also the metric label.
    pub fn name(&self) -> &str {
        match self {
            Profile::ReadOnly => "readOnly",
            Profile::WorkspaceWriteNoNetwork => "workspaceWriteNoNetwork",
            Profile::WorkspaceWrite => "workspaceWrite",
            Profile::None => "none",
            Profile::Custom(custom) => &custom.name,
        }
    }

    /// What there is of the operator's own in it.
    pub(crate) fn custom(&self) -> Option<&CustomProfile> {
        match self {
            Profile::Custom(custom) => Some(custom),
            _ => None,
        }
    }

    /// The built-in profile that it is, or starts from.
    pub(crate) fn base(&self) -> &Profile {
        self.custom().map_or(self, |custom| custom.extends.base())
    }

    /// Its network.
    pub(crate) fn network(&self, options: &Options) -> Network {
        let own = self.custom().and_then(|custom| custom.network.clone());
        own.unwrap_or_else(|| match self.base() {
            Profile::WorkspaceWrite => options.network.clone(),
            Profile::None => Network::Open,
            _ => Network::None,
        })
    }

    /// The table of the config that its network is from.
    pub(crate) fn network_key(&self) -> String {
        match self.custom() {
            Some(CustomProfile { name, network: Some(_), .. }) => format!("profiles.{name}"),
            _ => String::from("network"),
        }
    }

    /// Where its temporary files go; `None` where it is not confined.
    pub(crate) fn tmp(&self, options: &Options) -> Option<TmpPolicy> {
        let own = self.custom().and_then(|custom| custom.tmp);
        match self.base() {
            Profile::None => None,
            Profile::ReadOnly => Some(own.unwrap_or(TmpPolicy::Private)),
            _ => Some(own.unwrap_or(options.tmp)),
        }
    }

    /// Whether it allows ptrace.
    pub(crate) fn debug(&self, options: &Options) -> bool {
        self.custom().and_then(|custom| custom.debug).unwrap_or(options.debug)
    }

    /// How much it allows, roughly: the place of its base among the built-in ones.
    fn rank(&self) -> usize {
        Profile::ALL.iter().position(|p| p == self.base()).unwrap_or(Profile::ALL.len())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no profile; it prints what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("readOnly, workspaceWriteNoNetwork, workspaceWrite{own} or none", own = .custom.iter().map(|name| format!(", {name}")).collect::<String>())]
pub struct UnknownProfile {
    /// The operator's own profiles.
    pub custom: Vec<String>,
}

/// The built-in ones; [`Options::profile`] knows the operator's too.
impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Profile::ALL.into_iter().find(|p| p.name() == s).ok_or(UnknownProfile { custom: Vec::new() })
    }
}

impl Options {
    /// The profile of that name, built in or the operator's own.
    ///
    /// # Errors
    /// There is none.
    pub fn profile(&self, name: &str) -> Result<Profile, UnknownProfile> {
        let custom = self.profiles.iter().find(|custom| custom.name == name);
        match custom {
            Some(custom) => Ok(Profile::Custom(Arc::clone(custom))),
            None => name.parse().map_err(|_| UnknownProfile {
                custom: self.profiles.iter().map(|custom| custom.name.clone()).collect(),
            }),
        }
    }

    /// The profiles that are worth asking for under the ceiling, the tightest first, the operator's own last.
    pub fn offered(&self) -> impl Iterator<Item = Profile> {
        let own = self.profiles.iter().map(|custom| Profile::Custom(Arc::clone(custom)));
        Profile::ALL.into_iter().chain(own).filter(|profile| profile.rank() <= self.ceiling.rank())
    }

    /// The profile, or the ceiling where that is lower. For names: the kernel does the cutting.
    pub fn cut_down<'a>(&'a self, profile: &'a Profile) -> &'a Profile {
        if profile.rank() <= self.ceiling.rank() { profile } else { &self.ceiling }
    }
}
