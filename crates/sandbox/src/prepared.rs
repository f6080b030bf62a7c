//! A policy made ready: layers, descriptors and the receipt, all made before any fork. Immutable once made.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::changes::Changes;
use crate::error::Error;
use crate::explain::{self, Access, Explanation};
use crate::globs::Pattern;
use crate::landlock::{Grant, Layer};
use crate::links::Links;
use crate::network::{Network, PORTS_ABI};
use crate::permissions::{self, Translated};
use crate::policy::{OnUnsupported, Options, PtyPolicy, Request, TmpPolicy};
use crate::probe::Kernel;
use crate::profile::Profile;
use crate::receipt::{Receipt, Terms, Unenforced};
use crate::resolve::{self, Granted, Resolved, Without};
use crate::seccomp::Class;
use crate::stamps::{Stamp, Stamps};

/// The name in the receipt of translated permissions; no profile of the operator's may have it.
pub const CUSTOM: &str = "custom";

/// A policy made ready for launches and file operations.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) receipt: Receipt,
    pub(crate) class: Class,
    /// The operator's ceiling, then what is asked for.
    pub(crate) layers: Vec<Ready>,
    stamps: Stamps,
    /// What no key of the config grants.
    pub(crate) protected: Vec<PathBuf>,
    /// The container's directory for temporary files, where launches have their own in it.
    pub(crate) own_tmp: Option<PathBuf>,
    /// The ceiling's name.
    pub(crate) ceiling: String,
    /// Whether each launch gets a temporary directory of its own.
    pub(crate) private_tmp: bool,
    /// Whether a launch may open no terminal but its own.
    pub(crate) own_pty: bool,
}

/// One layer.
#[derive(Debug)]
pub(crate) struct Ready {
    resolved: Resolved,
    pub(crate) network: Network,
    /// The table of the config that limits it.
    pub(crate) network_key: String,
    ruleset: OwnedFd,
}

/// What one layer grants, before it is resolved.
struct Spec {
    trees: Vec<resolve::Tree>,
    denied: Vec<PathBuf>,
    patterns: Vec<Pattern>,
    walked: Vec<PathBuf>,
    network: Network,
    network_key: String,
    private_tmp: bool,
    confined: bool,
    debug: bool,
    /// Its trees are named by whoever asks.
    asked: bool,
}

impl Spec {
    fn of_profile(profile: &Profile, options: &Options) -> Self {
        Spec {
            trees: resolve::profile_trees(profile, options),
            denied: Vec::new(),
            patterns: Vec::new(),
            walked: Vec::new(),
            network: profile.network(options),
            network_key: profile.network_key(),
            private_tmp: profile.tmp(options) == Some(TmpPolicy::Private),
            confined: *profile.base() != Profile::None,
            debug: profile.debug(options),
            asked: false,
        }
    }

    fn of_permissions(translated: Translated, options: &Options, unenforced: &mut Vec<Unenforced>) -> Self {
        unenforced.extend(translated.unenforced);
        let tmp_is_granted = translated
            .trees
            .iter()
            .any(|t| t.grant == Grant::Write && options.roots.tmp.starts_with(&t.path));
        Spec {
            private_tmp: !tmp_is_granted,
            network: if translated.network { Network::Open } else { Network::None },
            network_key: String::from("network"),
            trees: translated.trees,
            denied: translated.denied,
            patterns: translated.patterns,
            walked: translated.walked,
            confined: true,
            debug: options.debug,
            asked: true,
        }
    }

    /// Whether nothing may be written, a temporary directory of the launch's own aside.
    fn read_only(&self) -> bool {
        self.confined && self.trees.iter().all(|t| t.grant != Grant::Write)
    }
}

impl Prepared {
    /// Makes a request ready.
    ///
    /// # Errors
    /// [`Error`]: what was asked for cannot be honoured here.
    pub(crate) fn new(
        request: &Request,
        options: &Options,
        kernel: &Kernel,
        changes: Option<Arc<Changes>>,
    ) -> Result<Self, Error> {
        let mut specs = vec![Spec::of_profile(&options.ceiling, options)];
        let mut unenforced = Vec::new();
        // The ceiling is one layer, and each thing that is asked for another: the kernel intersects them.
        let (profile, permissions) = match request {
            Request::Ceiling => (Some(&options.ceiling), None),
            Request::Default => (Some(&options.default), None),
            Request::Profile(profile) => (Some(profile), None),
            Request::Permissions(permissions) => (None, Some(permissions)),
            Request::Within(profile, permissions) => (Some(profile), Some(permissions)),
        };
        if let Some(profile) = profile
            && *profile != options.ceiling
            && *profile != Profile::None
        {
            specs.push(Spec::of_profile(profile, options));
        }
        if let Some(permissions) = permissions {
            let translated = permissions::translate(permissions, options)?;
            specs.push(Spec::of_permissions(translated, options, &mut unenforced));
        }
        let name = match profile {
            _ if permissions.is_some() => CUSTOM,
            None | Some(Profile::None) => options.ceiling.name(),
            Some(profile) => profile.name(),
        };
        Self::build(specs, name, unenforced, options, kernel, changes)
    }

    fn build(
        specs: Vec<Spec>,
        name: &str,
        unenforced: Vec<Unenforced>,
        options: &Options,
        kernel: &Kernel,
        changes: Option<Arc<Changes>>,
    ) -> Result<Self, Error> {
        let confined = specs.iter().any(|s| s.confined);
        let read_only = specs.iter().any(Spec::read_only);
        let network = specs.iter().fold(Network::Open, |sum, s| sum.meet(&s.network));
        let private_tmp = specs.iter().any(|s| s.private_tmp);
        let debug = confined && specs.iter().all(|s| s.debug);
        let class = Class {
            sockets: network.sockets(),
            read_only,
            debug,
            abi: kernel.abi,
            signal_scope: kernel.scope_signal,
        };
        let terms = Terms {
            profile: name,
            confined,
            read_only,
            own_pty: options.ptys == PtyPolicy::Own,
            network: &network,
        };
        let mut prepared = Prepared {
            receipt: Receipt::new(&terms, kernel, unenforced),
            class,
            layers: Vec::new(),
            stamps: Stamps::new(changes),
            protected: Vec::new(),
            own_tmp: private_tmp.then(|| options.roots.tmp.clone()),
            ceiling: options.ceiling.to_string(),
            private_tmp,
            own_pty: confined && options.ptys == PtyPolicy::Own,
        };
        if let (Some(reason), true, OnUnsupported::Refuse) =
            (kernel.unavailable, confined, options.on_unsupported)
        {
            return Err(Error::Unavailable(reason));
        }
        // Not for `degrade` either: that is about files, and all of the network would be open.
        if network.has_ports() && kernel.abi < PORTS_ABI {
            return Err(Error::Abi { what: "a list of TCP ports".into(), needs: PORTS_ABI, has: kernel.abi });
        }
        if kernel.unavailable.is_some() && confined {
            return Ok(prepared);
        }
        prepared.protected = resolve::protected_places(&options.roots);
        prepared.stamps.add(prepared.protected.iter().map(|place| Stamp::of(place, false)));
        let links = Links::new(&options.roots, &options.profiles);
        let protected: Vec<PathBuf> =
            prepared.protected.iter().filter_map(|place| links.protected(place)).collect();
        for spec in specs.into_iter().filter(|s| s.confined) {
            let without = Without { protected: &protected, denied: &spec.denied, patterns: spec.patterns };
            // The operator's ceiling is the first layer, where it is one.
            let within = spec.asked && !prepared.layers.is_empty();
            let mut resolved = resolve::resolve(&spec.trees, without, &links, within)?;
            prepared.stamps.add(resolved.stamps.drain(..));
            prepared.stamps.add(spec.walked.iter().map(|dir| Stamp::of(dir, true)));
            prepared.receipt.expanded(&resolved.expanded);
            let ready = ruleset(&resolved, &spec.network, &[], kernel)?;
            if !prepared.private_tmp && !prepared.own_pty {
                // No launch needs a ruleset of its own, so the descriptors have done their duty.
                resolved.rules.clear();
            }
            prepared.layers.push(Ready {
                ruleset: ready,
                resolved,
                network: spec.network,
                network_key: spec.network_key,
            });
        }
        Ok(prepared)
    }

    /// What will be enforced.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Whether the files and directories that it was made from are still the same ones. Blocking: it may look at them.
    pub fn holds(&self) -> bool {
        self.stamps.hold()
    }

    /// Whether that is known without a look at them. Does not block.
    pub fn surely_holds(&self) -> bool {
        self.stamps.surely_hold()
    }

    /// The layers' rulesets, the operator's ceiling first.
    pub(crate) fn rulesets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.layers.iter().map(|l| &l.ruleset)
    }

    /// Fresh rulesets that grant places of one launch too: its temporary directory, its terminal.
    ///
    /// # Errors
    /// [`Error::Kernel`]: the launch must be refused.
    pub(crate) fn rulesets_with(
        &self,
        own: &[(OwnedFd, Grant)],
        kernel: &Kernel,
    ) -> Result<Vec<OwnedFd>, Error> {
        self.layers.iter().map(|l| ruleset(&l.resolved, &l.network, own, kernel)).collect()
    }

    /// Whether `path` is a root of the policy, or holds one; `fs/remove` refuses that. `path` must be canonical.
    pub fn is_root(&self, path: &Path) -> bool {
        path == Path::new("/") || self.trees().flatten().any(|t| t.path.starts_with(path))
    }

    /// Which rights a path gets, and from which rules. Symlinks are resolved first, as the kernel does.
    pub fn explain(&self, path: &Path) -> Explanation {
        let path = explain::resolve(path);
        if self.layers.is_empty() {
            return Explanation { path, access: Access::ALL, rules: Vec::new() };
        }
        let (access, rules) = (explain::access(&path, self.trees()), explain::rules(&path, self.trees()));
        Explanation { path, access, rules }
    }

    /// What each layer grants.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &[Granted]> {
        self.layers.iter().map(|l| l.resolved.trees.as_slice())
    }
}

fn ruleset(
    resolved: &Resolved,
    network: &Network,
    own: &[(OwnedFd, Grant)],
    kernel: &Kernel,
) -> Result<OwnedFd, Error> {
    let mut layer = Layer::new(kernel, network)?;
    for (place, grant) in resolved.rules.iter().chain(own) {
        layer.grant(place, *grant)?;
    }
    layer.finish()
}
