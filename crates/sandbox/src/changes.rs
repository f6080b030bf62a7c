//! Whether anything has changed on the way to the files that policies were made from: asked of the kernel in one call,
//! where a look at each of them takes some fifty.
//!
//! inotify has an event in its queue before the call that made the change returns, so an empty queue is proof, for what
//! this kernel changes. A mount over a path is no such event; the table of mounts tells of that itself. What another
//! machine changes on a file system that it shares tells nobody here: so a [`Mark`] is good for [`FRESH`] only.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

/// How long nothing is known of a change by another machine. Network file systems keep what they know of a directory for
/// longer, acdirmin in nfs(5).
const FRESH: Duration = Duration::from_secs(1);

/// Symlinks on the way to one path; the kernel's own number, path_resolution(7).
const MAX_LINKS: usize = 40;

/// Reads of news at once, of some hundred events each: who makes more of them meanwhile must not hold everybody up.
const MAX_READS: usize = 256;

/// What can make a path mean another file: entries that come and go, and who may look at them.
const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// Where no event can be had: entries come and go there without one.
const PSEUDO: [&str; 2] = ["/proc", "/sys"];

/// Watches the ways to paths. Without inotify, or without /proc, it knows nothing.
#[derive(Debug)]
pub(crate) struct Changes {
    sources: Option<Mutex<Sources>>,
}

/// A moment from which on changes are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    era: u64,
    at: Instant,
}

#[derive(Debug)]
struct Sources {
    inotify: Inotify,
    mounts: File,
    watched: HashMap<WatchDescriptor, Entries>,
    /// A change ends it, and all watches with it.
    era: u64,
}

/// The entries of a directory that matter.
#[derive(Debug)]
enum Entries {
    Named(HashSet<OsString>),
    All,
}

impl Changes {
    /// One for all sandboxes of this process: the kernel gives a user few instances of inotify, on a whole node
    /// (fs.inotify.max_user_instances, inotify(7)), and clients that watch need some too.
    pub(crate) fn of_this_process() -> Arc<Self> {
        static CHANGES: OnceLock<Arc<Changes>> = OnceLock::new();
        Arc::clone(CHANGES.get_or_init(|| Arc::new(Self::new())))
    }

    pub(crate) fn new() -> Self {
        let sources = || {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
            let mounts = File::open("/proc/self/mountinfo").ok()?;
            Some(Mutex::new(Sources { inotify, mounts, watched: HashMap::new(), era: 0 }))
        };
        Self { sources: sources() }
    }

    /// From now on, changes on the ways to `paths` are told; of those that have the mark `true`, in the directory that is
    /// there too. `None` where not all of them can be.
    pub(crate) fn watch<'a>(&self, paths: impl Iterator<Item = (&'a Path, bool)>) -> Option<Mark> {
        let mut sources = self.lock()?;
        sources.take_news();
        let mut known = Known::default();
        for (path, entries) in paths {
            sources.watch(path, entries, &mut known).ok()?;
        }
        // News of meanwhile is still to be taken: the mark is of before.
        Some(Mark { era: sources.era, at: Instant::now() })
    }

    /// Whether nothing has changed since.
    pub(crate) fn none_since(&self, mark: Mark) -> bool {
        mark.at.elapsed() < FRESH && self.lock().is_some_and(|mut sources| sources.is_still(mark))
    }

    /// The same without ever waiting; where that takes a wait, it is not sure.
    pub(crate) fn surely_none_since(&self, mark: Mark) -> bool {
        let sources = || self.sources.as_ref().and_then(|sources| sources.try_lock().ok());
        mark.at.elapsed() < FRESH && sources().is_some_and(|mut sources| sources.is_still(mark))
    }

    fn lock(&self) -> Option<std::sync::MutexGuard<'_, Sources>> {
        // Whole after each statement: at worst a watch is missing from the table, and that is of an era that ends.
        self.sources.as_ref().map(|sources| sources.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sources {
    fn is_still(&mut self, mark: Mark) -> bool {
        self.take_news();
        self.era == mark.era
    }

    /// Ends the era where something that matters has changed.
    fn take_news(&mut self) {
        let mut fds = [
            PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI),
        ];
        let polled = poll(&mut fds, PollTimeout::ZERO);
        let [events, mounts] = fds.map(|fd| fd.any().unwrap_or(true));
        // What is in the queue is to be taken out of it in any case.
        let matters = events && self.read_events();
        let changed = matters || mounts || polled.is_err();
        if changed {
            self.era += 1;
            for (watch, _) in self.watched.drain() {
                // It may be gone with its directory.
                let _ = self.inotify.rm_watch(watch);
            }
        }
    }

    /// Empties the queue; gives whether anything in it matters.
    fn read_events(&self) -> bool {
        let mut matters = false;
        for _ in 0..MAX_READS {
            match self.inotify.read_events() {
                Ok(events) => matters |= events.iter().any(|event| self.matters(event)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return matters,
                Err(_) => return true,
            }
        }
        true
    }

    fn matters(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return true;
        }
        match (self.watched.get(&event.wd), &event.name) {
            // Of an era that has ended.
            (None, _) => false,
            (Some(Entries::Named(names)), Some(name)) => names.contains(name),
            // The directory itself, or all of it.
            (Some(_), _) => true,
        }
    }

    /// Watches each directory on the way before it looks at the entry in it: what is changed between the two is news.
    fn watch(&mut self, path: &Path, entries: bool, known: &mut Known) -> Result<(), Errno> {
        if !path.is_absolute() {
            return Err(Errno::EINVAL);
        }
        let mut rest: VecDeque<OsString> = components(path).collect();
        let (mut dir, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                dir.pop();
                continue;
            }
            match self.step(&dir, &name, known)? {
                Entry::Other => dir.push(&name),
                Entry::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::ELOOP);
                    }
                    if target.is_absolute() {
                        dir = PathBuf::from("/");
                    }
                    for name in components(&target).collect::<Vec<_>>().into_iter().rev() {
                        rest.push_front(name);
                    }
                }
                Entry::Unseen => return Ok(()),
            }
        }
        if !entries {
            return Ok(());
        }
        match self.directory(&dir, known) {
            Ok(watch) => drop(self.watched.insert(watch, Entries::All)),
            // It is no directory, or is gone: its own directory tells where that changes.
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Watches a directory for an entry, and looks at that.
    fn step(&mut self, dir: &Path, name: &OsStr, known: &mut Known) -> Result<Entry, Errno> {
        if let Some(entry) = known.entries.get(dir).and_then(|entries| entries.get(name)) {
            return Ok(entry.clone());
        }
        let child = dir.join(name);
        let entry = match self.directory(dir, known) {
            // Who may not even search it sees nothing of it; that this has changed would be news of its parent.
            Err(Errno::EACCES)
                if fs::symlink_metadata(&child).is_err_and(|e| e.raw_os_error() == Some(libc::EACCES)) =>
            {
                Entry::Unseen
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => Entry::Unseen,
            Err(errno) => return Err(errno),
            Ok(watch) => {
                if let Some(Entries::Named(names)) = self.watched.get_mut(&watch) {
                    names.insert(name.to_owned());
                }
                match fs::read_link(&child) {
                    Ok(target) => Entry::Link(target),
                    Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Entry::Other,
                    Err(_) => Entry::Unseen,
                }
            }
        };
        known.entries.entry(dir.to_owned()).or_default().insert(name.to_owned(), entry.clone());
        Ok(entry)
    }

    /// Watches a directory, for no entry yet.
    fn directory(&mut self, dir: &Path, known: &mut Known) -> Result<WatchDescriptor, Errno> {
        if let Some(watch) = known.directories.get(dir) {
            return *watch;
        }
        let pseudo = PSEUDO.iter().any(|pseudo| dir.starts_with(pseudo));
        let watch = if pseudo { Err(Errno::ENOTSUP) } else { self.inotify.add_watch(dir, EVENTS) };
        if let Ok(watch) = watch {
            self.watched.entry(watch).or_insert_with(|| Entries::Named(HashSet::new()));
        }
        known.directories.insert(dir.to_owned(), watch);
        watch
    }
}

/// What one round of watching has found so far.
#[derive(Debug, Default)]
struct Known {
    directories: HashMap<PathBuf, Result<WatchDescriptor, Errno>>,
    entries: HashMap<PathBuf, HashMap<OsString, Entry>>,
}

/// What a name in a directory is.
#[derive(Debug, Clone)]
enum Entry {
    Link(PathBuf),
    /// A file, or a directory.
    Other,
    /// Nothing, or nothing that may be seen.
    Unseen,
}

/// The names of a path, `..` among them.
fn components(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree `a/b/c`, with `way` a symlink to `a/b`, and whether a change is told to who watches `way/c/file`.
    fn told(change: impl FnOnce(&Path)) -> bool {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("there");
        fs::create_dir_all(root.join("a/b/c")).expect("made");
        fs::create_dir(root.join("a/b/other")).expect("made");
        symlink("a/b", root.join("way")).expect("made");
        let changes = Changes::new();
        let watched = root.join("way/c/file");
        let mark = changes.watch([(watched.as_path(), false)].into_iter()).expect("watched");
        assert!(changes.none_since(mark), "before the change");
        change(&root);
        let told = !changes.none_since(mark);
        // The next mark is as good as the first.
        let mark = changes.watch([(watched.as_path(), false)].into_iter()).expect("watched again");
        assert!(changes.none_since(mark), "after the change");
        fs::rename(&root, root.with_extension("moved")).expect("renamed");
        assert!(!changes.none_since(mark), "after another change");
        fs::rename(root.with_extension("moved"), &root).expect("renamed");
        told
    }

    #[test]
    fn changes_on_the_way_are_told() {
        assert!(told(|root| fs::write(root.join("way/c/file"), "").expect("written")));
        assert!(told(|root| fs::rename(root.join("a/b/other"), root.join("a/b/c")).expect("renamed")));
        assert!(told(|root| fs::rename(root.join("a"), root.join("z")).expect("renamed")));
        assert!(told(|root| fs::remove_file(root.join("way")).expect("removed")));
        assert!(told(|root| fs::remove_dir(root.join("a/b/c")).expect("removed")));
        assert!(told(|root| fs::set_permissions(
            root.join("a/b"),
            std::os::unix::fs::PermissionsExt::from_mode(0o711)
        )
        .expect("set")));
    }

    #[test]
    fn other_changes_are_not_told() {
        assert!(!told(|_| {}));
        assert!(!told(|root| fs::write(root.join("way/c/another"), "").expect("written")));
        assert!(!told(|root| fs::rename(root.join("a/b/other"), root.join("a/b/more")).expect("renamed")));
    }

    #[test]
    fn all_entries_of_a_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let changes = Changes::new();
        let mark = changes.watch([(dir.path(), true)].into_iter()).expect("watched");
        assert!(changes.none_since(mark));
        fs::write(dir.path().join("any"), "").expect("written");
        assert!(!changes.none_since(mark));
    }

    #[test]
    fn a_mark_is_of_its_own_paths() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let changes = Changes::new();
        let first = changes.watch([(one.as_path(), false)].into_iter()).expect("watched");
        let second = changes.watch([(two.as_path(), false)].into_iter()).expect("watched");
        assert!(changes.none_since(first) && changes.none_since(second));
        fs::write(&one, "").expect("written");
        assert!(!changes.none_since(second));
        assert!(!changes.none_since(first));
    }

    #[test]
    fn a_process_has_one() {
        assert!(Arc::ptr_eq(&Changes::of_this_process(), &Changes::of_this_process()));
    }

    #[test]
    fn what_cannot_be_watched_gives_no_mark() {
        let changes = Changes::new();
        assert!(changes.watch([(Path::new("/proc/self/fd"), false)].into_iter()).is_none());
        assert!(changes.watch([(Path::new("relative"), false)].into_iter()).is_none());
        let dir = tempfile::tempdir().expect("a directory");
        symlink("loop", dir.path().join("loop")).expect("made");
        assert!(changes.watch([(dir.path().join("loop").as_path(), false)].into_iter()).is_none());
        assert!(changes.watch([(dir.path().join("missing/deep").as_path(), false)].into_iter()).is_some());
    }
}
