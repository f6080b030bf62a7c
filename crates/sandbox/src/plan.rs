//! What the tasks of one launch share with the server: everything they need, made before the first of them exists, and
//! what they report. It lives until the shim has been reaped.

use std::ffi::{CString, c_char};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};

use crate::command::{RAW_LIMITS, RawLimit};
use crate::stacks::Pooled;

/// Where the launch stands; [`Plan::phase`].
pub(crate) mod phase {
    /// Nothing reported yet.
    pub(crate) const PENDING: u32 = 0;
    /// The exec succeeded.
    pub(crate) const STARTED: u32 = 1;
    /// A step failed; stage and errno say which.
    pub(crate) const FAILED: u32 = 2;
}

/// An order to the shim: a few bytes on its pipe, so that each arrives whole.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) what: u32,
    pub(crate) signal: i32,
    /// For [`Order::FOREGROUND`].
    pub(crate) group: i32,
}

impl Order {
    /// Start the command; the first order.
    pub(crate) const START: u32 = 1;
    /// Signal the command's process group.
    pub(crate) const GROUP: u32 = 2;
    /// Signal a process group of the tree: the one that the command's terminal has in its foreground. The command's own
    /// where the shim has no scope to keep it from any other.
    pub(crate) const FOREGROUND: u32 = 4;
    /// Signal the whole tree.
    pub(crate) const TREE: u32 = 3;

    /// How many bytes it has.
    pub(crate) const BYTES: usize = size_of::<Order>();

    /// Its bytes.
    pub(crate) fn bytes(self) -> [u8; Order::BYTES] {
        let mut out = [0; Order::BYTES];
        out[..4].copy_from_slice(&self.what.to_ne_bytes());
        out[4..8].copy_from_slice(&self.signal.to_ne_bytes());
        out[8..].copy_from_slice(&self.group.to_ne_bytes());
        out
    }
}

/// Most Landlock layers of one launch, the scopes aside: the ceiling, a profile, a client's permissions.
pub(crate) const MAX_LAYERS: usize = 3;
/// Most descriptors that a shim keeps over its first step: stdio, layers, scopes, orders, events.
const MAX_KEPT: usize = 3 + MAX_LAYERS + 3;

/// Descriptors, by their numbers in the server's table, which the shim shares until it has a copy.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// Read end of the order pipe.
    pub(crate) order: i32,
    /// stdin, stdout, stderr of the command. For a terminal the slave thrice.
    pub(crate) stdio: [i32; 3],
    /// Whether stdio is a terminal to be made the controlling one.
    pub(crate) terminal: bool,
    /// The scopes; -1 without.
    pub(crate) scope: i32,
    /// Whether that holds signals in; it may be there for sockets alone.
    pub(crate) scopes_signals: bool,
    /// The layers on files, -1 filled.
    pub(crate) layers: [i32; MAX_LAYERS],
}

/// Everything that shim and command need, and what they report.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) order: i32,
    pub(crate) event: i32,
    pub(crate) stdio: [i32; 3],
    pub(crate) terminal: bool,
    pub(crate) scope: i32,
    pub(crate) scopes_signals: bool,
    pub(crate) layers: [i32; MAX_LAYERS],
    /// Inclusive ranges of descriptors to close, the last first.
    pub(crate) gaps: [(u32, u32); MAX_KEPT + 1],
    pub(crate) restrict_flags: u32,
    pub(crate) limits: [Option<RawLimit>; RAW_LIMITS],
    pub(crate) server: i32,
    pub(crate) command_stack: *mut u8,
    pub(crate) cwd: *const c_char,
    pub(crate) argv: *const *const c_char,
    pub(crate) envp: *const *const c_char,
    /// NULL-terminated.
    pub(crate) candidates: *const *const c_char,
    /// The text for the command's oom_score_adj.
    pub(crate) oom_score: *const c_char,

    pub(crate) phase: AtomicU32,
    pub(crate) stage: AtomicU32,
    pub(crate) errno: AtomicI32,
    /// Index of the candidate that the errno is about.
    pub(crate) candidate: AtomicU32,
    /// Whether the shim's domain holds signals in, proven by itself.
    pub(crate) scoped: AtomicBool,
    pub(crate) pid: AtomicI32,
    /// The wait status; valid once `exited`.
    pub(crate) status: AtomicI32,
    pub(crate) exited: AtomicBool,

    pub(crate) strings: Strings,
    pub(crate) stacks: Pooled,
}

/// The strings behind the pointers. Their bytes stay where they are when the plan moves.
#[derive(Debug)]
pub(crate) struct Strings {
    pub(crate) candidates: Vec<CString>,
    cwd: CString,
    oom_score: CString,
    _lists: [Vec<CString>; 2],
    pointers: [Vec<*const c_char>; 3],
}

impl Strings {
    pub(crate) fn new(
        argv: Vec<CString>,
        env: Vec<CString>,
        candidates: Vec<CString>,
        cwd: CString,
        oom_score: CString,
    ) -> Self {
        let pointers = [&argv, &env, &candidates]
            .map(|list| list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>());
        Self { candidates, cwd, oom_score, _lists: [argv, env], pointers }
    }
}

impl Plan {
    pub(crate) fn new(
        fds: &Descriptors,
        event: &OwnedFd,
        strings: Strings,
        stacks: Pooled,
        limits: [Option<RawLimit>; RAW_LIMITS],
        restrict_flags: u32,
    ) -> Self {
        let kept = [fds.order, event.as_raw_fd(), fds.scope];
        let kept = kept.into_iter().chain(fds.stdio).chain(fds.layers).filter(|fd| *fd >= 0);
        Plan {
            order: fds.order,
            event: event.as_raw_fd(),
            stdio: fds.stdio,
            terminal: fds.terminal,
            scope: fds.scope,
            scopes_signals: fds.scopes_signals,
            layers: fds.layers,
            gaps: gaps(kept.map(|fd| fd as u32).collect()),
            restrict_flags,
            limits,
            server: std::process::id() as i32,
            command_stack: stacks.top(1),
            cwd: strings.cwd.as_ptr(),
            argv: strings.pointers[0].as_ptr(),
            envp: strings.pointers[1].as_ptr(),
            candidates: strings.pointers[2].as_ptr(),
            oom_score: strings.oom_score.as_ptr(),
            phase: AtomicU32::new(phase::PENDING),
            stage: AtomicU32::new(0),
            errno: AtomicI32::new(0),
            candidate: AtomicU32::new(0),
            scoped: AtomicBool::new(false),
            pid: AtomicI32::new(0),
            status: AtomicI32::new(0),
            exited: AtomicBool::new(false),
            strings,
            stacks,
        }
    }
}

/// An empty range: `close_range` is not called for it.
const NO_GAP: (u32, u32) = (1, 0);

/// The ranges between the kept descriptors, for close_range. What is above all of them comes first: the kernel copies no
/// more of a table than is below a range that is closed to its end.
fn gaps(mut kept: Vec<u32>) -> [(u32, u32); MAX_KEPT + 1] {
    kept.sort_unstable();
    kept.dedup();
    let mut out = [NO_GAP; MAX_KEPT + 1];
    let mut from = 0;
    let mut slots = out.iter_mut();
    for fd in kept {
        if fd > from
            && let Some(slot) = slots.next()
        {
            *slot = (from, fd - 1);
        }
        from = fd + 1;
    }
    if let Some(slot) = slots.next() {
        *slot = (from, u32::MAX);
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_leave_exactly_the_kept_ones() {
        let closed = |kept: &[u32], fd: u32| gaps(kept.to_vec()).iter().any(|(a, b)| *a <= fd && fd <= *b);
        for kept in [&[][..], &[0], &[3, 4, 9], &[7, 7, 5], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            for fd in (0..20).chain([u32::MAX]) {
                assert_eq!(closed(kept, fd), !kept.contains(&fd), "{kept:?} {fd}");
            }
        }
    }

    #[test]
    fn what_is_above_all_kept_ones_comes_first() {
        let first = |kept: &[u32]| gaps(kept.to_vec()).into_iter().find(|gap| *gap != NO_GAP);
        for kept in [&[][..], &[0], &[3, 4, 900], &[0, 1, 2, 3, 4, 5, 6, 7, 8]] {
            assert_eq!(first(kept), Some((kept.last().map_or(0, |fd| fd + 1), u32::MAX)), "{kept:?}");
        }
    }
}
