//! A policy made ready: layers, descriptors and the receipt, all made before any fork. Immutable once made.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::explain::{self, Access, Explanation};
use crate::landlock::{Grant, Layer};
use crate::network::{Network, PORTS_ABI};
use crate::permissions;
use crate::policy::{OnUnsupported, Options, Profile, PtyPolicy, Request, TmpPolicy};
use crate::probe::Kernel;
use crate::receipt::{Receipt, Terms, Unenforced};
use crate::resolve::{self, Granted, Resolved, Stamp};
use crate::seccomp::Class;

/// A policy made ready for launches and file operations.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) receipt: Receipt,
    pub(crate) class: Class,
    /// The operator's ceiling, then the request.
    layers: Vec<Ready>,
    stamps: Vec<Stamp>,
    /// What no key of the config grants.
    protected: Vec<PathBuf>,
    /// Whether each launch gets a temporary directory of its own.
    pub(crate) private_tmp: bool,
    /// Whether a launch may open no terminal but its own.
    pub(crate) own_pty: bool,
    profile: Option<Profile>,
}

#[derive(Debug)]
struct Ready {
    resolved: Resolved,
    network: Network,
    ruleset: OwnedFd,
}

/// What one layer grants, before it is resolved.
struct Spec {
    trees: Vec<resolve::Tree>,
    denied: Vec<PathBuf>,
    network: Network,
    private_tmp: bool,
    confined: bool,
}

impl Spec {
    fn of_profile(profile: Profile, options: &Options) -> Self {
        Spec {
            trees: resolve::profile_trees(profile, options),
            denied: Vec::new(),
            network: match profile {
                Profile::ReadOnly | Profile::WorkspaceWriteNoNetwork => Network::None,
                Profile::WorkspaceWrite => options.network.clone(),
                Profile::None => Network::Open,
            },
            private_tmp: profile == Profile::ReadOnly
                || (options.tmp == TmpPolicy::Private && profile != Profile::None),
            confined: profile != Profile::None,
        }
    }
}

impl Prepared {
    /// Makes a request ready.
    ///
    /// # Errors
    /// [`Error`]: what was asked for cannot be honoured here.
    pub(crate) fn new(request: &Request, options: &Options, kernel: &Kernel) -> Result<Self, Error> {
        let mut specs = vec![Spec::of_profile(options.ceiling, options)];
        let mut unenforced = Vec::new();
        let mut read_only = options.ceiling == Profile::ReadOnly;
        // The ceiling is one layer and the request a second: the kernel intersects them.
        let profile = match request {
            Request::Ceiling => Some(options.ceiling),
            Request::Default => Some(options.default),
            Request::Profile(profile) => Some(*profile),
            Request::Permissions(permissions) => {
                let translated = permissions::translate(permissions, options)?;
                read_only |= translated.read_only();
                specs.push(Spec {
                    private_tmp: !translated
                        .trees
                        .iter()
                        .any(|t| t.grant == Grant::Write && options.roots.tmp.starts_with(&t.path)),
                    network: if translated.network { Network::Open } else { Network::None },
                    trees: translated.trees,
                    denied: translated.denied,
                    confined: true,
                });
                unenforced = translated.unenforced;
                None
            }
        };
        if let Some(profile) = profile
            && profile != options.ceiling
            && profile != Profile::None
        {
            read_only |= profile == Profile::ReadOnly;
            specs.push(Spec::of_profile(profile, options));
        }
        let name = match profile {
            None => "custom".to_owned(),
            Some(Profile::None) => options.ceiling.to_string(),
            Some(profile) => profile.to_string(),
        };
        Self::build(specs, read_only, name, unenforced, profile, options, kernel)
    }

    fn build(
        specs: Vec<Spec>,
        read_only: bool,
        name: String,
        unenforced: Vec<Unenforced>,
        profile: Option<Profile>,
        options: &Options,
        kernel: &Kernel,
    ) -> Result<Self, Error> {
        let confined = specs.iter().any(|s| s.confined);
        let network = specs.iter().fold(Network::Open, |sum, s| sum.meet(&s.network));
        let private_tmp = specs.iter().any(|s| s.private_tmp);
        let class = Class {
            sockets: network.sockets(),
            read_only,
            debug: options.debug && confined,
            abi: kernel.abi,
            signal_scope: kernel.scope_signal,
        };
        let mut prepared = Prepared {
            receipt: Receipt::new(
                &Terms {
                    profile: &name,
                    confined,
                    read_only,
                    own_pty: options.ptys == PtyPolicy::Own,
                    network: &network,
                },
                kernel,
                unenforced,
            ),
            class,
            layers: Vec::new(),
            stamps: Vec::new(),
            protected: Vec::new(),
            private_tmp,
            own_pty: confined && options.ptys == PtyPolicy::Own,
            profile,
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
        let protected = resolve::protected_places(&options.roots);
        prepared.protected.clone_from(&protected);
        if options.tmp == TmpPolicy::Private {
            // A launch has a directory of its own there; granting all of it would undo that.
            prepared.protected.push(options.roots.tmp.clone());
        }
        for spec in specs.into_iter().filter(|s| s.confined) {
            let mut places = protected.clone();
            places.extend(spec.denied);
            let mut resolved = resolve::resolve(&spec.trees, &places)?;
            prepared.stamps.append(&mut resolved.stamps);
            let ready = ruleset(&resolved, &spec.network, &[], kernel)?;
            if !prepared.private_tmp && !prepared.own_pty {
                // No launch needs a ruleset of its own, so the descriptors have done their duty.
                resolved.rules.clear();
            }
            prepared.layers.push(Ready { ruleset: ready, resolved, network: spec.network });
        }
        Ok(prepared)
    }

    /// What will be enforced.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// The built-in profile behind it; `None` for translated permissions.
    pub fn profile(&self) -> Option<Profile> {
        self.profile
    }

    /// Whether the files and directories that it was made from are still the same ones.
    pub(crate) fn holds(&self) -> bool {
        self.stamps.iter().all(Stamp::holds)
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

    /// Whether `path` is a root of the policy, which `fs/remove` refuses. `path` must be canonical.
    pub fn is_root(&self, path: &Path) -> bool {
        path == Path::new("/") || self.trees().flatten().any(|t| t.path == path)
    }

    /// What in the operator's config would grant `path`, in the config's words, where nothing does now. A guess where
    /// symlinks are in the way.
    pub fn hint(&self, path: &Path, write: bool) -> Option<String> {
        let access = explain::access(path, self.trees());
        let granted = if write { access.write } else { access.read };
        if self.layers.is_empty() || granted {
            return None;
        }
        let key = if write { "writeRoots" } else { "readRoots" };
        let parent = path.parent().filter(|dir| *dir != Path::new("/"));
        let dir = if path.is_dir() { path } else { parent.unwrap_or(path) };
        // The root as a whole cannot be granted: it holds every protected place.
        if dir == Path::new("/") || self.protected.iter().any(|p| dir.starts_with(p)) {
            return None;
        }
        Some(format!("{key} += {:?}", dir.display().to_string()))
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
    fn trees(&self) -> impl Iterator<Item = &[Granted]> {
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
