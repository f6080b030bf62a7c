//! From a policy to the trees that it grants: built-in places, protected places cut out, all opened as descriptors.
//!
//! Landlock only adds rights, and a rule covers its whole subtree. So where a granted tree holds a protected place, the
//! tree itself gets no rule; its children around that place do.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

use crate::cuts::{Cut, Cuts};
use crate::error::Error;
use crate::globs::Pattern;
use crate::landlock::Grant;
use crate::links::{Found, Links};
use crate::policy::{Options, PtyPolicy, Roots, SHARED_MEMORY, TmpPolicy};
use crate::profile::Profile;
use crate::stamps::Stamp;

/// A tree that a policy grants, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) grant: Grant,
    /// The config key or wire entry that names it.
    pub(crate) from: String,
    /// A missing one is an error; otherwise it is left out.
    pub(crate) required: bool,
}

/// The trees opened, ready to become rules.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) rules: Vec<(OwnedFd, Grant)>,
    pub(crate) stamps: Vec<Stamp>,
    /// The directories of writable trees that were expanded, and around what.
    pub(crate) expanded: Vec<(PathBuf, String)>,
    /// What the rules stand for, by name; for explanations, hints and what may not be removed.
    pub(crate) trees: Vec<Granted>,
}

/// A tree that has a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Canonical.
    pub(crate) path: PathBuf,
    pub(crate) grant: Grant,
    /// The config key or wire entry that named it, or the tree that it was a child of.
    pub(crate) from: String,
}

/// Most rules of one layer; each holds a descriptor while the policy is kept.
const MAX_RULES: usize = 2048;
/// How deep a tree is walked.
const MAX_DEPTH: usize = 64;
const PLANTED: &str = "a symlink on the way lies in a tree that launches may write to, and is not followed";

const SYSTEM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/proc",
    "/sys",
    "/var/lib",
    "/var/cache",
    "/nix",
];
const TOOLCHAINS: [&str; 8] = [".cargo", ".rustup", ".local", ".pyenv", ".nvm", ".npm", "go", ".cache"];
/// git ends where it finds these and cannot read them: `access` says that it can, since Landlock does not gate that.
const GIT: [&str; 2] = [".gitconfig", ".config/git"];
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
const TERMINALS: [&str; 2] = ["/dev/ptmx", "/dev/pts"];
const PROTECTED: [&str; 2] = ["/run", "/var/run"];
const PROTECTED_IN_HOME: [&str; 17] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".netrc",
    ".npmrc",
    ".git-credentials",
    ".config/git/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".claude.json",
    ".gemini",
];

fn tree(path: impl Into<PathBuf>, grant: Grant, from: &str, required: bool) -> Tree {
    Tree { path: path.into(), grant, from: from.to_owned(), required }
}

/// The trees that may be read and executed from, the workspace not among them.
pub(crate) fn read_trees(roots: &Roots) -> Vec<Tree> {
    let mut trees: Vec<Tree> = SYSTEM.iter().map(|p| tree(*p, Grant::Read, "the system", false)).collect();
    if let Some(home) = &roots.home {
        trees.extend(TOOLCHAINS.iter().map(|d| tree(home.join(d), Grant::Read, "a toolchain folder", false)));
        trees.extend(GIT.iter().map(|p| tree(home.join(p), Grant::Read, "git's configuration", false)));
    }
    trees.extend(roots.read_roots.iter().map(|p| tree(p, Grant::Read, "readRoots", true)));
    trees
}

/// The devices of every profile.
pub(crate) fn device_trees(options: &Options) -> Vec<Tree> {
    let terminals = match options.ptys {
        PtyPolicy::Shared => &TERMINALS[..],
        PtyPolicy::Own => &[],
    };
    DEVICES.iter().chain(terminals).map(|p| tree(*p, Grant::Device, "devices", false)).collect()
}

/// The trees of a profile; `none` has none, it is not confined.
pub(crate) fn profile_trees(profile: &Profile, options: &Options) -> Vec<Tree> {
    let roots = &options.roots;
    let grant = match profile.base() {
        Profile::None => return Vec::new(),
        Profile::ReadOnly => Grant::Read,
        _ => Grant::Write,
    };
    let mut trees = read_trees(roots);
    trees.extend(device_trees(options));
    trees.extend(roots.write_roots.iter().map(|p| tree(p, grant, "writeRoots", true)));
    trees.push(tree(&roots.workspace, grant, "workspaceRoot", true));
    if let Some(custom) = profile.custom() {
        let key = |key: &str| format!("profiles.{}.{key}", custom.name);
        trees.extend(custom.read_roots.iter().map(|p| tree(p, Grant::Read, &key("readRoots"), true)));
        trees.extend(custom.write_roots.iter().map(|p| tree(p, Grant::Write, &key("writeRoots"), true)));
    }
    if trees.iter().any(|t| t.grant == Grant::Write) {
        trees.push(tree(SHARED_MEMORY, Grant::Write, "shared memory", false));
    }
    if profile.tmp(options) == Some(TmpPolicy::Shared) {
        trees.push(tree(&roots.tmp, Grant::Write, "the tmp directory", false));
    }
    trees
}

/// Every protected place, existing or not.
pub(crate) fn protected_places(roots: &Roots) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = vec!["/root".into()];
    homes.extend(roots.home.clone());
    if let Ok(entries) = std::fs::read_dir("/home") {
        homes.extend(entries.flatten().map(|e| e.path()));
    }
    homes.sort();
    homes.dedup();
    let in_homes = homes.iter().flat_map(|h| PROTECTED_IN_HOME.iter().map(move |p| h.join(p)));
    PROTECTED.iter().map(PathBuf::from).chain(in_homes).chain(roots.protected.iter().cloned()).collect()
}

/// What is cut out of the trees of one layer.
pub(crate) struct Without<'a> {
    /// What no key of the config grants, where it is there; canonical.
    pub(crate) protected: &'a [PathBuf],
    /// What is denied: named by whoever asks, so it is wherever a link says.
    pub(crate) denied: &'a [PathBuf],
    pub(crate) patterns: Vec<Pattern>,
}

/// Opens the trees, with the protected and denied places cut out. `within`: another layer holds what a link that a launch
/// has planted could gain.
///
/// # Errors
/// [`Error::Root`] where a required tree is missing, or behind a link that a launch may have planted; [`Error::Refused`] where
/// it is inside a protected place, or where cutting one out takes too many rules.
pub(crate) fn resolve(
    trees: &[Tree],
    without: Without<'_>,
    links: &Links,
    within: bool,
) -> Result<Resolved, Error> {
    let mut out = Resolved::default();
    let Without { protected, denied, patterns } = without;
    out.stamps.extend(denied.iter().map(|p| Stamp::of(p, false)));
    let denied = denied.iter().filter_map(|p| links.resolve(p).ok()).map(|found| found.path);
    let places = protected.iter().cloned().chain(denied).collect();
    let cuts = Cuts { places, patterns };
    for tree in trees {
        out.stamps.push(Stamp::of(&tree.path, false));
        match links.resolve(&tree.path) {
            Ok(found) if within || !found.is_planted() => add_tree(tree, found, &cuts, &mut out)?,
            Ok(_) if tree.required => return Err(root_error(tree, io::Error::other(PLANTED))),
            Err(e) if tree.required => return Err(root_error(tree, e.into())),
            // Another user's toolchain folder, say: it cannot be opened, so it cannot be granted, and need not be.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(out)
}

fn root_error(tree: &Tree, source: io::Error) -> Error {
    Error::Root { role: tree.from.clone(), path: tree.path.clone(), source }
}

fn add_tree(tree: &Tree, found: Found, cuts: &Cuts, out: &mut Resolved) -> Result<(), Error> {
    let cut = cuts.of(&found.path);
    if let Cut::Out(by) = cut {
        if !tree.required {
            return Ok(());
        }
        return Err(Error::Refused(format!(
            "{} {:?} is inside {by:?}, which is protected or denied",
            tree.from, tree.path
        )));
    }
    grant(found.fd, found.path, cut, &Expansion { tree, cuts, depth: 0 }, out)
}

/// A tree that is expanded around its cuts.
#[derive(Clone, Copy)]
struct Expansion<'a> {
    tree: &'a Tree,
    cuts: &'a Cuts,
    depth: usize,
}

/// Grants one file or tree, or what is around the cuts in it.
fn grant(fd: OwnedFd, path: PathBuf, cut: Cut, at: &Expansion<'_>, out: &mut Resolved) -> Result<(), Error> {
    let is_dir = fstat(&fd).is_ok_and(|s| file_type(&s) == SFlag::S_IFDIR);
    if let (Cut::Below(by), true) = (cut, is_dir) {
        return expand(fd, &path, by, at, out);
    }
    if out.rules.len() >= MAX_RULES {
        let Tree { from, path, .. } = at.tree;
        return Err(Error::Refused(format!(
            "{from} {path:?}: what is protected or denied in it can only be cut out by more than {MAX_RULES} rules; \
             protect or deny a directory with few entries beside it"
        )));
    }
    out.trees.push(Granted { path, grant: at.tree.grant, from: at.tree.from.clone() });
    out.rules.push((fd, at.tree.grant));
    Ok(())
}

/// Grants the children of `dir` around the cuts. It goes by descriptors and follows no symlink: a launch that swaps a
/// child gains nothing. The directory itself gets no rule, so nobody lists it, and names that are new in it are not
/// granted.
fn expand(
    dir: OwnedFd,
    path: &Path,
    around: String,
    at: &Expansion<'_>,
    out: &mut Resolved,
) -> Result<(), Error> {
    let tree = at.tree;
    out.stamps.push(Stamp::of(path, true));
    if tree.grant == Grant::Write {
        out.expanded.push((path.to_owned(), around));
    }
    let readable = openat(&dir, ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
    let mut listing = match readable.and_then(Dir::from_fd) {
        Ok(listing) => listing,
        // What nobody can list is not walked, and not granted.
        Err(_) if !tree.required || at.depth > 0 => return Ok(()),
        Err(e) => return Err(root_error(tree, e.into())),
    };
    if at.depth >= MAX_DEPTH {
        return Err(Error::Refused(format!("{} {path:?} is too deep to be walked", tree.from)));
    }
    for entry in listing.iter() {
        let entry = entry.map_err(|e| root_error(tree, e.into()))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let child_path = path.join(OsString::from_vec(name.to_bytes().to_vec()));
        let cut = at.cuts.of(&child_path);
        if matches!(cut, Cut::Out(_)) || is_symlink(&dir, name) {
            continue;
        }
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let child = match openat(&dir, name, flags, Mode::empty()) {
            Ok(child) => child,
            // Gone since it was listed: nothing to grant.
            Err(Errno::ENOENT) => continue,
            Err(e) => {
                return Err(Error::Root { role: tree.from.clone(), path: child_path, source: e.into() });
            }
        };
        if !fstat(&child).is_ok_and(|s| grantable(&s)) {
            continue;
        }
        grant(child, child_path, cut, &Expansion { depth: at.depth + 1, ..*at }, out)?;
    }
    Ok(())
}

fn is_symlink(dir: impl AsFd, name: &std::ffi::CStr) -> bool {
    fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|s| file_type(&s) == SFlag::S_IFLNK)
}

fn grantable(stat: &FileStat) -> bool {
    file_type(stat) != SFlag::S_IFLNK
}

pub(crate) fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}
