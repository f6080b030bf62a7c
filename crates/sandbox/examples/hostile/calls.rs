//! Single system calls that a build does not need, by name, with arguments that do no harm where they get through.

use std::os::fd::AsRawFd as _;

use crate::{Outcome, c, minus, sys};

/// linux/prctl.h: "Yama".
const PR_SET_PTRACER: usize = 0x5961_6d61;
const TIOCSTI: usize = 0x5412;
const TIOCLINUX: usize = 0x541c;
/// linux/keyctl.h
const KEYCTL_GET_KEYRING_ID: usize = 0;
const NO_DESCRIPTOR: usize = minus(-1);

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    Some(match (attack, rest) {
        ("call", [name]) => sys_by_name(name)?,
        ("call", [number, args @ ..]) => {
            let args: Option<Vec<usize>> = args.iter().map(|a| a.parse().ok()).collect();
            sys(number.parse().ok()?, &args?).map(drop)
        }
        ("clone-newuser", []) => clone_newuser(),
        ("int-0x80", []) => int_0x80(),
        ("terminal-input", [high_bits]) => terminal_call(TIOCSTI, high_bits.parse().ok()?),
        ("terminal-console", [high_bits]) => terminal_call(TIOCLINUX, high_bits.parse().ok()?),
        _ => return None,
    })
}

fn sys_by_name(name: &str) -> Option<Outcome> {
    let slash = c("/");
    let slash = slash.as_ptr() as usize;
    let key = c("user");
    let key = key.as_ptr() as usize;
    let attributes = [0u64; 16];
    let attributes = attributes.as_ptr() as usize;
    let (nr, args): (libc::c_long, &[usize]) = match name {
        "unshare-user" => (libc::SYS_unshare, &[libc::CLONE_NEWUSER as usize]),
        "unshare-mount" => (libc::SYS_unshare, &[libc::CLONE_NEWNS as usize]),
        "setns" => (libc::SYS_setns, &[NO_DESCRIPTOR, 0]),
        "clone3" => (libc::SYS_clone3, &[attributes, 1]),
        "io_uring_setup" => (libc::SYS_io_uring_setup, &[0, attributes]),
        "bpf" => (libc::SYS_bpf, &[0xffff, attributes, 0]),
        "keyctl" => (libc::SYS_keyctl, &[KEYCTL_GET_KEYRING_ID, minus(-3), 0]),
        "add_key" => (libc::SYS_add_key, &[key, key, key, 4, minus(-3)]),
        "request_key" => (libc::SYS_request_key, &[key, key, 0, 0]),
        "userfaultfd" => (libc::SYS_userfaultfd, &[1]),
        "perf_event_open" => (libc::SYS_perf_event_open, &[attributes, 0, NO_DESCRIPTOR, NO_DESCRIPTOR]),
        "fanotify_init" => (libc::SYS_fanotify_init, &[0, 0]),
        "mount" => (libc::SYS_mount, &[0, 0, 0, 0, 0]),
        "umount2" => (libc::SYS_umount2, &[0, 0]),
        "pivot_root" => (libc::SYS_pivot_root, &[0, 0]),
        "chroot" => (libc::SYS_chroot, &[slash]),
        "open_tree" => (libc::SYS_open_tree, &[NO_DESCRIPTOR, slash, 0]),
        "fsopen" => (libc::SYS_fsopen, &[0, 0]),
        "open_by_handle_at" => (libc::SYS_open_by_handle_at, &[NO_DESCRIPTOR, attributes, 0]),
        "kexec_load" => (libc::SYS_kexec_load, &[0, 17, 0, 0xffff]),
        "init_module" => (libc::SYS_init_module, &[0, 0, 0]),
        "swapon" => (libc::SYS_swapon, &[0, 0]),
        "syslog" => (libc::SYS_syslog, &[10]),
        "sethostname" => (libc::SYS_sethostname, &[0, 1]),
        "clock_settime" => (libc::SYS_clock_settime, &[0, 0]),
        "quotactl" => (libc::SYS_quotactl, &[0xffff_ffff, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        "modify_ldt" => (libc::SYS_modify_ldt, &[0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        "iopl" => (libc::SYS_iopl, &[0]),
        // getpid by its number among the x32 calls.
        #[cfg(target_arch = "x86_64")]
        "x32" => (0x4000_0000 + libc::SYS_getpid, &[]),
        "set-ptracer" => (libc::SYS_prctl, &[PR_SET_PTRACER, NO_DESCRIPTOR]),
        "personality-read-implies-exec" => (libc::SYS_personality, &[0x40_0000]),
        _ => return None,
    };
    Some(sys(nr, args).map(drop))
}

fn clone_newuser() -> Outcome {
    let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as usize;
    match sys(libc::SYS_clone, &[flags, 0, 0, 0, 0])? {
        0 => {
            let _ = sys(libc::SYS_exit_group, &[0]);
            Ok(())
        }
        child => sys(libc::SYS_wait4, &[child, 0, 0, 0]).map(drop),
    }
}

/// getpid as a 32-bit program calls it.
#[cfg(target_arch = "x86_64")]
fn int_0x80() -> Outcome {
    let mut result: isize = 20;
    // SAFETY: getpid takes nothing and changes nothing; a 32-bit call keeps the upper registers but r8 to r11.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if result < 0 { Err(std::io::Error::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn int_0x80() -> Outcome {
    Err(std::io::Error::from_raw_os_error(libc::ENOSYS))
}

/// Types into a terminal of its own, or pastes; the kernel looks at the lower 32 bits of the request alone.
fn terminal_call(request: usize, high_bits: usize) -> Outcome {
    // Its end hangs up on whoever has it.
    let ignored = [1usize, 0, 0, 0];
    sys(libc::SYS_rt_sigaction, &[libc::SIGHUP as usize, ignored.as_ptr() as usize, 0, 8])?;
    let terminal = nix::pty::openpty(None, None)?;
    // As a session leader it may make it its controlling terminal, which TIOCSTI asks of those without privileges.
    let _ = nix::unistd::setsid();
    let slave = terminal.slave.as_raw_fd() as usize;
    let _ = sys(libc::SYS_ioctl, &[slave, libc::TIOCSCTTY as usize, 0]);
    sys(libc::SYS_ioctl, &[slave, (high_bits << 32) | request, b"x".as_ptr() as usize]).map(drop)
}
