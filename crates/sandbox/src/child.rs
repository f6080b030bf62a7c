//! The command's side, from its first instruction to exec. It shares the server's memory: raw system calls only, no
//! allocation, no lock, no thread-local state, no panic. One of the files where `unsafe` is allowed.

#![allow(unsafe_code, reason = "runs between clone and exec")]

use std::sync::atomic::Ordering::Relaxed;

use crate::error::Stage;
use crate::plan::Plan;
use crate::sys::{Raw, syscall};

/// The highest signal number, linux/signal.h.
const NSIG: usize = 64;
/// linux/close_range.h
const CLOSE_RANGE_CLOEXEC: usize = 4;

/// A `struct sigaction` of the kernel's that means "default", on x86_64 and aarch64 alike: all zero.
static DEFAULT_ACTION: [u64; 4] = [0; 4];
static NO_SIGNALS: u64 = 0;

/// The command's task. Ends in exec, or tells stage and errno and exits.
///
/// # Safety
/// `arg` points to a [`Plan`] that outlives this task, whose descriptors and strings are valid; the caller is suspended
/// (CLONE_VFORK) and has all signals blocked.
pub(crate) unsafe extern "C" fn command_main(arg: *mut u8) -> ! {
    // SAFETY: the caller vouches for it.
    let plan = unsafe { &*arg.cast::<Plan>() };
    // SAFETY: all pointers handed to the kernel come from the plan or are statics.
    let (stage, errno) = unsafe { run(plan) };
    plan.errno.store(errno, Relaxed);
    plan.stage.store(stage as u32, Relaxed);
    loop {
        // SAFETY: takes no memory.
        unsafe { syscall(libc::SYS_exit_group, [127, 0, 0, 0, 0, 0]) };
    }
}

/// # Safety
/// As [`command_main`].
unsafe fn run(plan: &Plan) -> (Stage, i32) {
    macro_rules! step {
        ($stage:ident, $nr:expr, $($arg:expr),*) => {{
            let mut args = [0usize; 6];
            let given = [$($arg as usize),*];
            args[..given.len()].copy_from_slice(&given);
            // SAFETY: see the function.
            let ret: Raw = unsafe { syscall($nr, args) };
            if ret < 0 {
                return (Stage::$stage, -ret as i32);
            }
        }};
    }

    // Handlers go at exec, but ignored signals stay ignored: a server ignores SIGPIPE.
    for signal in 1..=NSIG {
        if signal as i32 != libc::SIGKILL && signal as i32 != libc::SIGSTOP {
            step!(Signals, libc::SYS_rt_sigaction, signal, DEFAULT_ACTION.as_ptr(), 0, 8);
        }
    }
    step!(Session, libc::SYS_setsid, 0);
    if plan.terminal {
        step!(Terminal, libc::SYS_ioctl, plan.stdio[0], libc::TIOCSCTTY, 0);
    }
    for (target, fd) in plan.stdio.iter().enumerate() {
        step!(Stdio, libc::SYS_dup3, *fd, target, 0);
    }
    for (resource, limit) in plan.limits.iter().flatten() {
        step!(Limits, libc::SYS_prlimit64, 0, *resource, limit.as_ptr(), 0);
    }
    step!(Cwd, libc::SYS_chdir, plan.cwd);
    step!(Descriptors, libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC);
    if plan.scope >= 0 {
        step!(Landlock, libc::SYS_landlock_restrict_self, plan.scope, plan.restrict_flags);
    }
    for layer in plan.layers.iter().filter(|fd| **fd >= 0) {
        step!(Landlock, libc::SYS_landlock_restrict_self, *layer, plan.restrict_flags);
    }
    step!(Signals, libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const NO_SIGNALS, 0, 8);
    // SAFETY: see the function.
    unsafe { exec(plan) }
}

/// Tries each candidate as execvp(3) does: a missing one leads to the next, a forbidden one is remembered.
///
/// # Safety
/// As [`command_main`].
unsafe fn exec(plan: &Plan) -> (Stage, i32) {
    let mut outcome = libc::ENOENT;
    let mut index = 0u32;
    let mut next = plan.candidates;
    // SAFETY: the list ends with NULL.
    while let Some(path) = std::ptr::NonNull::new(unsafe { *next }.cast_mut()) {
        let args = [path.as_ptr() as usize, plan.argv as usize, plan.envp as usize, 0, 0, 0];
        // SAFETY: three valid, NULL-terminated strings and lists.
        let errno = -unsafe { syscall(libc::SYS_execve, args) } as i32;
        match errno {
            libc::ENOENT | libc::ENOTDIR if outcome == libc::ENOENT => plan.candidate.store(index, Relaxed),
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => {
                outcome = errno;
                plan.candidate.store(index, Relaxed);
            }
            other => {
                plan.candidate.store(index, Relaxed);
                return (Stage::Exec, other);
            }
        }
        index = index.wrapping_add(1);
        // SAFETY: NULL was not reached yet.
        next = unsafe { next.add(1) };
    }
    (Stage::Exec, outcome)
}
