//! Paths resolved by descriptors, with an eye on links that a launch may have planted.
//!
//! A policy is made anew when what it was made from changes, by the server, which is not confined. Where it followed any
//! link, a launch that may write to a home could have the next one granted whatever its link `.cache` leads to.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat};

use crate::policy::Roots;
use crate::profile::CustomProfile;
use crate::resolve::file_type;

/// As many links as the kernel follows on one way (`MAXSYMLINKS`).
const MOST: usize = 40;

/// The trees that some launch may write to, as they are named, and where they really are.
#[derive(Debug, Default)]
pub(crate) struct Links {
    writable: Vec<PathBuf>,
    /// The trees that the config names, where they really are.
    named: Vec<PathBuf>,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Found {
    /// Canonical.
    pub(crate) path: PathBuf,
    pub(crate) fd: OwnedFd,
    /// The links on the way.
    followed: usize,
    /// The tree that one of them lies in, where launches may write to that.
    planted: Option<PathBuf>,
}

impl Found {
    /// Whether a launch may have made a link on the way.
    pub(crate) fn is_planted(&self) -> bool {
        self.planted.is_some()
    }
}

impl Links {
    /// A tree that lies in another one may have been replaced by a link: where that leads is the choice of a launch, and makes
    /// no place writable, or a tree of the config.
    pub(crate) fn new(roots: &Roots, profiles: &[Arc<CustomProfile>]) -> Links {
        let names: Vec<&Path> = roots.writable(profiles).collect();
        let writable = names.iter().map(|name| name.to_path_buf()).collect();
        let mut links = Links { writable, named: Vec::new() };
        // Those with the fewest links on the way come first: without one there is nothing to be doubted.
        let mut found: Vec<(usize, &Path)> =
            names.into_iter().filter_map(|name| Some((links.resolve(name).ok()?.followed, name))).collect();
        found.sort_by_key(|(followed, _)| *followed);
        for (_, name) in found {
            if let Some(real) = links.real_place(name) {
                links.writable.push(real.clone());
                links.named.push(real);
            }
        }
        let readable = roots.read_roots.iter().chain(profiles.iter().flat_map(|profile| &profile.read_roots));
        let readable: Vec<PathBuf> = readable.filter_map(|name| links.real_place(name)).collect();
        links.named.extend(readable);
        links
    }

    fn real_place(&self, name: &Path) -> Option<PathBuf> {
        self.resolve(name).ok().filter(|found| !found.is_planted()).map(|found| found.path)
    }

    /// The tree that launches may write to and that a path lies in, or leads through by a link. It need not exist.
    pub(crate) fn write_root_of(&self, path: &Path) -> Option<PathBuf> {
        let (found, rest) = path.ancestors().find_map(|ancestor| {
            Some((self.resolve(ancestor).ok()?, path.strip_prefix(ancestor).unwrap_or(Path::new(""))))
        })?;
        let real = found.path.join(rest);
        found.planted.or_else(|| self.tree_of(&real))
    }

    fn tree_of(&self, place: &Path) -> Option<PathBuf> {
        self.writable.iter().find(|tree| place.starts_with(tree)).cloned()
    }

    /// Follows a path as the kernel does. Nothing can be put in between: each step is relative to what is open.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Found, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = open("/", flags | OFlag::O_DIRECTORY, Mode::empty())?;
        let (mut above, mut at) =
            (Vec::new(), Found { path: "/".into(), fd: root, followed: 0, planted: None });
        let mut rest = names(path);
        while let Some(name) = rest.pop() {
            if name == ".." {
                if let Some(parent) = above.pop() {
                    at.fd = parent;
                    at.path.pop();
                }
                continue;
            }
            let fd = openat(&at.fd, name.as_os_str(), flags, Mode::empty())?;
            if file_type(&fstat(&fd)?) != SFlag::S_IFLNK {
                above.push(std::mem::replace(&mut at.fd, fd));
                at.path.push(name);
                continue;
            }
            at.followed += 1;
            if at.followed > MOST {
                return Err(Errno::ELOOP);
            }
            at.planted = at.planted.take().or_else(|| self.tree_of(&at.path));
            let target = PathBuf::from(readlinkat(&fd, "")?);
            if target.is_absolute() && !above.is_empty() {
                at.fd = above.swap_remove(0);
                above.clear();
                at.path = "/".into();
            }
            rest.extend(names(&target));
        }
        Ok(at)
    }

    /// What is to be protected by that name; `None` where nothing is. Through a planted link that is only what launches may
    /// write to, and no tree of the config: else one link would take the system, or the workspace, from all that come after.
    pub(crate) fn protected(&self, path: &Path) -> Option<PathBuf> {
        let Found { path: place, planted, .. } = self.resolve(path).ok()?;
        let is_below = self.tree_of(&place).is_some();
        let holds_a_tree = self.named.iter().any(|tree| tree.starts_with(&place));
        (planted.is_none() || (is_below && !holds_a_tree)).then_some(place)
    }
}

/// The names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leads_where_the_kernel_says() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).expect("made");
        fs::write(at("a/b/file"), "").expect("written");
        for (link, target) in [
            ("relative", "a/b"),
            ("up", "a/../a/./b/.."),
            ("chain", "relative/file"),
            ("root", "/"),
            ("loop", "loop"),
            ("dangling", "missing"),
        ] {
            symlink(target, at(link)).expect("linked");
        }
        symlink(at("up"), at("absolute")).expect("linked");
        let links = Links::default();
        for name in [
            "a",
            "a/b/file",
            "relative/file",
            "up/b",
            "chain",
            "root/usr",
            "absolute/b/file",
            "a/b/../b/file",
            "root/..",
        ] {
            let expected = fs::canonicalize(at(name)).expect("there");
            let found = links.resolve(&at(name)).expect("there");
            assert_eq!(found.path, expected, "{name}");
            let (got, wanted) =
                (fstat(&found.fd).expect("open"), nix::sys::stat::stat(&expected).expect("there"));
            assert_eq!((got.st_dev, got.st_ino), (wanted.st_dev, wanted.st_ino), "{name}");
        }
        for (name, errno) in [
            ("missing", Errno::ENOENT),
            ("dangling", Errno::ENOENT),
            ("loop", Errno::ELOOP),
            ("a/b/file/below", Errno::ENOTDIR),
        ] {
            assert_eq!(links.resolve(&at(name)).map(|found| found.path), Err(errno), "{name}");
        }
    }

    #[test]
    fn a_link_is_planted_where_launches_may_write() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().canonicalize().expect("there").join(name);
        fs::create_dir_all(at("open/deep")).expect("made");
        fs::create_dir_all(at("closed/deep")).expect("made");
        symlink("../closed", at("open/out")).expect("linked");
        symlink("../open", at("closed/in")).expect("linked");
        let links = Links { writable: vec![at("open")], named: vec![at("open")] };
        for (path, planted) in [
            ("open/out/deep", true),
            ("closed/in/deep", false),
            ("closed/in/out", true),
            ("open/deep", false),
        ] {
            assert_eq!(links.resolve(&at(path)).expect("there").is_planted(), planted, "{path}");
        }
        symlink("deep", at("open/within")).expect("linked");
        symlink(".", at("open/self")).expect("linked");
        for (path, place) in [
            ("open/deep", Some("open/deep")),
            ("open/within", Some("open/deep")),
            ("open/self", None),
            ("open/out", None),
            ("closed/in", Some("open")),
            ("open/missing", None),
        ] {
            assert_eq!(links.protected(&at(path)), place.map(at), "{path}");
        }
    }

    /// The documented profile whose root lies in the workspace, and a launch that puts a link there instead.
    #[test]
    fn a_root_that_is_a_planted_link_makes_nothing_writable() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().canonicalize().expect("there").join(name);
        for name in ["real/docs", "tmp", "elsewhere"] {
            fs::create_dir_all(at(name)).expect("made");
        }
        symlink("real", at("workspace")).expect("linked");
        symlink("elsewhere", at("by-link")).expect("linked");
        let roots = Roots {
            workspace: at("workspace"),
            home: None,
            tmp: at("tmp"),
            // Before the tree that it lies in is known by its real place.
            read_roots: vec![],
            write_roots: vec![at("real/docs"), at("by-link")],
            protected: vec![],
        };
        let writable = |path: &str| Links::new(&roots, &[]).write_root_of(Path::new(path)).is_some();
        let elsewhere = at("elsewhere/file").display().to_string();
        assert!(
            writable(&elsewhere) && writable(&at("real/x").display().to_string()),
            "by the operator's links"
        );
        assert!(!writable("/usr/bin/env"));
        fs::remove_dir(at("real/docs")).expect("removed");
        for target in ["/", "/usr"] {
            symlink(target, at("real/docs")).expect("linked");
            assert!(!writable("/usr/bin/env"), "{target}");
            assert!(writable(&elsewhere) && writable(&at("real/x").display().to_string()), "{target}");
            let links = Links::new(&roots, &[]);
            assert_eq!(links.named.len(), 4, "{:?}", links.named);
            assert_eq!(
                links.protected(Path::new("/usr")),
                Some("/usr".into()),
                "a link of the operator's is none of theirs"
            );
            // What leads through a launch's link is not safe from launches, wherever it ends.
            assert_eq!(links.write_root_of(&at("real/docs/lib")), Some(at("real")));
            fs::remove_file(at("real/docs")).expect("removed");
        }
    }
}
