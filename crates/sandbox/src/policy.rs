//! What may be done: the operator's roots and choices, what a request asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::links::Links;
use crate::network::Network;
use crate::profile::{CustomProfile, Profile};

/// Launches that may write at all may write here.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// The operator's places.
#[derive(Debug, Clone)]
pub struct Roots {
    /// The workspace root.
    pub workspace: PathBuf,
    /// The home whose toolchain folders may be read; `None` where there is none.
    pub home: Option<PathBuf>,
    /// The container's directory for temporary files.
    pub tmp: PathBuf,
    /// More trees to read and execute from; each must exist.
    pub read_roots: Vec<PathBuf>,
    /// More trees to write to; each must exist.
    pub write_roots: Vec<PathBuf>,
    /// Never granted, whatever else is; added to the built-in ones. They need not exist.
    pub protected: Vec<PathBuf>,
}

impl Roots {
    /// The trees that launches of some profile write to, as they are named.
    pub fn writable<'a>(&'a self, profiles: &'a [Arc<CustomProfile>]) -> impl Iterator<Item = &'a Path> {
        let custom = profiles.iter().flat_map(|profile| &profile.write_roots);
        let named = [&self.workspace, &self.tmp].into_iter().chain(&self.write_roots).chain(custom);
        named.map(PathBuf::as_path).chain([Path::new(SHARED_MEMORY)])
    }

    /// The tree that launches of some profile write to and that a path lies in, or leads through by a link. The path need not
    /// exist.
    pub fn write_root_of(&self, profiles: &[Arc<CustomProfile>], path: &Path) -> Option<PathBuf> {
        Links::new(self, profiles).write_root_of(path)
    }
}

/// What to do where the kernel has no Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnsupported {
    /// Refuse every launch under a profile.
    #[default]
    Refuse,
    /// Launch with what is left; the receipt says `partial`.
    Degrade,
}

/// What to do with a read-only place inside a writable root, which Landlock cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CarveOuts {
    /// Launch, and list it in the receipt as unenforced.
    #[default]
    Declare,
    /// Refuse the launch.
    Reject,
}

/// What a launch's directory for temporary files is, where its profile may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TmpPolicy {
    /// The container's own, shared by all launches: agents write a script there in one command and run it in the next.
    #[default]
    Shared,
    /// One of its own, removed with it.
    Private,
}

/// Which terminals a launch may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PtyPolicy {
    /// Any; it can make some itself.
    #[default]
    Shared,
    /// Its own alone; it cannot make any.
    Own,
}

/// The operator's choices.
#[derive(Debug, Clone)]
pub struct Options {
    /// Places.
    pub roots: Roots,
    /// The operator's own profiles.
    pub profiles: Vec<Arc<CustomProfile>>,
    /// The profile of a launch that asks for none.
    pub default: Profile,
    /// What no launch gets beyond.
    pub ceiling: Profile,
    /// The network of `workspaceWrite`; the other built-in profiles with Landlock have none.
    pub network: Network,
    /// Use no Landlock ABI above this one.
    pub max_abi: Option<u32>,
    /// Allow ptrace and process_vm_* among the processes of one launch.
    pub debug: bool,
    /// What to do where the kernel has no Landlock.
    pub on_unsupported: OnUnsupported,
    /// What to do with carve-outs.
    pub carve_outs: CarveOuts,
    /// Temporary files.
    pub tmp: TmpPolicy,
    /// Terminals.
    pub ptys: PtyPolicy,
}

impl Options {
    /// The defaults: `workspaceWriteNoNetwork` under a ceiling of `workspaceWrite`, an open network where a profile has one, and
    /// no profiles of the operator's own.
    pub fn new(roots: Roots) -> Self {
        Options {
            roots,
            profiles: vec![],
            default: Profile::WorkspaceWriteNoNetwork,
            ceiling: Profile::WorkspaceWrite,
            network: Network::Open,
            max_abi: None,
            debug: true,
            on_unsupported: OnUnsupported::default(),
            carve_outs: CarveOuts::default(),
            tmp: TmpPolicy::default(),
            ptys: PtyPolicy::default(),
        }
    }
}

/// What one launch or file operation asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// The operator's default.
    Default,
    /// As much as the operator allows.
    Ceiling,
    /// A profile, cut down to the ceiling.
    Profile(Profile),
    /// The stock client's permissions, cut down to the ceiling.
    Permissions(Permissions),
    /// What both the profile and the permissions grant, cut down to the ceiling.
    Within(Profile, Permissions),
}

impl Request {
    /// Whether it has permissions of a client, of which there are any number.
    pub(crate) fn is_translated(&self) -> bool {
        matches!(self, Request::Permissions(_) | Request::Within(..))
    }
}

/// The stock client's permissions, `managed` and `restricted`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Permissions {
    /// Grants and carve-outs; `None` is an unrestricted file system.
    pub entries: Option<Vec<Entry>>,
    /// Whether the network may be used.
    pub network: bool,
    /// What `current_working_directory` stands for.
    pub cwd: PathBuf,
    /// What `project_roots` stands for; `cwd` where it is empty.
    pub workspace_roots: Vec<PathBuf>,
}

/// One grant or carve-out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What it is about.
    pub place: Place,
    /// What it grants.
    pub access: EntryAccess,
    /// Leave it out where the path does not exist; refuse otherwise.
    pub skip_missing: bool,
}

/// What an entry is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// One tree.
    Path(PathBuf),
    /// Every path that matches.
    Glob(String),
    /// A place by its role.
    Special {
        /// root, minimal, current_working_directory, project_roots, tmpdir, slash_tmp …
        kind: String,
        /// A path below it.
        subpath: Option<String>,
    },
}

/// What an entry grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryAccess {
    /// Read and execute.
    Read,
    /// Read, execute and write.
    Write,
    /// Nothing.
    Deny,
}
