//! `fs/getMetadata`.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use sidecar_protocol::fs::Metadata;

use super::error::{At as _, Result};
use super::open::Link;
use super::pool::Looking;
use super::{Confined, Symlinks, open};

/// File systems that answer from memory what they have in memory, and are nobody else's to change.
const LOCAL: [u64; 6] = [
    0xef53,      // ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xf2f5_2010, // f2fs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
];

/// A symlink is described by its target; a dangling one is not found.
pub(crate) fn metadata(_: &Confined, path: &Path, symlinks: Symlinks) -> Result<Metadata> {
    let open = |flags| open::open(path, flags, symlinks).map(File::from);
    let file = open(itself(symlinks))?;
    let found = file.metadata().at(path)?;
    let is_symlink = found.is_symlink();
    let (target, link) = if is_symlink {
        (open(OFlags::PATH)?.metadata().at(path)?, Some(open::link(file.as_fd()).at(path)?))
    } else {
        (found, None)
    };
    let symlink_target = match link {
        Some(Link::To(target)) => Some(target.to_string_lossy().into_owned()),
        Some(Link::Untold) | None => None,
    };
    Ok(described(&target, symlink_target, is_symlink))
}

/// A descriptor that can do nothing but be looked at, of a link itself where links are followed.
fn itself(symlinks: Symlinks) -> OFlags {
    match symlinks {
        Symlinks::Follow => OFlags::PATH | OFlags::NOFOLLOW,
        // It is no link then.
        Symlinks::Refuse => OFlags::PATH,
    }
}

fn described(target: &fs::Metadata, symlink_target: Option<String>, is_symlink: bool) -> Metadata {
    let created = target.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Metadata {
        is_directory: target.is_dir(),
        is_file: target.is_file(),
        is_symlink,
        size: target.len(),
        created_at_ms: created.map_or(0, |at| i64::try_from(at.as_millis()).unwrap_or(i64::MAX)),
        modified_at_ms: target.mtime().saturating_mul(1000).saturating_add(target.mtime_nsec() / 1_000_000),
        mode: target.mode() & 0o7777,
        uid: target.uid(),
        gid: target.gid(),
        symlink_target,
    }
}

/// What the kernel has in memory of a file that is no link, on a file system that does not have to ask anybody. `None`:
/// that is not so, or cannot be told without a wait; [`metadata`] tells.
pub(crate) fn cached_metadata(_: &Looking, path: &Path, symlinks: Symlinks) -> Option<Metadata> {
    let flags = itself(symlinks) | OFlags::CLOEXEC;
    // Fails at once on a way that has to be read first, on kernels before 5.12, and under filters that do not know it.
    let resolve = symlinks.resolve() | ResolveFlags::CACHED;
    let file = File::from(rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve).ok()?);
    let is_local = LOCAL.contains(&open::file_system(&file).ok()?);
    let found = is_local.then(|| file.metadata().ok()).flatten()?;
    (!found.is_symlink()).then(|| described(&found, None, false))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_cached_is_what_a_look_finds() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("directory")).expect("made");
        fs::write(at("directory/file"), "four").expect("written");
        symlink("directory", at("link")).expect("linked");
        let looking = Looking::for_a_test();
        let cached = |name: &str, symlinks| cached_metadata(&looking, &at(name), symlinks);
        for symlinks in [Symlinks::Follow, Symlinks::Refuse] {
            for (name, size) in
                [("directory", None), ("directory/file", Some(4)), ("directory/../directory/file", Some(4))]
            {
                let found = described(&fs::metadata(at(name)).expect("there"), None, false);
                assert_eq!(cached(name, symlinks).as_ref(), Some(&found), "{name}");
                assert!(size.is_none_or(|size| found.size == size && found.is_file), "{found:?}");
            }
            for name in ["missing", "directory/file/below", "link"] {
                assert_eq!(cached(name, symlinks), None, "{name}");
            }
        }
        // To follow a link for the first time is to write down when.
        assert!(cached("link/file", Symlinks::Follow).is_none_or(|found| found.size == 4));
        assert_eq!(cached("link/file", Symlinks::Refuse), None);
        for kernels in ["/proc/self/status", "/proc/self/fd/0", "/sys/kernel"] {
            assert!(Path::new(kernels).exists());
            assert_eq!(cached_metadata(&looking, Path::new(kernels), Symlinks::Follow), None, "{kernels}");
        }
    }
}
