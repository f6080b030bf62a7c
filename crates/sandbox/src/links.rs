//! Paths resolved by descriptors, with an eye on links that a launch may have planted.
//!
//! A policy is made anew when what it was made from changes, by the server, which is not confined. Where it followed any
//! link, a launch that may write to a home could have the next one granted whatever its link `.cache` leads to.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat};

use crate::policy::Options;
use crate::resolve::file_type;

/// As many links as the kernel follows on one way (`MAXSYMLINKS`).
const MOST: usize = 40;

/// The trees that some launch may write to, canonical and as they are named.
#[derive(Debug, Default)]
pub(crate) struct Links {
    writable: Vec<PathBuf>,
    /// The trees that the config names, canonical.
    named: Vec<PathBuf>,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Found {
    /// Canonical.
    pub(crate) path: PathBuf,
    pub(crate) fd: OwnedFd,
    /// Whether a link on the way lies where launches may write.
    pub(crate) planted: bool,
}

impl Links {
    pub(crate) fn new(options: &Options) -> Links {
        let Options { roots, profiles, .. } = options;
        let canonical = |path: &PathBuf| std::fs::canonicalize(path).ok();
        let readable = roots.read_roots.iter().chain(profiles.iter().flat_map(|profile| &profile.read_roots));
        let mut named: Vec<PathBuf> = readable.filter_map(canonical).collect();
        let mut writable: Vec<PathBuf> = roots.writable(profiles).map(Path::to_owned).collect();
        let real: Vec<PathBuf> = writable.iter().filter_map(canonical).collect();
        named.extend(real.iter().cloned());
        writable.extend(real);
        Links { writable, named }
    }

    /// Follows a path as the kernel does. Nothing can be put in between: each step is relative to what is open.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Found, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = open("/", flags | OFlag::O_DIRECTORY, Mode::empty())?;
        let (mut above, mut at) = (Vec::new(), Found { path: "/".into(), fd: root, planted: false });
        let mut rest = names(path);
        let mut followed = 0;
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
            followed += 1;
            if followed > MOST {
                return Err(Errno::ELOOP);
            }
            at.planted |= self.writable.iter().any(|tree| at.path.starts_with(tree));
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
        let is_below = self.writable.iter().any(|tree| place.starts_with(tree));
        let holds_a_tree = self.named.iter().any(|tree| tree.starts_with(&place));
        (!planted || (is_below && !holds_a_tree)).then_some(place)
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
            assert_eq!(links.resolve(&at(path)).expect("there").planted, planted, "{path}");
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
}
