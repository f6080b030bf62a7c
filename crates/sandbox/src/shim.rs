//! The shim: one small task per launch that is the parent of the command, reaps its whole tree, and ends it. It shares
//! the server's memory (CLONE_VM), and its descriptors until its first step: raw system calls only, no allocation, no
//! lock, no thread-local state, no panic. One of the files where `unsafe` is allowed.
//!
//! It sits in a Landlock domain of its own that scopes signals, so `kill(-1)` from it reaches the launch's tree and
//! nothing else. EOF on its order pipe means that the server is gone, or wants the launch gone: it ends the tree.

#![allow(unsafe_code, reason = "runs on a stack of its own in the server's memory")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::child;
use crate::error::Stage;
use crate::landlock;
use crate::plan::{Order, Plan, phase};
use crate::sys::{Raw, Stacks, clone_call, syscall};

const PR_SET_NAME: usize = 15;
const PR_SET_CHILD_SUBREAPER: usize = 36;
const SIGCHLD_MASK: u64 = 1 << (libc::SIGCHLD - 1);
const POLLIN: i16 = 1;
/// linux/close_range.h
const CLOSE_RANGE_UNSHARE: usize = 2;
/// Pids of children, looked at in pieces of this size, bytes.
const CHILDREN_BUFFER: usize = 4096;
/// Between two rounds of killing without the scope: a killed process is gone well within it.
const RETRY_NANOSECONDS: i64 = 1_000_000;

// SAFETY: the plan's raw pointers lead into its own strings and stacks, which live as long as it does.
unsafe impl Send for Plan {}
// SAFETY: what changes after its making is atomic.
unsafe impl Sync for Plan {}

/// A raw call with up to six arguments.
macro_rules! raw {
    ($nr:expr $(, $arg:expr)* $(,)?) => {{
        let given: &[usize] = &[$($arg as usize),*];
        let mut args = [0usize; 6];
        for (slot, value) in args.iter_mut().zip(given) {
            *slot = *value;
        }
        // SAFETY: every pointer handed over here is to a live local, a static or the plan.
        unsafe { syscall($nr, args) }
    }};
}

/// The shim's task.
///
/// # Safety
/// `arg` points to a [`Plan`] that outlives this task and whose descriptors are open; all signals are blocked.
pub(crate) unsafe extern "C" fn shim_main(arg: *mut u8) -> ! {
    // SAFETY: the caller vouches for it.
    let plan = unsafe { &*arg.cast::<Plan>() };
    if let Err((stage, errno)) = start(plan, arg) {
        plan.errno.store(errno, Relaxed);
        plan.stage.store(stage as u32, Relaxed);
        report(plan, phase::FAILED);
        exit();
    }
    report(plan, phase::STARTED);
    serve(plan);
    exit();
}

fn exit() -> ! {
    loop {
        raw!(libc::SYS_exit_group, 0);
    }
}

/// Tells the server that something has changed.
fn ring(plan: &Plan) {
    let one: u64 = 1;
    raw!(libc::SYS_write, plan.event, &raw const one, 8);
}

fn report(plan: &Plan, phase: u32) {
    plan.phase.store(phase, Release);
    ring(plan);
}

fn start(plan: &Plan, arg: *mut u8) -> Result<(), (Stage, i32)> {
    let step = |stage: Stage, ret: Raw| if ret < 0 { Err((stage, -ret as i32)) } else { Ok(ret) };
    // First of all: a copy of another launch's pipe, held here, would keep that launch from seeing its end. Until the first
    // of these calls the server's table is this task's too, so nothing may be closed in it; that call gives a copy of what
    // is below its range.
    let mut how = CLOSE_RANGE_UNSHARE;
    for (from, to) in &plan.gaps {
        if from <= to {
            step(Stage::Shim, raw!(libc::SYS_close_range, *from, *to, how))?;
            how = 0;
        }
    }
    step(Stage::Shim, raw!(libc::SYS_setsid))?;
    step(Stage::Shim, raw!(libc::SYS_prctl, PR_SET_CHILD_SUBREAPER, 1))?;
    raw!(libc::SYS_prctl, PR_SET_NAME, c"sidecar-shim".as_ptr());
    if plan.scope >= 0 {
        let flags = plan.restrict_flags;
        step(Stage::Scope, raw!(libc::SYS_landlock_restrict_self, plan.scope, flags))?;
        // The proof, for this very domain: the server cannot be signalled from it. Without the scope it proves nothing: it
        // is a filter then that refuses, which would refuse to end the tree too.
        if plan.scopes_signals {
            let ret = raw!(libc::SYS_kill, plan.server, 0);
            plan.scoped.store(ret == -(libc::EPERM as Raw), Relaxed);
        }
    }
    // Not before the server has tagged this task: what it starts inherits the tag.
    match take_order(plan) {
        Some(order) if order.what == Order::START => {}
        _ => exit(),
    }
    let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as usize;
    // SAFETY: a stack of its own, the plan outlives it, and this task is suspended until exec or exit.
    let ret =
        unsafe { clone_call(flags, plan.command_stack, std::ptr::null_mut(), child::command_main, arg) };
    let pid = step(Stage::Clone, ret)?;
    let stage = plan.stage.load(Relaxed);
    if stage != 0 {
        let mut status = 0i32;
        raw!(libc::SYS_wait4, pid, &raw mut status, libc::__WALL, 0);
        // The stage is in place already.
        report(plan, phase::FAILED);
        exit();
    }
    plan.pid.store(pid as i32, Relaxed);
    for fd in plan.stdio {
        raw!(libc::SYS_close, fd);
    }
    prefer_for_oom(plan, pid as u32);
    Ok(())
}

/// Raises the command's oom_score_adj, so that the kernel ends it before the server. Only from outside, after the exec:
/// before it the command shares the server's memory, and the kernel would change the server's too.
fn prefer_for_oom(plan: &Plan, pid: u32) {
    let mut path = [0u8; 40];
    let mut at = 0usize;
    let mut push = |bytes: &[u8]| {
        for byte in bytes {
            if let Some(slot) = path.get_mut(at) {
                *slot = *byte;
            }
            at = at.wrapping_add(1);
        }
    };
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    let mut rest = pid;
    while first > 0 {
        first = first.wrapping_sub(1);
        if let Some(slot) = digits.get_mut(first) {
            *slot = b'0'.wrapping_add((rest % 10) as u8);
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    push(b"/proc/");
    push(digits.get(first..).unwrap_or(&[]));
    push(b"/oom_score_adj\0");
    let fd = raw!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC, 0);
    if fd >= 0 {
        // SAFETY: NUL-terminated by its type.
        let mut len = 0usize;
        // SAFETY: stops at the NUL.
        while unsafe { *plan.oom_score.add(len) } != 0 {
            len = len.wrapping_add(1);
        }
        // A lower score than wanted is no reason to fail a launch.
        raw!(libc::SYS_write, fd, plan.oom_score, len);
        raw!(libc::SYS_close, fd);
    }
}

/// The next order; `None` at EOF.
fn take_order(plan: &Plan) -> Option<Order> {
    let mut order = Order { what: 0, signal: 0, group: 0 };
    let ret = raw!(libc::SYS_read, plan.order, &raw mut order, Order::BYTES);
    (ret == Order::BYTES as isize).then_some(order)
}

/// Reaps and obeys until the tree is gone.
fn serve(plan: &Plan) {
    let mask = SIGCHLD_MASK;
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    let signals = raw!(libc::SYS_signalfd4, -1isize, &raw const mask, 8, flags);
    if signals < 0 {
        // Without it an exit could not be told: rather end the launch than lie about it.
        end_tree(plan);
        return;
    }
    loop {
        if !reap(plan) {
            return;
        }
        let mut fds = [
            libc::pollfd { fd: signals as i32, events: POLLIN, revents: 0 },
            libc::pollfd { fd: plan.order, events: POLLIN, revents: 0 },
        ];
        raw!(libc::SYS_ppoll, fds.as_mut_ptr(), 2, 0, 0, 8);
        let [signal, order] = fds;
        if signal.revents != 0 {
            // What it says does not matter: reap() looks for itself.
            let mut info = [0u8; 128];
            raw!(libc::SYS_read, signals, info.as_mut_ptr(), info.len());
        }
        if order.revents != 0 {
            match take_order(plan) {
                Some(order) => obey(plan, order),
                None => {
                    end_tree(plan);
                    return;
                }
            }
        }
    }
}

fn obey(plan: &Plan, order: Order) {
    match (order.what, order.signal) {
        (Order::TREE, libc::SIGKILL) => end_tree(plan),
        (Order::TREE, signal) if plan.scoped.load(Relaxed) => {
            raw!(libc::SYS_kill, -1isize, signal);
        }
        // Within the scope no group but one of this tree can be hit, whatever the number has come to mean.
        (Order::FOREGROUND, signal) if plan.scoped.load(Relaxed) && order.group > 1 => {
            raw!(libc::SYS_kill, -(order.group as isize), signal);
        }
        // While it is not reaped, its pid, and so its group's number, is not reused.
        (Order::GROUP | Order::FOREGROUND, signal) if !plan.exited.load(Relaxed) => {
            raw!(libc::SYS_kill, -(plan.pid.load(Relaxed) as isize), signal);
        }
        _ => {}
    }
}

/// Reaps whatever has ended. False once no child is left.
fn reap(plan: &Plan) -> bool {
    loop {
        let mut status = 0i32;
        let ret = raw!(libc::SYS_wait4, -1isize, &raw mut status, libc::WNOHANG | libc::__WALL, 0);
        match ret {
            0 => return true,
            pid if pid > 0 => note_exit(plan, pid as i32, status),
            _ => return false,
        }
    }
}

fn note_exit(plan: &Plan, pid: i32, status: i32) {
    if pid == plan.pid.load(Relaxed) {
        plan.status.store(status, Relaxed);
        plan.exited.store(true, Release);
        ring(plan);
    }
}

/// Kills the tree and reaps it until nothing is left.
fn end_tree(plan: &Plan) {
    let scoped = plan.scoped.load(Relaxed);
    loop {
        if scoped {
            // The kernel holds its list of processes still for this one: nobody is missed, however fast it forks.
            raw!(libc::SYS_kill, -1isize, libc::SIGKILL);
        } else {
            kill_children(plan);
            // That list is not held still, so a missed child must not be waited for: look, pause, kill again.
            if !reap(plan) {
                return;
            }
            let pause = libc::timespec { tv_sec: 0, tv_nsec: RETRY_NANOSECONDS };
            raw!(libc::SYS_ppoll, 0, 0, &raw const pause, 0, 8);
            continue;
        }
        let mut status = 0i32;
        let ret = raw!(libc::SYS_wait4, -1isize, &raw mut status, libc::__WALL, 0);
        if ret < 0 {
            return;
        }
        note_exit(plan, ret as i32, status);
        if !reap(plan) {
            return;
        }
    }
}

/// Without the scope: kills the direct children. Their children become this task's, so the next round finds them; and
/// only this task reaps them, so no pid is stale.
fn kill_children(plan: &Plan) {
    let path = c"/proc/thread-self/children".as_ptr();
    let fd = raw!(libc::SYS_openat, libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC, 0);
    if fd < 0 {
        // No such file on this kernel: the command's group at least; the server goes by the tag.
        raw!(libc::SYS_kill, -(plan.pid.load(Relaxed) as isize), libc::SIGKILL);
        return;
    }
    let mut buffer = [0u8; CHILDREN_BUFFER];
    let len = raw!(libc::SYS_read, fd, buffer.as_mut_ptr(), CHILDREN_BUFFER);
    raw!(libc::SYS_close, fd);
    let mut pid = 0usize;
    // A number that the buffer's end cuts off has no blank behind it: it is left for the next round.
    for byte in buffer.iter().take(len.max(0) as usize) {
        if byte.is_ascii_digit() {
            pid = pid.wrapping_mul(10).wrapping_add(usize::from(byte.wrapping_sub(b'0')));
        } else if pid != 0 {
            raw!(libc::SYS_kill, pid, libc::SIGKILL);
            pid = 0;
        }
    }
}

/// What [`scope_probe_main`] works on.
struct ScopeProbe {
    ruleset: i32,
    flags: u32,
    server: i32,
    /// What the kill gave; [`PENDING`] before.
    outcome: AtomicI32,
}

const PENDING: i32 = i32::MIN;

unsafe extern "C" fn scope_probe_main(arg: *mut u8) -> ! {
    // SAFETY: the probe outlives this task.
    let probe = unsafe { &*arg.cast::<ScopeProbe>() };
    let restricted = raw!(libc::SYS_landlock_restrict_self, probe.ruleset, probe.flags);
    if restricted == 0 {
        probe.outcome.store(raw!(libc::SYS_kill, probe.server, 0) as i32, Relaxed);
    }
    exit()
}

/// The start-up proof: whether a task in that scope cannot signal this process.
///
/// # Errors
/// The trial could not be made.
pub(crate) fn signal_is_scoped(scope: &OwnedFd, abi: u32) -> io::Result<bool> {
    let stacks = Stacks::new()?;
    let probe = ScopeProbe {
        ruleset: scope.as_raw_fd(),
        flags: landlock::restrict_flags(abi),
        server: std::process::id() as i32,
        outcome: AtomicI32::new(PENDING),
    };
    // A thread, since the trial needs no_new_privs and this thread may not want it.
    std::thread::scope(|threads| {
        let trial = threads.spawn(|| {
            nix::sys::prctl::set_no_new_privs()?;
            nix::sys::signal::SigSet::all().thread_block()?;
            let flags = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as usize;
            let arg = (&raw const probe).cast_mut().cast();
            // SAFETY: a stack of its own; this thread is suspended until the task exits, so the probe outlives it.
            let pid =
                unsafe { clone_call(flags, stacks.top(0), std::ptr::null_mut(), scope_probe_main, arg) };
            if pid < 0 {
                return Err(io::Error::from_raw_os_error(-pid as i32));
            }
            nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid as i32), None)?;
            Ok(probe.outcome.load(Relaxed) == -libc::EPERM)
        });
        trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
    })
}
