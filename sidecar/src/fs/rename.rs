//! `fs/rename`. It works on the names themselves: a symlink is renamed, never followed.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};
use rustix::io::{Errno, Result as OsResult};

use super::error::{At as _, Result};
use super::remove::refuse_roots;
use super::{Confined, Symlinks, open};

/// Renames a file or a directory; what is there is replaced only if asked to.
pub(crate) fn rename(confined: &Confined, source: &Path, destination: &Path, overwrite: bool) -> Result<()> {
    let (from, name) = open::parent(source, Symlinks::Follow)?;
    let (to, new_name) = open::parent(destination, Symlinks::Follow)?;
    refuse_roots(confined, source)?;
    refuse_roots(confined, destination)?;
    let renamed = if overwrite {
        rustix::fs::renameat(&from, name, &to, new_name)
    } else {
        match rustix::fs::renameat_with(&from, name, &to, new_name, RenameFlags::NOREPLACE) {
            // NFS, say, does not know the flag; or the rename itself is wrong, which comes again.
            Err(Errno::INVAL) => without_flag(&from, name, &to, new_name),
            renamed => renamed,
        }
    };
    match renamed {
        Ok(()) => Ok(()),
        Err(errno) => {
            let is_denied = errno == Errno::ACCESS && confined.prepared().hint(source, true).is_some();
            let about = if errno == Errno::NOENT || is_denied { source } else { destination };
            Err(errno).writing(about)
        }
    }
}

/// Renames without ever replacing what is there: a link is made only where nothing is, and so is a directory, which
/// then gives way to another one.
fn without_flag(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new_name: &OsStr) -> OsResult<()> {
    let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
        return rustix::fs::unlinkat(from, name, AtFlags::empty());
    }
    rustix::fs::mkdirat(to, new_name, Mode::RWXU)?;
    rustix::fs::renameat(from, name, to, new_name).inspect_err(|_| {
        // Empty unless somebody has put something there, and then it is theirs.
        let _ = rustix::fs::unlinkat(to, new_name, AtFlags::REMOVEDIR);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_replaced_without_the_flag_either() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let fd = OwnedFd::from(std::fs::File::open(dir.path()).expect("opened"));
        let rename = |from: &str, to: &str| without_flag(&fd, from.as_ref(), &fd, to.as_ref());
        std::fs::create_dir_all(path("tree/sub")).expect("made");
        std::fs::create_dir(path("empty")).expect("made");
        std::fs::write(path("file"), "content").expect("written");
        std::os::unix::fs::symlink("file", path("link")).expect("linked");
        for (from, to) in [("file", "link"), ("file", "empty"), ("tree", "empty"), ("tree", "file")] {
            assert_eq!(rename(from, to), Err(Errno::EXIST), "{from} → {to}");
        }
        assert_eq!(rename("missing", "x"), Err(Errno::NOENT));
        assert_eq!(rename("tree", "tree/sub/x"), Err(Errno::INVAL));
        assert!(!path("tree/sub/x").exists());
        for (from, to) in [("file", "moved"), ("link", "soft"), ("tree", "wood")] {
            rename(from, to).expect("renamed");
            assert!(path(from).symlink_metadata().is_err() && path(to).symlink_metadata().is_ok());
        }
        assert!(path("wood/sub").is_dir() && path("soft").is_symlink());
        assert_eq!(std::fs::read_to_string(path("moved")).expect("read"), "content");
    }
}
