//! Finding and ending a launch by its tag, the RLIMIT_LOCKS that each process of the tree inherits and none can change.
//! It works on every kernel, whatever the processes did to leave their parent, group and session.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys;

/// A launch's mark: unique on this machine by chance alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// How long one killed process may take to go before the next look; a process in an uninterruptible wait takes longer,
/// and the loop looks again.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// How often to look among the processes that were started since the last look. One look costs microseconds and finds a
/// process that forks and exits all the time about every third time; where other trees start processes too, it is not
/// known otherwise when to stop.
const CHASES: u32 = 200;

/// Tags are large numbers, so that no limit that somebody sets by hand is taken for one.
const FLOOR: u64 = 1 << 48;

impl Tag {
    /// A fresh tag. It stays below the hard limit that this process inherited, which only a privileged one may exceed.
    ///
    /// # Errors
    /// There is no randomness, or the inherited limit leaves no room.
    pub(crate) fn fresh() -> io::Result<Self> {
        let ceiling = sys::tag_ceiling()?;
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
        let span = ceiling.min(i64::MAX as u64).checked_sub(FLOOR).filter(|span| *span > FLOOR);
        let span = span
            .ok_or_else(|| io::Error::other("RLIMIT_LOCKS is already lowered: a sandbox within a sandbox"))?;
        Ok(Self(FLOOR + u64::from_ne_bytes(bytes) % span))
    }

    /// Tags a process that has not started anything yet.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn put_on(self, pid: i32) -> io::Result<()> {
        sys::set_tag(pid, self.0)
    }

    /// Every live process that bears the tag, by a descriptor that cannot come to mean another one.
    pub(crate) fn bearers(self, except: Option<i32>) -> Vec<(i32, OwnedFd)> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .filter(|pid| Some(*pid) != except && self.is_on(*pid))
            // Looked at again once it is held: the pid may have been reused in between.
            .filter_map(|pid| Some((pid, sys::pidfd_open(pid).ok()?)).filter(|_| self.is_on(pid)))
            .collect()
    }

    fn is_on(self, pid: i32) -> bool {
        read(pid).is_ok_and(|limit| limit == Some(self.0)) && !is_zombie(pid)
    }

    /// Whether a process bears the tag of any launch, of whichever server.
    ///
    /// # Errors
    /// It is gone, or cannot be looked at.
    pub(crate) fn any_on(pid: i32) -> io::Result<bool> {
        Ok(read(pid)?.is_some_and(|limit| limit >= FLOOR))
    }

    /// Sends a signal to every bearer but `except`. Gives how many there were.
    pub(crate) fn signal(self, signal: i32, except: Option<i32>) -> usize {
        let bearers = self.bearers(except);
        for (_, pidfd) in &bearers {
            // A bearer that is gone by now needs no signal.
            let _ = sys::pidfd_send_signal(pidfd.as_fd(), signal);
        }
        bearers.len()
    }

    /// Kills every bearer but `except`, until there is none. Stopping them first keeps a fork bomb from outrunning the
    /// look into /proc.
    pub(crate) fn kill(self, except: Option<i32>) {
        while let Some(killed) = self.strike(except) {
            for (_, pidfd) in &killed {
                let timeout = PollTimeout::try_from(GONE_WITHIN).unwrap_or(PollTimeout::ZERO);
                let _ = poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout);
            }
        }
    }

    /// One round of the same, without a wait: those who are still to go. `None` where nobody was found.
    pub(crate) fn strike(self, except: Option<i32>) -> Option<Vec<(i32, OwnedFd)>> {
        let newest = newest_pid();
        if self.signal(libc::SIGSTOP, except) == 0 {
            return newest.is_some_and(|newest| self.chase(newest, except)).then(Vec::new);
        }
        let bearers = self.bearers(except);
        for (_, pidfd) in &bearers {
            let _ = sys::pidfd_send_signal(pidfd.as_fd(), libc::SIGKILL);
        }
        Some(bearers)
    }

    /// After a look that has found nobody: whether somebody was born meanwhile, to be killed here. Who forks and exits all
    /// the time has a new pid at each look; pids are given out in order, so the new ones are known without a look at
    /// every process, and there is none where no pid was given out.
    fn chase(self, mut seen: i32, except: Option<i32>) -> bool {
        for _ in 0..CHASES {
            match newest_pid() {
                None => return false,
                Some(newest) if newest == seen => return false,
                // They have started from the beginning again: everybody is to be looked at.
                Some(newest) if newest < seen => return true,
                Some(newest) => {
                    // All of them: one that is not there yet has a parent that is.
                    let killed =
                        (seen + 1..=newest).filter(|pid| Some(*pid) != except && self.kill_one(*pid));
                    if killed.count() > 0 {
                        return true;
                    }
                    seen = newest;
                }
            }
        }
        false
    }

    /// Kills a process if it bears the tag; whether it did.
    fn kill_one(self, pid: i32) -> bool {
        let bears = || read(pid).is_ok_and(|limit| limit == Some(self.0));
        let Some(pidfd) = bears().then(|| sys::pidfd_open(pid).ok()).flatten().filter(|_| bears()) else {
            return false;
        };
        // One that has ended is found until it is reaped. The child that it may have had is looked at next.
        sys::pidfd_send_signal(pidfd.as_fd(), libc::SIGKILL).is_ok() && !is_zombie(pid)
    }
}

/// The last pid that was given out, in this process's pid namespace; proc_loadavg(5). A thread takes one too.
fn newest_pid() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next_back()?.parse().ok()
}

/// The limit that tags are made of; `None` where there is no limit.
fn read(pid: i32) -> io::Result<Option<u64>> {
    match sys::tag(pid) {
        Ok(limit) => Ok(Some(limit).filter(|limit| *limit != libc::RLIM_INFINITY)),
        // Of another user: /proc tells everybody.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
            let line = limits.lines().find_map(|l| l.strip_prefix("Max file locks"));
            let soft = line.and_then(|l| l.split_whitespace().next());
            Ok(soft.and_then(|soft| soft.parse().ok()))
        }
        Err(e) => Err(e),
    }
}

fn is_zombie(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name, in parentheses, may hold anything; the state follows the last one, and 17 fields later (proc_pid_stat(5))
    // the number of threads: a leader that ended before its threads looks like a zombie, and is none.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    let threads = rest.split(' ').nth(17).and_then(|n| n.parse().ok()).unwrap_or(0);
    rest.starts_with(['Z', 'X']) && threads < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_differ_and_nobody_bears_a_fresh_one() {
        let (a, b) = (Tag::fresh().unwrap(), Tag::fresh().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.signal(0, None), 0);
    }
}
