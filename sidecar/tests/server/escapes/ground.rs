//! The ground of the escape tests: a workspace, what is planted in it, and the places that must stay as they are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{File, Permissions};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;

use crate::acts::Aside;
use crate::common::{Fixture, encode, scratch};

/// The content of the files that nobody may read.
pub(crate) const SECRET: &str = "what only the server's own process may read";

/// The name of a file in the directories that nobody may list.
pub(crate) const UNLISTED: &str = "a-name-from-outside";

/// The name of a file that the server's process has open.
const HELD: &str = "held-open";

/// What a tree looks like: of each path its kind, owner, mode, times, size, links and content. Not when it was read.
pub(crate) type Picture = BTreeMap<PathBuf, (Vec<i64>, Vec<u8>)>;

pub(crate) fn picture(root: &Path) -> Picture {
    let mut seen = Picture::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let at = path.symlink_metadata().expect("there");
        let content = match at.file_type() {
            kind if kind.is_dir() => {
                let entries = std::fs::read_dir(&path).expect("listed");
                pending.extend(entries.map(|entry| entry.expect("an entry").path()));
                Vec::new()
            }
            kind if kind.is_file() => std::fs::read(&path).expect("read"),
            kind if kind.is_symlink() => {
                std::fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        let times = [at.mtime(), at.mtime_nsec(), at.ctime(), at.ctime_nsec()];
        let numbers = [at.dev(), at.ino(), at.nlink(), at.size(), at.rdev()].map(|n| n.cast_signed());
        let owner = [at.mode(), at.uid(), at.gid()].map(i64::from);
        seen.insert(path, ([&times[..], &numbers, &owner].concat(), content));
    }
    seen
}

/// Not a secret, not a name from outside, not what the server is or has open.
pub(crate) fn assert_untold(text: &str, what: &dyn Display) {
    let exe = std::env::current_exe().expect("an executable");
    let exe = exe.file_name().expect("a name").to_string_lossy();
    for secret in [SECRET, &encode(SECRET), UNLISTED, HELD, &exe] {
        assert!(!text.contains(secret), "{what}: it tells {secret:?}");
    }
}

/// A place with a secret in it.
pub(crate) fn furnish(dir: &Path) {
    std::fs::create_dir_all(dir.join("dir/below")).expect("made");
    std::fs::write(dir.join("secret"), SECRET).expect("positive control: the server's own process may write");
    std::fs::write(dir.join("dir/secret"), SECRET).expect("written");
    std::fs::write(dir.join("dir").join(UNLISTED), SECRET).expect("written");
    std::fs::write(dir.join("dir/below/secret"), SECRET).expect("written");
    std::fs::create_dir(dir.join("empty")).expect("made");
}

/// A server with a workspace in which one place is protected, and with a place to read from.
pub(crate) struct Ground {
    pub(crate) fixture: Fixture,
    readable: TempDir,
    state: TempDir,
    /// Outside, and not to stay as it is: files with a second name inside.
    elsewhere: TempDir,
    /// Something that the server's process has open.
    held: File,
    made: usize,
}

impl Ground {
    pub(crate) async fn start() -> Ground {
        let (readable, state, elsewhere) = (scratch(), scratch(), scratch());
        let fixture = Fixture::with(|config| {
            let roots = &mut config.sandbox.roots;
            std::fs::create_dir(roots.workspace.join("open")).expect("made");
            furnish(&roots.workspace.join("protected"));
            roots.protected.extend([roots.workspace.join("protected"), state.path().to_owned()]);
            roots.read_roots.push(readable.path().to_owned());
        })
        .await;
        furnish(&fixture.outside(""));
        furnish(state.path());
        std::fs::create_dir_all(readable.path().join("dir")).expect("made");
        std::fs::write(readable.path().join("dir/file"), "to be read").expect("written");
        // Another mode than what is copied there.
        std::fs::set_permissions(readable.path().join("dir"), Permissions::from_mode(0o751)).expect("set");
        std::fs::write(fixture.outside(HELD), SECRET).expect("written");
        let held = File::open(fixture.outside(HELD)).expect("opened");
        Ground { fixture, readable, state, elsewhere, held, made: 0 }
    }

    /// The places that must stay as they are.
    pub(crate) fn untouchable(&self) -> Vec<Picture> {
        let places = [
            self.fixture.outside(""),
            self.fixture.ws("protected"),
            self.state.path().to_owned(),
            self.readable.path().to_owned(),
        ];
        places.iter().map(|place| picture(place)).collect()
    }

    /// A fresh directory in the workspace, with what the acts need.
    pub(crate) fn here(&mut self) -> (PathBuf, Aside) {
        self.made += 1;
        let here = self.fixture.ws("open").join(self.made.to_string());
        std::fs::create_dir_all(here.join("dir")).expect("made");
        std::fs::create_dir(here.join("tree")).expect("made");
        for name in ["file", "spare", "dir/inner", "tree/inner"] {
            std::fs::write(here.join(name), name).expect("written");
        }
        let aside = Aside { file: here.join("spare"), tree: here.join("tree"), free: here.join("free") };
        (here, aside)
    }

    /// Plants one thing, and gives the path by which it is tried. `None`: it cannot be made here.
    pub(crate) fn plant(&self, thing: &str, here: &Path) -> Option<PathBuf> {
        let outside = |name: &str| self.fixture.outside(name);
        let planted = here.join("planted");
        let link = |target: PathBuf, rest: &str| {
            symlink(target, &planted).expect("linked");
            Some(if rest.is_empty() { planted.clone() } else { planted.join(rest) })
        };
        match thing {
            "file" | "dir" | "new" => Some(here.join(thing)),
            "odd-name" => {
                let odd = here.join(OsStr::from_bytes(b"bad-\xff\n"));
                std::fs::write(&odd, "odd").expect("written");
                Some(odd)
            }
            "hard-link" => {
                let named = self.elsewhere.path().join(self.made.to_string());
                std::fs::write(&named, "of another name").expect("written");
                std::fs::hard_link(named, &planted).expect("linked");
                Some(planted)
            }
            "link-inside" => link("file".into(), ""),
            "link" => link(outside("secret"), ""),
            "relative-link" => {
                let up = "../".repeat(here.components().count());
                link(Path::new(&up).join(outside("secret").strip_prefix("/").expect("absolute")), "")
            }
            "chain" => {
                symlink(outside("secret"), here.join("first")).expect("linked");
                link("first".into(), "")
            }
            "through" => link(outside("dir"), "secret"),
            "through-new" => link(outside("dir"), "new"),
            "link-to-dir" => link(outside("dir"), ""),
            "dangling" => link(outside("new"), ""),
            "absolute" => Some(outside("secret")),
            "absolute-dir" => Some(outside("dir")),
            "dotdot" => {
                let up = "../".repeat(here.components().count());
                Some(here.join(up).join(outside("secret").strip_prefix("/").expect("absolute")))
            }
            "state" => Some(self.state.path().join("secret")),
            "state-dir" => Some(self.state.path().join("dir")),
            "protected" => Some(self.fixture.ws("protected/secret")),
            "protected-dir" => link(self.fixture.ws("protected/dir"), ""),
            "readable" => Some(self.readable.path().join("dir/file")),
            "readable-dir" => Some(self.readable.path().join("dir")),
            "fifo" => node(planted, FileType::Fifo, 0),
            "device" => node(planted, FileType::CharacterDevice, rustix::fs::makedev(1, 5)),
            "socket" => {
                UnixListener::bind(&planted).expect("bound");
                Some(planted)
            }
            "proc-environ" => Some("/proc/self/environ".into()),
            "proc-dir" => Some("/proc/self".into()),
            "proc-root" => link(
                format!("/proc/{}/root", std::process::id()).into(),
                &outside("secret").display().to_string()[1..],
            ),
            "proc-exe" => link("/proc/self".into(), "exe"),
            "proc-fd" => link("/proc/self/fd".into(), &self.held.as_raw_fd().to_string()),
            "sys" => Some("/sys/kernel/uevent_seqnum".into()).filter(|path: &PathBuf| path.exists()),
            "sys-dir" => Some("/sys/kernel".into()),
            "dev-zero" => link("/dev/zero".into(), ""),
            "dev-dir" => Some("/dev".into()),
            other => panic!("nothing is known of {other}"),
        }
    }
}

/// Only root may make devices.
fn node(path: PathBuf, kind: FileType, device: u64) -> Option<PathBuf> {
    match rustix::fs::mknodat(CWD, &path, kind, Mode::from_raw_mode(0o666), device) {
        Ok(()) => Some(path),
        Err(errno) => {
            assert_eq!((kind, errno), (FileType::CharacterDevice, rustix::io::Errno::PERM));
            None
        }
    }
}
