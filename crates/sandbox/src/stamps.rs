//! What the files that a policy was made from looked like, and whether they still do.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::stat::stat;

use crate::changes::{Changes, Mark};

/// What a file looked like when it was resolved: a cached policy is good only while this is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    path: PathBuf,
    seen: Option<Seen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    dev: u64,
    ino: u64,
    /// Only of expanded directories: new children need rules of their own.
    changed: Option<(i64, i64)>,
}

impl Seen {
    fn at(path: &Path, expanded: bool) -> Option<Self> {
        stat(path).ok().map(|s| Seen {
            dev: s.st_dev,
            ino: s.st_ino,
            changed: expanded.then_some((s.st_mtime, s.st_mtime_nsec)),
        })
    }
}

impl Stamp {
    pub(crate) fn of(path: &Path, expanded: bool) -> Self {
        Self { path: path.to_owned(), seen: Seen::at(path, expanded) }
    }

    fn expanded(&self) -> bool {
        self.seen.is_some_and(|s| s.changed.is_some())
    }

    /// What is to be watched: the path, and whether what the directory there holds is too.
    fn way(&self) -> (&Path, bool) {
        (&self.path, self.expanded())
    }

    fn holds(&self) -> bool {
        self.seen == Seen::at(&self.path, self.expanded())
    }
}

/// The stamps of one policy.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    stamps: Vec<Stamp>,
    /// Spares the look at each of them.
    changes: Option<Arc<Changes>>,
    held: Mutex<Held>,
}

/// What is known without a look.
#[derive(Debug, Default, Clone, Copy)]
enum Held {
    /// Nothing: there was no look yet.
    #[default]
    Never,
    /// Nothing. What is looked at once, as at the start, is not worth a watch.
    Once,
    /// Nothing ever: not all of it can be watched.
    Unwatched,
    /// That they held then.
    At(Mark),
}

impl Stamps {
    /// With changes told by `changes`; without it, each look is at all of them.
    pub(crate) fn new(changes: Option<Arc<Changes>>) -> Self {
        Self { changes, ..Self::default() }
    }

    pub(crate) fn add(&mut self, stamps: impl Iterator<Item = Stamp>) {
        self.stamps.extend(stamps);
    }

    /// Whether all files still look so, where that is known without a look. Does not block.
    pub(crate) fn surely_hold(&self) -> bool {
        let held = self.held.try_lock().map_or(Held::Never, |held| *held);
        match (&self.changes, held) {
            (Some(changes), Held::At(mark)) => changes.surely_none_since(mark),
            _ => false,
        }
    }

    /// Whether all files still look so. Blocking.
    pub(crate) fn hold(&self) -> bool {
        let held = || self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let last = *held();
        let next = match (&self.changes, last) {
            (None, _) | (_, Held::Unwatched) => Held::Unwatched,
            (_, Held::Never) => Held::Once,
            (Some(changes), Held::At(mark)) if changes.none_since(mark) => return true,
            // Before the look: what changes during it is news for the next one.
            (Some(changes), _) => {
                changes.watch(self.stamps.iter().map(Stamp::way)).map_or(Held::Unwatched, Held::At)
            }
        };
        let hold = self.stamps.iter().all(Stamp::holds);
        *held() = if hold { next } else { Held::Once };
        hold
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether the stamps of a directory, of an expanded one and of a missing file hold after a change that comes after so
    /// many looks. They hold before it.
    fn hold_after(looks: usize, changes: Option<Arc<Changes>>, change: impl FnOnce(&Path)) -> bool {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path();
        fs::create_dir_all(root.join("plain")).expect("made");
        fs::create_dir_all(root.join("expanded")).expect("made");
        // A change within the kernel's tick would not show in the time of the last one.
        let expanded = fs::File::open(root.join("expanded")).expect("there");
        expanded.set_modified(std::time::UNIX_EPOCH).expect("set");
        let mut stamps = Stamps::new(changes);
        stamps.add(
            [("plain", false), ("expanded", true), ("missing", false)]
                .into_iter()
                .map(|(name, expanded)| Stamp::of(&root.join(name), expanded)),
        );
        for look in 0..looks {
            assert!(stamps.hold(), "look {look}");
        }
        change(root);
        let hold = stamps.hold();
        assert_eq!(stamps.hold(), hold, "a second look finds the same");
        hold
    }

    #[test]
    fn what_holds_surely_was_looked_at_and_is_watched() {
        let scratch = tempfile::tempdir().expect("a directory");
        for watched in [false, true] {
            let mut stamps = Stamps::new(watched.then(|| Arc::new(Changes::new())));
            stamps.add([Stamp::of(scratch.path(), false)].into_iter());
            assert!(!stamps.surely_hold(), "there was no look yet");
            assert!(stamps.hold() && !stamps.surely_hold(), "the first look is not watched");
            // It is sure for as long as what was seen is fresh, and this may be held up for longer.
            let becomes_sure = || while !(stamps.hold() && stamps.surely_hold()) {};
            if watched {
                becomes_sure();
            } else {
                assert!(stamps.hold() && !stamps.surely_hold(), "it is not watched");
            }
            let held = stamps.held.lock().expect("held");
            assert!(!stamps.surely_hold(), "it would have to wait");
            drop(held);
            if watched {
                becomes_sure();
            }
            let moved = scratch.path().with_extension("moved");
            fs::rename(scratch.path(), &moved).expect("renamed");
            assert!(!stamps.surely_hold());
            fs::rename(&moved, scratch.path()).expect("renamed");
        }
    }

    #[test]
    fn stamps_hold_until_something_changes() {
        // None, one that does not watch, one that does, one that asks for news alone.
        for looks in 0..4 {
            for watched in [false, true] {
                let hold_after =
                    |change: fn(&Path)| hold_after(looks, watched.then(|| Arc::new(Changes::new())), change);
                assert!(hold_after(|_| {}), "nothing has changed");
                assert!(hold_after(|root| fs::write(root.join("plain/file"), "").expect("written")));
                assert!(hold_after(|root| fs::write(root.join("other"), "").expect("written")));
                assert!(!hold_after(|root| {
                    fs::rename(root.join("plain"), root.join("moved")).expect("renamed");
                    fs::create_dir(root.join("plain")).expect("made");
                }));
                assert!(!hold_after(|root| fs::remove_dir(root.join("plain")).expect("removed")));
                assert!(!hold_after(|root| fs::write(root.join("expanded/file"), "").expect("written")));
                assert!(!hold_after(|root| fs::write(root.join("missing"), "").expect("written")));
            }
        }
    }

    #[test]
    fn what_cannot_be_watched_is_looked_at_each_time() {
        let mut stamps = Stamps::new(Some(Arc::new(Changes::new())));
        stamps.add([Stamp::of(Path::new("/proc/self/status"), false)].into_iter());
        assert!((0..4).all(|_| stamps.hold()));
        assert!(matches!(*stamps.held.lock().expect("whole"), Held::Unwatched));
    }
}
