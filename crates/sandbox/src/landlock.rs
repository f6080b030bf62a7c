//! Landlock rulesets from resolved grants. Hard requirements throughout: what was probed must hold, a ruleset without a
//! descriptor is an error, a path that cannot be opened is one too.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use nix::sys::stat::{SFlag, fstat};

use crate::error::Error;
use crate::network::{Network, PORTS_ABI, Ports};
use crate::probe::Kernel;
use crate::sys;

/// `LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF` of linux/landlock.h, from ABI 7: keeps the node's audit log quiet.
const LOG_SAME_EXEC_OFF: u32 = 1;

/// The rights that a grant stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Grant {
    /// Execute, ReadFile, ReadDir.
    Read,
    /// ReadFile, WriteFile, Truncate, IoctlDev.
    Device,
    /// Everything but MakeChar and MakeBlock.
    Write,
}

impl Grant {
    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Grant::Read => "read",
            Grant::Device => "device",
            Grant::Write => "write",
        }
    }

    fn rights(self, abi: ABI) -> BitFlags<AccessFs> {
        let all = AccessFs::from_all(abi);
        match self {
            Grant::Read => AccessFs::from_read(abi),
            Grant::Write => all & !(AccessFs::MakeChar | AccessFs::MakeBlock),
            Grant::Device => {
                all & (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev)
            }
        }
    }
}

/// The rights on TCP that a network handles, each with the ports that have it.
fn tcp_rules(network: &Network, abi: u32) -> Vec<(AccessNet, Vec<u16>)> {
    let (connect, bind) = match network {
        _ if abi < PORTS_ABI => (None, None),
        Network::Open => (None, None),
        Network::None => (Some(Vec::new()), Some(Vec::new())),
        Network::Ports(Ports { connect, bind, .. }) => {
            let list = |ports: &BTreeSet<u16>| ports.iter().copied().collect();
            (connect.as_ref().map(list), bind.as_ref().map(list))
        }
    };
    let handled = [(AccessNet::ConnectTcp, connect), (AccessNet::BindTcp, bind)];
    handled.into_iter().filter_map(|(right, ports)| Some((right, ports?))).collect()
}

/// The flags for `landlock_restrict_self` under that ABI.
pub(crate) fn restrict_flags(abi: u32) -> u32 {
    if abi >= 7 { LOG_SAME_EXEC_OFF } else { 0 }
}

/// The crate's name of an ABI number.
pub(crate) fn abi(number: u32) -> ABI {
    ABI::from(number as i32)
}

fn kernel_error(step: &str, e: impl std::fmt::Display) -> Error {
    Error::Kernel { step: step.to_owned(), source: io::Error::other(e.to_string()) }
}

/// One layer being built.
pub(crate) struct Layer {
    ruleset: RulesetCreated,
    abi: ABI,
}

impl Layer {
    /// Handles every file right of the ABI, and what TCP the network limits. Below ABI 4 no port is looked at: whoever
    /// makes a policy with a port list refuses it there, and without a network there are no TCP sockets to look at.
    pub(crate) fn new(kernel: &Kernel, network: &Network) -> Result<Self, Error> {
        let abi = abi(kernel.abi);
        let step = "landlock_create_ruleset";
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))
            .map_err(|e| kernel_error(step, e))?;
        let tcp = tcp_rules(network, kernel.abi);
        for (right, _) in &tcp {
            ruleset = ruleset.handle_access(*right).map_err(|e| kernel_error(step, e))?;
        }
        let mut ruleset = ruleset.create().map_err(|e| kernel_error(step, e))?;
        for (right, port) in tcp.iter().flat_map(|(right, ports)| ports.iter().map(|port| (*right, *port))) {
            let step = "landlock_add_rule (port)";
            (&mut ruleset).add_rule(NetPort::new(port, right)).map_err(|e| kernel_error(step, e))?;
        }
        Ok(Self { ruleset, abi })
    }

    /// Grants a tree, or a single file, by a descriptor of it.
    pub(crate) fn grant(&mut self, place: impl AsFd, grant: Grant) -> Result<(), Error> {
        let step = "landlock_add_rule";
        let mode = fstat(&place).map_err(|e| kernel_error(step, e))?.st_mode;
        let mut rights = grant.rights(self.abi);
        if mode & SFlag::S_IFMT.bits() != SFlag::S_IFDIR.bits() {
            rights &= AccessFs::from_file(self.abi);
        }
        (&mut self.ruleset).add_rule(PathBeneath::new(place, rights)).map_err(|e| kernel_error(step, e))?;
        Ok(())
    }

    /// The finished ruleset.
    pub(crate) fn finish(self) -> Result<OwnedFd, Error> {
        Option::<OwnedFd>::from(self.ruleset).ok_or_else(|| {
            kernel_error(
                "landlock_create_ruleset",
                "no descriptor came back; the sandbox would not be enforced",
            )
        })
    }
}

/// The ruleset that only scopes; `None` where no scope works.
///
/// Where any layer of a domain handles files, each of its layers refuses renames across directories that do not grant
/// them, one without a right on files too. So this one grants that right, and nothing else, everywhere.
pub(crate) fn scopes(kernel: &Kernel) -> Result<Option<OwnedFd>, Error> {
    let mut wanted = BitFlags::<Scope>::EMPTY;
    if kernel.scope_abstract_unix {
        wanted |= Scope::AbstractUnixSocket;
    }
    if kernel.scope_signal {
        wanted |= Scope::Signal;
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let step = "landlock_create_ruleset (scope)";
    let root = PathFd::new("/").map_err(|e| kernel_error("open /", e))?;
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(wanted)
        .and_then(|ruleset| ruleset.handle_access(AccessFs::Refer))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map_err(|e| kernel_error(step, e))?;
    Option::<OwnedFd>::from(created).map(Some).ok_or_else(|| kernel_error(step, "no descriptor came back"))
}

/// Renames and links across directories are the one right that every layer denies, also one that handles no file right.
/// So this layer, which is to say nothing of files, must grant it everywhere.
fn scope_ruleset(wanted: BitFlags<Scope>) -> Result<OwnedFd, Error> {
    let step = "landlock_create_ruleset (scope)";
    let root = PathFd::new("/").map_err(|e| kernel_error(step, e))?;
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(wanted)
        .and_then(|ruleset| ruleset.handle_access(AccessFs::Refer))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map_err(|e| kernel_error(step, e))?;
    Option::<OwnedFd>::from(created).ok_or_else(|| kernel_error(step, "no descriptor came back"))
}

/// Whether a ruleset with just this scope can be made.
pub(crate) fn scope_exists(scope: Scope) -> Option<OwnedFd> {
    scope_ruleset(scope.into()).ok()
}

/// Whether each file right and TCP right of the ABI can be handled, tried one by one.
pub(crate) fn rights_exist(number: u32) -> Result<(), String> {
    let abi = abi(number);
    for right in AccessFs::from_all(abi) {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(right)
            .and_then(Ruleset::create)
            .map_err(|e| format!("{right:?}: {e}"))?;
    }
    for right in AccessNet::from_all(abi) {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(right)
            .and_then(Ruleset::create)
            .map_err(|e| format!("{right:?}: {e}"))?;
    }
    Ok(())
}

/// Puts the calling thread under the layers, for ever.
pub(crate) fn restrict_thread<'a>(layers: impl Iterator<Item = &'a OwnedFd>, abi: u32) -> io::Result<()> {
    for layer in layers {
        sys::landlock_restrict_self(layer.as_fd(), restrict_flags(abi))?;
    }
    Ok(())
}
