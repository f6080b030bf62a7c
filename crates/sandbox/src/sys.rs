//! Raw system calls: for tasks that share the server's memory and must not touch its thread-local `errno`, and for calls
//! that no library wraps. Owns no state. One of the files where `unsafe` is allowed.

#![allow(unsafe_code, reason = "raw system calls")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a raw call gives: negative values are `-errno`.
pub(crate) type Raw = isize;

/// A raw system call. Unused arguments are 0.
///
/// # Safety
/// As the call itself: pointers must be valid for what the kernel does with them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn syscall(nr: i64, a: [usize; 6]) -> Raw {
    let ret: isize;
    // SAFETY: the kernel preserves everything but rax, rcx and r11; the caller vouches for the arguments.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") nr as isize => ret,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    ret
}

/// A raw system call. Unused arguments are 0.
///
/// # Safety
/// As the call itself: pointers must be valid for what the kernel does with them.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn syscall(nr: i64, a: [usize; 6]) -> Raw {
    let ret: isize;
    // SAFETY: the kernel preserves everything but x0; the caller vouches for the arguments.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") nr,
            inlateout("x0") a[0] => ret,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    ret
}

/// `clone(flags)` with a stack of its own for the child, which runs `entry(arg)` and never returns from it.
/// `pidfd` receives the descriptor where `flags` holds `CLONE_PIDFD`.
///
/// # Safety
/// `stack_top` is 16-byte aligned, with enough mapped and unused memory below it for `entry`, for as long as the child
/// lives; with `CLONE_VM`, `entry` must not touch thread-local state, allocate, lock or unwind.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn clone_call(
    flags: usize,
    stack_top: *mut u8,
    pidfd: *mut i32,
    entry: unsafe extern "C" fn(*mut u8) -> !,
    arg: *mut u8,
) -> Raw {
    let ret: isize;
    // SAFETY: the child starts on its own stack and calls `entry` with the registers that the kernel copied; nothing
    // of the parent's frame is touched. The parent sees a plain system call.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => ret,
            in("rdi") flags, in("rsi") stack_top, in("rdx") pidfd, in("r10") 0usize, in("r8") 0usize,
            in("r12") entry, in("r13") arg,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    ret
}

/// `clone(flags)` with a stack of its own for the child, which runs `entry(arg)` and never returns from it.
/// `pidfd` receives the descriptor where `flags` holds `CLONE_PIDFD`.
///
/// # Safety
/// `stack_top` is 16-byte aligned, with enough mapped and unused memory below it for `entry`, for as long as the child
/// lives; with `CLONE_VM`, `entry` must not touch thread-local state, allocate, lock or unwind.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn clone_call(
    flags: usize,
    stack_top: *mut u8,
    pidfd: *mut i32,
    entry: unsafe extern "C" fn(*mut u8) -> !,
    arg: *mut u8,
) -> Raw {
    let ret: isize;
    // SAFETY: as on x86_64.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x10",
            "blr x9",
            "brk 1",
            "2:",
            in("x8") libc::SYS_clone,
            inlateout("x0") flags => ret,
            in("x1") stack_top, in("x2") pidfd, in("x3") 0usize, in("x4") 0usize,
            in("x9") entry, in("x10") arg,
        );
    }
    ret
}

fn check(ret: Raw) -> io::Result<usize> {
    usize::try_from(ret).map_err(|_| io::Error::from_raw_os_error((-ret).try_into().unwrap_or(i32::MAX)))
}

/// `landlock_create_ruleset(NULL, 0, flag)`: the ABI (flag 1) or the errata (flag 2).
pub(crate) fn landlock_query(flag: usize) -> io::Result<u32> {
    // SAFETY: without attributes the kernel reads no memory.
    let ret = unsafe { syscall(libc::SYS_landlock_create_ruleset, [0, 0, flag, 0, 0, 0]) };
    check(ret).map(|n| n as u32)
}

/// `landlock_restrict_self` for the calling thread, for ever.
pub(crate) fn landlock_restrict_self(ruleset: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let fd = ruleset.as_raw_fd() as usize;
    // SAFETY: the kernel reads no memory.
    let ret = unsafe { syscall(libc::SYS_landlock_restrict_self, [fd, flags as usize, 0, 0, 0, 0]) };
    check(ret).map(drop)
}

/// Another descriptor of the same file: the lowest number that is free from `first` on, close-on-exec.
pub(crate) fn dup_from(fd: BorrowedFd<'_>, first: i32) -> io::Result<OwnedFd> {
    let arguments = [fd.as_raw_fd() as usize, libc::F_DUPFD_CLOEXEC as usize, first as usize, 0, 0, 0];
    // SAFETY: the kernel reads no memory.
    let fd = check(unsafe { syscall(libc::SYS_fcntl, arguments) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A descriptor of the process, for signals and waiting without a race on its pid.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads no memory.
    let ret = unsafe { syscall(libc::SYS_pidfd_open, [pid as usize, 0, 0, 0, 0, 0]) };
    let fd = check(ret)?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A signal by pidfd.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let fd = pidfd.as_raw_fd() as usize;
    // SAFETY: a NULL siginfo means that the kernel fills it in.
    let ret = unsafe { syscall(libc::SYS_pidfd_send_signal, [fd, signal as usize, 0, 0, 0, 0]) };
    check(ret).map(drop)
}

/// Tags a process, and so all that it will start: both RLIMIT_LOCKS limits, which the kernel ignores since 2.4.25.
pub(crate) fn set_tag(pid: i32, tag: u64) -> io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: tag, rlim_max: tag };
    let resource = libc::RLIMIT_LOCKS as usize;
    // SAFETY: `limit` outlives the call, which only reads it.
    let ret = unsafe {
        syscall(libc::SYS_prlimit64, [pid as usize, resource, (&raw const limit) as usize, 0, 0, 0])
    };
    check(ret).map(drop)
}

/// The tag of a process; that of none is RLIM_INFINITY, or a limit that somebody has set.
///
/// # Errors
/// It is gone, or of another user.
pub(crate) fn tag(pid: i32) -> io::Result<u64> {
    lock_limit(pid).map(|limit| limit.rlim_cur)
}

/// The hard RLIMIT_LOCKS of this process: no tag can be above it.
pub(crate) fn tag_ceiling() -> io::Result<u64> {
    lock_limit(0).map(|limit| limit.rlim_max)
}

fn lock_limit(pid: i32) -> io::Result<libc::rlimit64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let resource = libc::RLIMIT_LOCKS as usize;
    // SAFETY: `limit` is valid for the write.
    let ret =
        unsafe { syscall(libc::SYS_prlimit64, [pid as usize, resource, 0, (&raw mut limit) as usize, 0, 0]) };
    check(ret).map(|_| limit)
}

/// Sends a signal to the foreground process group of a terminal, by its master: the kernel picks the group, so that no
/// pid can be stale.
pub(crate) fn terminal_signal(master: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let fd = master.as_raw_fd() as usize;
    // SAFETY: TIOCSIG takes its argument by value.
    let ret = unsafe { syscall(libc::SYS_ioctl, [fd, libc::TIOCSIG as usize, signal as usize, 0, 0, 0]) };
    check(ret).map(drop)
}

/// Sets a terminal's size.
pub(crate) fn set_window_size(terminal: BorrowedFd<'_>, rows: u16, cols: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    let fd = terminal.as_raw_fd() as usize;
    // SAFETY: `size` outlives the call, which only reads it.
    let ret = unsafe {
        syscall(libc::SYS_ioctl, [fd, libc::TIOCSWINSZ as usize, (&raw const size) as usize, 0, 0, 0])
    };
    check(ret).map(drop)
}

/// Stacks for the tasks of one launch, each with a guard page below it.
#[derive(Debug)]
pub(crate) struct Stacks {
    base: *mut u8,
}

/// Bytes per stack: the deepest of the tasks needs under 4 KiB optimised, about 10 KiB not.
const STACK: usize = 32 << 10;
/// The largest page size of the supported machines (aarch64 with 64 KiB pages).
const GUARD: usize = 64 << 10;

// SAFETY: it is plain memory that only the tasks of one launch use.
unsafe impl Send for Stacks {}
// SAFETY: no method gives access to the memory itself.
unsafe impl Sync for Stacks {}

impl Stacks {
    pub(crate) fn new() -> io::Result<Self> {
        let len = 2 * (GUARD + STACK.next_multiple_of(GUARD));
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stacks = Stacks { base: base.cast() };
        for n in 0..2 {
            // SAFETY: within the mapping just made.
            let ret = unsafe {
                libc::mprotect(stacks.top(n).sub(STACK).cast(), STACK, libc::PROT_READ | libc::PROT_WRITE)
            };
            if ret != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(stacks)
    }

    /// The top of stack `n` (0 or 1): 16-byte aligned, one past its last byte.
    pub(crate) fn top(&self, n: usize) -> *mut u8 {
        // SAFETY: within, or one past, the mapping.
        unsafe { self.base.add((n + 1) * (GUARD + STACK.next_multiple_of(GUARD))) }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        let len = 2 * (GUARD + STACK.next_multiple_of(GUARD));
        // SAFETY: the mapping is ours, and whoever drops it has seen the tasks on it end.
        unsafe { libc::munmap(self.base.cast(), len) };
    }
}
