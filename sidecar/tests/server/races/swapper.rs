//! A thread that swaps the names which the acts go through, as fast as it can, and makes anew what they remove.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with};

/// Content of what lies inside.
const INSIDE: &[u8] = b"inside";

pub(super) struct Swapper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    turns: AtomicU64,
    is_over: AtomicBool,
}

impl Swapper {
    /// Makes the names in `arena`: `door`, a directory or a symlink to `outside/dir`; `leaf`, a file or a symlink to
    /// `outside/secret`; and `view`, a directory or a symlink to what the server sees of itself in /proc.
    pub(super) fn start(arena: &Path, outside: &Path) -> Swapper {
        std::fs::create_dir(arena).expect("made");
        let pairs = [
            Pair::new(arena, "door", outside.join("dir")),
            Pair::new(arena, "leaf", outside.join("secret")),
            Pair::new(arena, "view", "/proc/self".into()),
        ];
        let shared = Arc::new(Shared::default());
        let told = shared.clone();
        let thread = std::thread::spawn(move || {
            while !told.is_over.load(Ordering::Relaxed) {
                for pair in &pairs {
                    pair.make();
                    if renameat_with(CWD, &pair.name, CWD, &pair.other, RenameFlags::EXCHANGE).is_ok() {
                        told.turns.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Swapper { shared, thread: Some(thread) }
    }

    /// How often names were swapped.
    pub(super) fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::Relaxed)
    }

    /// Ends it; gives how often names were swapped.
    pub(super) fn stop(mut self) -> u64 {
        self.end().expect("the swapper has not failed");
        self.turns()
    }

    fn end(&mut self) -> std::thread::Result<()> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Two names: at any time one is the thing itself, the other a symlink to where it leads outside.
struct Pair {
    name: PathBuf,
    other: PathBuf,
    target: PathBuf,
    is_directory: bool,
}

impl Pair {
    fn new(arena: &Path, name: &str, target: PathBuf) -> Pair {
        let other = arena.join(format!("{name}-other"));
        Pair { name: arena.join(name), other, is_directory: target.is_dir(), target }
    }

    /// Makes what is missing. Errors are the server's doing, which acts at the same time; the next turn is another try.
    fn make(&self) {
        let is_link = |path: &Path| path.symlink_metadata().ok().map(|at| at.is_symlink());
        // An act may have put a thing in the place of the symlink as well.
        let thing = match (is_link(&self.name), is_link(&self.other)) {
            (Some(true), Some(true)) => {
                let _ = std::fs::remove_file(&self.other);
                &self.other
            }
            (None, Some(false)) | (Some(false), Some(false)) => {
                clear(&self.name);
                let _ = symlink(&self.target, &self.name);
                &self.other
            }
            (Some(true), _) => &self.other,
            (_, Some(true)) => &self.name,
            (_, None) => {
                let _ = symlink(&self.target, &self.other);
                &self.name
            }
        };
        if thing.symlink_metadata().is_ok_and(|at| at.is_dir() != self.is_directory) {
            clear(thing);
        }
        if self.is_directory {
            let _ = mkdirat(CWD, thing, Mode::RWXU);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(dir) = openat(CWD, thing, flags, Mode::empty()) else { return };
            for name in ["secret", "exe"] {
                write_new(&dir, Path::new(name));
            }
            let _ = mkdirat(&dir, "below", Mode::RWXU);
            let Ok(below) = openat(&dir, "below", flags, Mode::empty()) else { return };
            write_new(below, Path::new("secret"));
        } else {
            write_new(CWD, thing);
        }
    }
}

/// Removes a thing that stands in the way, never through a symlink.
fn clear(path: &Path) {
    if std::fs::remove_file(path).is_err() {
        let _ = std::fs::remove_dir_all(path);
    }
}

fn write_new(dir: impl std::os::fd::AsFd, name: &Path) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(file) = openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        let _ = rustix::io::write(file, INSIDE);
    }
}
