//! Removing a directory that a hostile command has filled: however deep its trees are, and whatever modes they have. No
//! recursion and a handful of descriptors: what lies deep is moved up first. It follows no symlink.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Names taken from a directory at once.
const BATCH: usize = 1024;

/// Removes `path` and all that is in it. Nothing else may use it any more.
///
/// # Errors
/// Something in it cannot be removed; what can be is gone.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let root = openat(nix::fcntl::AT_FDCWD, "/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let top = directory(&root, path)?;
    let mut moved = 0;
    let mut stuck = None;
    loop {
        let mut progress = false;
        let names = names(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            match remove_entry(&top, &name, &mut moved) {
                Ok(()) => progress = true,
                Err(e) => stuck = Some(e),
            }
        }
        if !progress {
            return Err(stuck.unwrap_or(Errno::ENOTEMPTY).into());
        }
    }
    std::fs::remove_dir(path)?;
    Ok(())
}

/// Removes an entry of `top`. The directories in a directory become entries of `top`, so that it can go.
fn remove_entry(top: &OwnedFd, name: &CStr, moved: &mut u64) -> nix::Result<()> {
    if !is_directory(top, name)? {
        return unlinkat(top, name, UnlinkatFlags::NoRemoveDir);
    }
    let dir = directory(top, name)?;
    loop {
        let names = names(&dir)?;
        if names.is_empty() {
            return unlinkat(top, name, UnlinkatFlags::RemoveDir);
        }
        for inner in names {
            if is_directory(&dir, &inner)? {
                move_up(&dir, &inner, top, moved)?;
            } else {
                unlinkat(&dir, inner.as_c_str(), UnlinkatFlags::NoRemoveDir)?;
            }
        }
    }
}

fn move_up(from: &OwnedFd, name: &CStr, to: &OwnedFd, moved: &mut u64) -> nix::Result<()> {
    loop {
        *moved += 1;
        let target = format!("moved-{moved}");
        match renameat(from, name, to, target.as_str()) {
            // Somebody has called something else so.
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
            // Its `..` changes, so it must be writable itself.
            Err(Errno::EACCES) => drop(directory(from, name)?),
            done => return done,
        }
    }
}

fn is_directory(parent: &OwnedFd, name: &CStr) -> nix::Result<bool> {
    let mode = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?.st_mode;
    Ok(mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits())
}

/// Opens a directory, and makes it one that its owner may change.
fn directory(parent: &OwnedFd, name: &(impl nix::NixPath + ?Sized)) -> nix::Result<OwnedFd> {
    let by_name = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = openat(parent, name, by_name, Mode::empty())?;
    let readable = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mode = nix::sys::stat::fstat(&dir)?.st_mode;
    if Mode::from_bits_truncate(mode) & Mode::S_IRWXU != Mode::S_IRWXU {
        // By its descriptor: a name could have come to mean another file.
        let own = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let flags = nix::sys::stat::FchmodatFlags::FollowSymlink;
        fchmodat(nix::fcntl::AT_FDCWD, own.as_str(), Mode::S_IRWXU, flags)?;
    }
    openat(&dir, ".", readable, Mode::empty())
}

/// Up to [`BATCH`] names.
fn names(dir: impl AsFd) -> nix::Result<Vec<CString>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listing = Dir::from_fd(openat(dir, ".", flags, Mode::empty())?)?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
        if names.len() == BATCH {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn whatever_is_in_it_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let (outside, top) = (base.path().join("outside"), base.path().join("top"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "kept").unwrap();
        for dir in ["a/b/c", "a/moved-1/x", "moved-1/y", "many"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        for n in 0..3 * BATCH {
            fs::write(top.join(format!("many/{n}")), "").unwrap();
        }
        symlink(&outside, top.join("a/link")).unwrap();
        symlink(&outside, top.join("link")).unwrap();
        // Closed to its owner, at every level; root passes by modes, `make test-unprivileged` does not.
        for dir in ["a/b/c", "a/b", "a", "many", ""] {
            fs::set_permissions(top.join(dir), fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), "kept");
    }

    #[test]
    fn no_depth_is_too_deep() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut dir =
            directory(&openat(nix::fcntl::AT_FDCWD, "/", OFlag::O_PATH, Mode::empty()).unwrap(), &top)
                .unwrap();
        for _ in 0..20_000 {
            nix::sys::stat::mkdirat(&dir, "d", Mode::S_IRWXU).unwrap();
            dir = openat(&dir, "d", OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }
}
