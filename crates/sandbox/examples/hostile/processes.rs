//! Attacks on another process by its pid: its memory, descriptors, limits, priority; and on the launch's own tag.

use std::ffi::OsStr;
use std::fs;
use std::io::Error;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::{Outcome, sys};

const PTRACE_SEIZE: usize = 0x4206;
const KCMP_FILE: usize = 0;
const MADV_COLD: usize = 20;
const IOPRIO_WHO_PROCESS: usize = 1;
/// Class best-effort, level 7: the lowest that anybody may choose.
const IOPRIO_LOWEST: usize = (2 << 13) | 7;
const SCHED_BATCH: usize = 3;
const SHM_KEY: usize = 0x686f_7374;

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    if let Some(outcome) = own(attack, rest) {
        return Some(outcome);
    }
    let [pid] = rest else { return None };
    let pid: usize = pid.parse().ok()?;
    let own = std::process::id() as usize;
    Some(match attack {
        // Seized and not attached: the target does not stop, and is let go when this process ends.
        "ptrace" => sys(libc::SYS_ptrace, &[PTRACE_SEIZE, pid, 0, 0]).map(drop),
        "vm-read" => vm(libc::SYS_process_vm_readv, pid),
        "vm-write" => vm(libc::SYS_process_vm_writev, pid),
        "pidfd-getfd" => pidfd(pid).and_then(|fd| sys(libc::SYS_pidfd_getfd, &[fd, 0, 0]).map(drop)),
        "kcmp" => sys(libc::SYS_kcmp, &[own, pid, KCMP_FILE, 0, 0]).map(drop),
        "process-madvise" => madvise(pid),
        "move-pages" => sys(libc::SYS_move_pages, &[pid, 0, 0, 0, 0, 0]).map(drop),
        "migrate-pages" => sys(libc::SYS_migrate_pages, &[pid, 0, 0, 0]).map(drop),
        "prlimit" => prlimit(pid, libc::RLIMIT_NOFILE as usize),
        "setpriority" => sys(libc::SYS_setpriority, &[libc::PRIO_PROCESS as usize, pid, 19]).map(drop),
        "setpriority-user" => sys(libc::SYS_setpriority, &[libc::PRIO_USER as usize, pid, 19]).map(drop),
        "ioprio" => sys(libc::SYS_ioprio_set, &[IOPRIO_WHO_PROCESS, pid, IOPRIO_LOWEST]).map(drop),
        "scheduler" => {
            let priority = 0i32;
            sys(libc::SYS_sched_setscheduler, &[pid, SCHED_BATCH, (&raw const priority) as usize]).map(drop)
        }
        "affinity" => affinity(pid),
        _ => return None,
    })
}

fn own(attack: &str, rest: &[&str]) -> Option<Outcome> {
    let locks = libc::RLIMIT_LOCKS as usize;
    let zero = [0u64; 2];
    let zero = zero.as_ptr() as usize;
    Some(match (attack, rest) {
        ("lower-tag-setrlimit", []) => sys(libc::SYS_setrlimit, &[locks, zero]).map(drop),
        ("lower-tag-prlimit", []) => sys(libc::SYS_prlimit64, &[0, locks, zero, 0]).map(drop),
        ("lower-tag-own-pid", []) => {
            sys(libc::SYS_prlimit64, &[std::process::id() as usize, locks, zero, 0]).map(drop)
        }
        ("descriptors", []) => descriptors(),
        // Made and removed again: what one launch makes, another of the same user finds by its key.
        ("system-v", []) => sys(libc::SYS_shmget, &[SHM_KEY, 4096, (libc::IPC_CREAT | 0o600) as usize])
            .and_then(|id| sys(libc::SYS_shmctl, &[id, libc::IPC_RMID as usize, 0]).map(drop)),
        ("environment", [secret]) => environment(secret),
        // As it would be if a server were careless.
        ("given-environment", [secret]) => again(&["environment", secret], |command| {
            command.env("GIVEN", secret);
        }),
        ("given-descriptor", []) => sys(libc::SYS_dup, &[0]).and_then(|_| again(&["descriptors"], |_| ())),
        _ => return None,
    })
}

fn pidfd(pid: usize) -> std::io::Result<usize> {
    sys(libc::SYS_pidfd_open, &[pid, 0])
}

/// Reads, or writes, nothing that matters: the address is this program's. Another layout there means EFAULT, and that
/// the door was open.
fn vm(nr: libc::c_long, pid: usize) -> Outcome {
    let mut byte = 0u8;
    let vector = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let vector = (&raw const vector) as usize;
    let nowhere = libc::iovec { iov_base: std::ptr::without_provenance_mut(8), iov_len: 1 };
    match sys(nr, &[pid, vector, 1, (&raw const nowhere) as usize, 1, 0]) {
        Err(e) if e.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        other => other.map(drop),
    }
}

fn madvise(pid: usize) -> Outcome {
    let nowhere = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    sys(libc::SYS_process_madvise, &[pidfd(pid)?, (&raw const nowhere) as usize, 1, MADV_COLD, 0]).map(drop)
}

/// Sets a limit to what it is.
fn prlimit(pid: usize, resource: usize) -> Outcome {
    let mut limit = [0u64; 2];
    // Of this process: to read another's asks for the same rights as to set it.
    sys(libc::SYS_prlimit64, &[0, resource, 0, limit.as_mut_ptr() as usize])?;
    sys(libc::SYS_prlimit64, &[pid, resource, limit.as_ptr() as usize, 0]).map(drop)
}

/// Sets the CPUs of another process to those of this one.
fn affinity(pid: usize) -> Outcome {
    let mut mask = [0u64; 128];
    let len = sys(libc::SYS_sched_getaffinity, &[0, size_of_val(&mask), mask.as_mut_ptr() as usize])?;
    sys(libc::SYS_sched_setaffinity, &[pid, len, mask.as_ptr() as usize]).map(drop)
}

/// Whether this process was given descriptors beside its stdio.
fn descriptors() -> Outcome {
    let listing = fs::read_dir("/proc/self/fd")?;
    let open: Vec<i32> =
        listing.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The listing itself is one, and closed by now.
    let given = open.into_iter().filter(|fd| *fd > 2 && sys(libc::SYS_fcntl, &[*fd as usize, 1]).is_ok());
    given.map(|_| ()).next().ok_or_else(|| Error::from_raw_os_error(libc::EBADF))
}

/// Becomes this program with another attack, and with what is given to it.
fn again(words: &[&str], give: impl FnOnce(&mut Command)) -> Outcome {
    let mut command = Command::new("/proc/self/exe");
    give(command.args(words));
    Err(command.exec())
}

/// Whether the environment holds a secret, or anything of the server's own.
fn environment(secret: &str) -> Outcome {
    let holds = |text: &OsStr, part: &str| text.as_bytes().windows(part.len()).any(|w| w == part.as_bytes());
    let found = std::env::vars_os().any(|(name, value)| {
        holds(&value, secret) || holds(&name, "SANDBOX_SIDECAR") || holds(&name, "TOKEN")
    });
    if found { Ok(()) } else { Err(Error::from_raw_os_error(libc::ENOENT)) }
}
