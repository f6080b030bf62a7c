//! Private temporary directories: one below a base directory per server, removed with its launch. The base is locked
//! while its server lives, so a later server can tell what a killed one left behind, and removes it.

mod remove;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// What the base directories' names start with.
const PREFIX: &str = "sandbox-sidecar-";

/// A sweep in between is a matter of microseconds at the start of another server: more than once is rare. So many in a row
/// that not even a server that does nothing but sweep keeps another from its start.
const ATTEMPTS: u32 = 64;

/// A directory that launches may have filled; removed on drop, however hard they made that.
#[derive(Debug)]
pub(crate) struct Hostile(PathBuf);

impl Hostile {
    fn new(prefix: &str, parent: &Path) -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?.keep()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // What cannot be removed stays, as in a sweep.
        let _ = remove::remove_tree(&self.0);
    }
}

/// This server's base directory.
#[derive(Debug)]
pub(crate) struct Base {
    dir: Hostile,
    /// Held by the server alone: shims and commands do not keep the descriptor.
    _lock: Flock<File>,
}

impl Base {
    /// Makes the base directory in `tmp`.
    ///
    /// # Errors
    /// `tmp` cannot be written to.
    pub(crate) fn new(tmp: &Path) -> io::Result<Self> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let dir = Hostile::new(PREFIX, tmp)?;
            match lock(dir.path()) {
                Ok(lock) if is_at(&lock, dir.path()) => return Ok(Self { dir, _lock: lock }),
                Err(e) if attempt == ATTEMPTS => return Err(e),
                // Between its making and its locking, another server's sweep has taken it for a dead one's.
                _ if attempt < ATTEMPTS => {}
                _ => return Err(io::ErrorKind::ResourceBusy.into()),
            }
        }
    }

    /// Makes the directory of one launch, 0700.
    ///
    /// # Errors
    /// No space, or somebody has removed the base.
    pub(crate) fn launch_dir(&self) -> io::Result<Hostile> {
        Hostile::new("launch-", self.dir.path())
    }
}

/// Whether the locked directory is still the one of that name.
fn is_at(lock: &Flock<File>, path: &Path) -> bool {
    let inode = |m: io::Result<fs::Metadata>| m.map(|m| (m.dev(), m.ino())).ok();
    inode(lock.metadata()).is_some_and(|locked| inode(fs::symlink_metadata(path)) == Some(locked))
}

fn lock(dir: &Path) -> io::Result<Flock<File>> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(dir)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e.into())
}

/// Removes what servers of this user left in `tmp` when they were killed. What cannot be removed stays: it is of no use
/// to anybody, and no harm.
pub(crate) fn sweep(tmp: &Path) {
    let Ok(entries) = fs::read_dir(tmp) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == nix::unistd::geteuid().as_raw());
        // The lock is held over the removal, so that no second server works on the same one.
        if ours && let Ok(_lock) = lock(&entry.path()) {
            let _ = remove::remove_tree(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_sweep_at_the_same_time_takes_no_living_base() {
        let tmp = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(Relaxed) {
                    sweep(tmp.path());
                }
            });
            let bases: Vec<_> = (0..200).map(|_| Base::new(tmp.path())).collect();
            let alive = bases.iter().filter(|b| b.as_ref().is_ok_and(|b| b.launch_dir().is_ok())).count();
            done.store(true, Relaxed);
            assert_eq!(alive, 200);
        });
    }

    #[test]
    fn what_a_dead_server_left_is_swept_and_a_living_ones_is_not() {
        let tmp = tempfile::tempdir().unwrap();
        let living = Base::new(tmp.path()).unwrap();
        let dir = living.launch_dir().unwrap();
        let dead = tmp.path().join("sandbox-sidecar-dead");
        fs::create_dir_all(dead.join("launch-x/deep")).unwrap();
        let other = tmp.path().join("other");
        fs::create_dir(&other).unwrap();
        sweep(tmp.path());
        assert!(dir.path().exists() && other.exists());
        assert!(!dead.exists());
        drop(dir);
        drop(living);
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 1);
    }
}
