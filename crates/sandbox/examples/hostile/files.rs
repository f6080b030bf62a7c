//! Attacks on files: reading, writing, truncating, linking, metadata.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use crate::{Outcome, c, minus, sys};

const AT_FDCWD: usize = minus(libc::AT_FDCWD);
const O_TMPFILE: i32 = libc::O_TMPFILE;
/// linux/fs.h; musl's libc has no names for them.
const FS_IOC_GETFLAGS: usize = 0x8008_6601;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;
const FS_IOC_FSGETXATTR: usize = 0x801c_581f;
const FS_IOC_FSSETXATTR: usize = 0x401c_5820;
/// linux/btrfs.h
const BTRFS_IOC_SUBVOL_CREATE: usize = 0x5000_940e;
/// "No dump": a flag that every owner may set and that nobody heeds.
const FS_NODUMP_FL: u64 = 0x40;
const FS_XFLAG_NODUMP: u32 = 0x80;
const IN_CREATE: usize = 0x100;

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    Some(match (attack, rest) {
        ("read", [path]) => read(path),
        ("list", [path]) => list(path),
        ("read-by-symlink", [path]) => by_symlink(path),
        ("read-by-proc-root", [path]) => read(&format!("/proc/self/root{path}")),
        ("readlink", [path]) => fs::read_link(path).map(drop),
        ("exec", [path]) => Err(std::process::Command::new(path).arg("nothing").exec()),
        ("nothing", []) => Ok(()),
        ("create", [path]) => OpenOptions::new().write(true).create_new(true).open(path).map(drop),
        ("append", [path]) => OpenOptions::new().append(true).open(path).and_then(|mut f| f.write_all(b"x")),
        ("open-to-write", [path]) => OpenOptions::new().write(true).open(path).map(drop),
        ("truncate", [path]) => sys(libc::SYS_truncate, &[c(path).as_ptr() as usize, 0]).map(drop),
        ("open-truncate", [path]) => open(path, libc::O_RDONLY | libc::O_TRUNC).map(drop),
        // Access mode 3 asks for neither reading nor writing, so Landlock has nothing to look at in the open.
        ("open-truncate-mode-3", [path]) => open(path, libc::O_ACCMODE | libc::O_TRUNC).map(drop),
        ("tmpfile", [dir]) => open(dir, libc::O_WRONLY | O_TMPFILE).map(drop),
        ("mkdir", [path]) => fs::create_dir(path),
        ("rmdir", [path]) => fs::remove_dir(path),
        ("unlink", [path]) => fs::remove_file(path),
        ("rename", [from, to]) => fs::rename(from, to),
        ("link", [from, to]) => fs::hard_link(from, to),
        ("link-by-descriptor", [from, to]) => link_by_descriptor(from, to),
        ("symlink", [target, path]) => symlink(target, path),
        ("plant", [target, path]) => plant(target, path),
        ("mknod", [path, "fifo"]) => mknod(path, libc::S_IFIFO, 0),
        ("mknod", [path, "char"]) => mknod(path, libc::S_IFCHR, 0x103),
        ("bind-unix", [path]) => UnixListener::bind(path).map(drop),
        ("chmod", [path]) => fs::set_permissions(path, fs::Permissions::from_mode(0o600)),
        ("chown", [path]) => {
            let own = nix::unistd::getuid().as_raw();
            std::os::unix::fs::lchown(path, Some(own), None)
        }
        ("utimes", [path]) => {
            sys(libc::SYS_utimensat, &[AT_FDCWD, c(path).as_ptr() as usize, 0, 0]).map(drop)
        }
        ("setxattr", [path]) => setxattr(path),
        ("set-flags", [path]) => set_flags(path),
        ("set-xflags", [path]) => set_xflags(path),
        ("make-subvolume", [dir]) => {
            let name = [0u8; 4096];
            let dir = File::open(dir).ok()?;
            ioctl(&dir, BTRFS_IOC_SUBVOL_CREATE, name.as_ptr() as usize)
        }
        ("stat", [path]) => fs::metadata(path).map(drop),
        ("chdir", [path]) => std::env::set_current_dir(path),
        ("inotify", [path]) => inotify(path),
        _ => return None,
    })
}

fn read(path: &str) -> Outcome {
    File::open(path)?.read(&mut [0]).map(drop)
}

fn list(path: &str) -> Outcome {
    fs::read_dir(path)?.next().transpose().map(drop)
}

/// Where a launch of any profile may make files.
pub(crate) fn scratch() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| "/tmp".into(), Into::into)
}

fn by_symlink(path: &str) -> Outcome {
    let link = scratch().join(format!("hostile-link-{}", std::process::id()));
    symlink(path, &link)?;
    let outcome = File::open(&link).and_then(|mut f| f.read(&mut [0])).map(drop);
    fs::remove_file(&link)?;
    outcome
}

/// A link in the place of whatever is there.
fn plant(target: &str, path: &str) -> Outcome {
    match fs::remove_dir(path).or_else(|_| fs::remove_file(path)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => symlink(target, path),
    }
}

/// As the kernel has it, without the flags that libraries add.
fn open(path: &str, flags: i32) -> io::Result<File> {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    let fd = sys(libc::SYS_openat, &[AT_FDCWD, c(path).as_ptr() as usize, flags as usize, 0o600])?;
    // SAFETY: a fresh descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into())
}

/// Since Linux 6.10 whoever opened a file may link it without a name.
fn link_by_descriptor(from: &str, to: &str) -> Outcome {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(from)?;
    let (empty, to) = (c(""), c(to));
    let fd = file.as_raw_fd() as usize;
    let flags = libc::AT_EMPTY_PATH as usize;
    let args = [fd, empty.as_ptr() as usize, AT_FDCWD, to.as_ptr() as usize, flags];
    sys(libc::SYS_linkat, &args).map(drop)
}

fn mknod(path: &str, kind: u32, device: usize) -> Outcome {
    sys(libc::SYS_mknodat, &[AT_FDCWD, c(path).as_ptr() as usize, (kind | 0o600) as usize, device]).map(drop)
}

fn setxattr(path: &str) -> Outcome {
    let (path, name) = (c(path), c("user.hostile"));
    let args = [path.as_ptr() as usize, name.as_ptr() as usize, b"x".as_ptr() as usize, 1, 0];
    sys(libc::SYS_setxattr, &args).map(drop)
}

fn ioctl(file: &File, request: usize, arg: usize) -> Outcome {
    sys(libc::SYS_ioctl, &[file.as_raw_fd() as usize, request, arg]).map(drop)
}

/// A descriptor that may only read is enough for these.
fn set_flags(path: &str) -> Outcome {
    let file = File::open(path)?;
    let mut flags = 0u64;
    ioctl(&file, FS_IOC_GETFLAGS, (&raw mut flags) as usize)?;
    flags ^= FS_NODUMP_FL;
    ioctl(&file, FS_IOC_SETFLAGS, (&raw const flags) as usize)
}

fn set_xflags(path: &str) -> Outcome {
    let file = File::open(path)?;
    // struct fsxattr: the flags come first.
    let mut attributes = [0u32; 7];
    ioctl(&file, FS_IOC_FSGETXATTR, attributes.as_mut_ptr() as usize)?;
    attributes[0] ^= FS_XFLAG_NODUMP;
    ioctl(&file, FS_IOC_FSSETXATTR, attributes.as_ptr() as usize)
}

fn inotify(path: &str) -> Outcome {
    let fd = sys(libc::SYS_inotify_init1, &[0])?;
    sys(libc::SYS_inotify_add_watch, &[fd, c(path).as_ptr() as usize, IN_CREATE]).map(drop)
}
