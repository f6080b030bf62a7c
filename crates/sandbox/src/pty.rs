//! Terminals: a master for the server, a slave for the command, both made before any fork.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::sys;

/// Opens a terminal of that size.
///
/// # Errors
/// There are no terminals left, or no devpts.
pub(crate) fn open(rows: u16, cols: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname_r(&master)?;
    let slave = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(name)?;
    let master: OwnedFd = master.into();
    // posix_openpt of some libcs drops O_CLOEXEC.
    fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    sys::set_window_size(master.as_fd(), rows, cols)?;
    Ok((master, slave.into()))
}
