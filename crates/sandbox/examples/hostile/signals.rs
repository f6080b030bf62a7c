//! Signals to processes that are not the launch's, in every way that there is to send one.

use std::io;

use crate::{Outcome, minus, sys};

/// A fixed number in the kernel's siginfo that says "from user space": SI_QUEUE.
const SI_QUEUE: i32 = -1;
const F_SETOWN: usize = 8;
const F_SETSIG: usize = 10;
const F_SETOWN_EX: usize = 15;
const F_OWNER_TID: i32 = 0;
const FIOSETOWN: usize = 0x8901;

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    let ("signal", [how, pid, signal]) = (attack, rest) else { return None };
    let pid = match *pid {
        "shim" => nix::unistd::getppid().as_raw(),
        "everybody" => -1,
        pid => pid.parse().ok()?,
    };
    let target = minus(pid);
    let signal: usize = match *signal {
        "urg" => libc::SIGURG as usize,
        "kill" => libc::SIGKILL as usize,
        "stop" => libc::SIGSTOP as usize,
        _ => return None,
    };
    Some(match *how {
        "kill" => sys(libc::SYS_kill, &[target, signal]).map(drop),
        "group" => sys(libc::SYS_kill, &[minus(-pid), signal]).map(drop),
        "tkill" => sys(libc::SYS_tkill, &[target, signal]).map(drop),
        "tgkill" => sys(libc::SYS_tgkill, &[target, target, signal]).map(drop),
        "sigqueue" => queue(target, signal),
        "thread-sigqueue" => {
            let info = siginfo(signal);
            sys(libc::SYS_rt_tgsigqueueinfo, &[target, target, signal, info.as_ptr() as usize]).map(drop)
        }
        "pidfd" => sys(libc::SYS_pidfd_open, &[target, 0])
            .and_then(|fd| sys(libc::SYS_pidfd_send_signal, &[fd, signal, 0, 0]))
            .map(drop),
        "owner" => by_owner(signal, |fd| sys(libc::SYS_fcntl, &[fd, F_SETOWN, target]).map(drop)),
        "owner-ex" => by_owner(signal, |fd| {
            let owner = [F_OWNER_TID, pid];
            sys(libc::SYS_fcntl, &[fd, F_SETOWN_EX, owner.as_ptr() as usize]).map(drop)
        }),
        "owner-ioctl" => {
            by_owner(signal, |fd| sys(libc::SYS_ioctl, &[fd, FIOSETOWN, (&raw const pid) as usize]).map(drop))
        }
        _ => return None,
    })
}

fn siginfo(signal: usize) -> [i32; 32] {
    let mut info = [0i32; 32];
    info[0] = signal as i32;
    info[2] = SI_QUEUE;
    info
}

fn queue(target: usize, signal: usize) -> Outcome {
    let info = siginfo(signal);
    sys(libc::SYS_rt_sigqueueinfo, &[target, signal, info.as_ptr() as usize]).map(drop)
}

/// Makes another process the owner of a socket, and lets the kernel signal it on the socket's input.
fn by_owner(signal: usize, set_owner: impl FnOnce(usize) -> io::Result<()>) -> Outcome {
    let mut pair = [0i32; 2];
    let stream = libc::SOCK_STREAM as usize;
    sys(libc::SYS_socketpair, &[libc::AF_UNIX as usize, stream, 0, pair.as_mut_ptr() as usize])?;
    let [watched, other] = pair.map(|fd| fd as usize);
    set_owner(watched)?;
    sys(libc::SYS_fcntl, &[watched, F_SETSIG, signal])?;
    sys(libc::SYS_fcntl, &[watched, libc::F_SETFL as usize, libc::O_ASYNC as usize])?;
    sys(libc::SYS_write, &[other, b"x".as_ptr() as usize, 1]).map(drop)
}
