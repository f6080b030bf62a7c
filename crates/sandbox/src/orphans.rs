//! Ended children that nobody started: what a PID 1 must reap. It never touches a shim, which whoever launched it reaps.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::launcher::Shim;

/// The shims that are not reaped yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shims {
    pids: Arc<Mutex<HashSet<i32>>>,
}

impl Shims {
    /// Creates one. The lock is held over the clone: a shim that dies at once must not be taken for an orphan.
    pub(crate) fn add(&self, clone: impl FnOnce() -> io::Result<Shim>) -> io::Result<Shim> {
        let mut pids = self.lock();
        let shim = clone()?;
        pids.insert(shim.pid);
        Ok(shim)
    }

    /// It has been reaped: its pid may come to mean another process.
    pub(crate) fn forget(&self, pid: i32) {
        self.lock().remove(&pid);
    }

    /// Reaps every ended child that is no shim. One by one: waiting for any child would take the shims' exits too.
    pub(crate) fn reap_others(&self) -> usize {
        let pids = self.lock();
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        ended_children()
            .filter(|pid| !pids.contains(pid))
            .filter(|pid| waitid(Id::Pid(Pid::from_raw(*pid)), flags).is_ok())
            .count()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The children of this process that have ended.
fn ended_children() -> impl Iterator<Item = i32> {
    let parent = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // proc_pid_stat(5): state and parent follow the name, which may hold anything.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        (fields.next() == Some("Z") && fields.next() == Some(parent.as_str())).then_some(pid)
    })
}
