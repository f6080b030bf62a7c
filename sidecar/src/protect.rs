//! What the server's own process gives up, so that launches get nothing out of it. Not for embedded servers: the
//! process is not theirs.

use nix::sys::prctl;

/// No core dumps, no ptrace, no reading of /proc/self/{mem,environ} by others of the same uid; and no exec gives back
/// what was given up. Must be called before any thread is started: threads inherit it.
pub(crate) fn protect_process() -> nix::Result<()> {
    prctl::set_dumpable(false)?;
    prctl::set_no_new_privs()
}
