//! The seccomp filters: default allow, an errno for what is denied, never a kill but on a foreign architecture.
//!
//! The kernel remembers which calls a filter always allows (since Linux 5.11) and skips it for them, so the filters'
//! linear shape costs only the calls that are looked into.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use crate::error::Error;
use crate::syscalls;

/// One set of filters, installed once on the launcher thread of that class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    /// Which sockets there are.
    pub(crate) sockets: Sockets,
    /// Nothing may be written: metadata calls are denied too.
    pub(crate) read_only: bool,
    /// ptrace and process_vm_* are allowed; Landlock confines them.
    pub(crate) debug: bool,
    /// The Landlock ABI in use: what it lacks is made up for here.
    pub(crate) abi: u32,
    /// Landlock keeps signals in: not before ABI 6, and not on each kernel that claims it.
    pub(crate) signal_scope: bool,
}

/// Which sockets a launch may make. Netlink ROUTE, which tells interface names, is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sockets {
    /// Unix sockets: no network.
    Unix,
    /// Also TCP over IPv4 and IPv6, whose ports Landlock looks at.
    Tcp,
    /// Also UDP.
    All,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// "Yama" in linux/prctl.h.
const PR_SET_PTRACER: u64 = 0x5961_6d61;
const MSG_FASTOPEN: u64 = 0x2000_0000;
const SOCK_TYPE_MASK: u64 = 0xf;

/// Compiles the filters of a class; `server` is the pid that signals are kept from where the kernel cannot.
///
/// # Errors
/// A rule that does not compile: a fault of this program.
pub(crate) fn compile(class: Class, server: i32) -> Result<Vec<BpfProgram>, Error> {
    Ok(vec![
        program(permission_rules(class, server)?, libc::EPERM)?,
        // Installed last, so looked at first: its prefix keeps x32 numbers from the other.
        with_x32_guard(program(absent_rules(class), libc::ENOSYS)?),
    ])
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, Error> {
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), ARCH)
        .and_then(BpfProgram::try_from)
        .map_err(fault)
}

fn fault(e: impl std::fmt::Display) -> Error {
    Error::Kernel { step: format!("seccomp filter: {e}"), source: std::io::ErrorKind::InvalidInput.into() }
}

/// `nr >= 0x40000000 → ENOSYS`: x32 calls have the architecture of x86_64 and numbers of their own.
fn with_x32_guard(mut program: BpfProgram) -> BpfProgram {
    if cfg!(target_arch = "x86_64") {
        // From linux/bpf_common.h and linux/seccomp.h: load nr; if nr >= k goto next, else skip one; return.
        let guard = [
            sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
            sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 },
            sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS as u32 },
        ];
        program.splice(0..0, guard);
    }
    program
}

fn absent_rules(class: Class) -> Rules {
    let mut rules = Rules::new();
    rules.extend(syscalls::ABSENT.iter().map(|nr| (*nr, vec![])));
    if class.abi < 3 {
        // Its flags are in memory; without it, open and openat are used, whose flags can be looked at.
        rules.insert(libc::SYS_openat2, vec![]);
    }
    rules
}

fn permission_rules(class: Class, server: i32) -> Result<Rules, Error> {
    let mut rules = Rules::new();
    rules.extend(syscalls::DENIED.iter().map(|nr| (*nr, vec![])));
    if class.read_only {
        rules.extend(syscalls::METADATA.iter().map(|nr| (*nr, vec![])));
    }
    if !class.debug {
        for nr in [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev] {
            rules.insert(nr, vec![]);
        }
    }
    namespaces(&mut rules)?;
    terminals_and_processes(&mut rules, class)?;
    sockets(&mut rules, class)?;
    if class.abi < 3 {
        truncation(&mut rules)?;
    }
    if !class.signal_scope {
        signals(&mut rules, server)?;
    }
    Ok(rules)
}

fn namespaces(rules: &mut Rules) -> Result<(), Error> {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWCGROUP,
        // Not CLONE_NEWTIME: its bit is part of clone's exit signal, so only clone3 and unshare can ask for it.
    ];
    // One rule per bit: MaskedEq compares the whole mask.
    let rule = |bit: i32| {
        let bit = bit as u32 as u64;
        all([qword(syscalls::CLONE_FLAGS_ARG, SeccompCmpOp::MaskedEq(bit), bit)?])
    };
    let any = flags.into_iter().map(rule).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_clone, any);
    Ok(())
}

fn terminals_and_processes(rules: &mut Rules, class: Class) -> Result<(), Error> {
    // The kernel looks at 32 bits of the request, so the filter does too.
    let metadata = if class.read_only { syscalls::METADATA_IOCTLS } else { &[] };
    let requests = syscalls::DENIED_IOCTLS.iter().chain(metadata);
    let requests = requests.map(|request| all([eq(1, *request)?])).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, requests);
    rules.insert(libc::SYS_prctl, vec![all([eq(0, PR_SET_PTRACER)?])?]);

    let mut personalities = vec![0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
    if class.debug {
        personalities.push(libc::ADDR_NO_RANDOMIZE as u64);
    }
    let other = personalities.into_iter().map(|p| ne(0, p)).collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(other).map_err(fault)?]);

    let locks = libc::RLIMIT_LOCKS as u64;
    let new_limit_given = || qword(2, SeccompCmpOp::Ne, 0);
    rules.insert(
        libc::SYS_prlimit64,
        vec![all([ne(0, 0)?, new_limit_given()?])?, all([eq(1, locks)?, new_limit_given()?])?],
    );
    // A launch could lower its tag otherwise.
    rules.insert(libc::SYS_setrlimit, vec![all([eq(0, locks)?])?]);

    for nr in [libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr] {
        rules.insert(nr, vec![all([ne(0, 0)?])?]);
    }
    for nr in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        rules.insert(nr, vec![all([ne(1, 0)?])?, all([ne(0, who_process(nr))?])?]);
    }
    Ok(())
}

/// PRIO_PROCESS of setpriority, IOPRIO_WHO_PROCESS of ioprio_set.
fn who_process(nr: i64) -> u64 {
    u64::from(nr == libc::SYS_ioprio_set)
}

fn sockets(rules: &mut Rules, class: Class) -> Result<(), Error> {
    const UNIX: u64 = libc::AF_UNIX as u64;
    const INET: u64 = libc::AF_INET as u64;
    const INET6: u64 = libc::AF_INET6 as u64;
    const NETLINK: u64 = libc::AF_NETLINK as u64;
    const SOCK_PACKET: u64 = 10;

    // NETLINK_ROUTE is 0: interface names and addresses, read only without capabilities.
    let mut socket = vec![all([eq(0, NETLINK)?, ne(2, 0)?])?, all([kind(SOCK_PACKET)?])?];
    if class.sockets > Sockets::Unix {
        socket.push(all([ne(0, UNIX)?, ne(0, INET)?, ne(0, INET6)?, ne(0, NETLINK)?])?);
        for family in [INET, INET6] {
            // Raw, RDM, SEQPACKET and DCCP sockets are not under Landlock's TCP rules.
            if class.sockets == Sockets::Tcp {
                // UDP, UDP-Lite and ping: no rule of Landlock's looks at their ports.
                socket.push(all([eq(0, family)?, kind(libc::SOCK_DGRAM as u64)?])?);
            }
            for other in [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, 6] {
                socket.push(all([eq(0, family)?, kind(other as u64)?])?);
            }
            // MPTCP and SCTP streams neither.
            socket.push(all([eq(0, family)?, kind(libc::SOCK_STREAM as u64)?, ne(2, 0)?, ne(2, 6)?])?);
        }
    } else {
        socket.push(all([ne(0, UNIX)?, ne(0, NETLINK)?])?);
    }
    rules.insert(libc::SYS_socket, socket);
    rules.insert(libc::SYS_socketpair, vec![all([ne(0, UNIX)?])?]);
    if class.sockets == Sockets::Tcp {
        // An upper layer protocol may be SMC, whose connect is not under Landlock's TCP rules; which one is in memory.
        let tcp = eq(1, libc::IPPROTO_TCP as u64)?;
        rules.insert(libc::SYS_setsockopt, vec![all([tcp, eq(2, libc::TCP_ULP as u64)?])?]);
    }

    // TCP Fast Open connects in the send itself, past Landlock's connect rule.
    for (nr, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        let fast_open = dword(flags, SeccompCmpOp::MaskedEq(MSG_FASTOPEN), MSG_FASTOPEN)?;
        rules.insert(nr, vec![all([fast_open])?]);
    }
    Ok(())
}

/// ABI 1 and 2 cannot gate truncation: a readable file could be emptied.
fn truncation(rules: &mut Rules) -> Result<(), Error> {
    rules.insert(libc::SYS_truncate, vec![]);
    let mask = (libc::O_ACCMODE | libc::O_TRUNC) as u64;
    for (nr, flags) in syscalls::OPENS {
        // Access mode 3 asks for neither reading nor writing: Landlock finds no right to look for.
        let emptied = [libc::O_RDONLY, libc::O_ACCMODE].map(|mode| {
            let value = (mode | libc::O_TRUNC) as u64;
            all([dword(*flags, SeccompCmpOp::MaskedEq(mask), value)?])
        });
        rules.insert(*nr, emptied.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// Where Landlock cannot scope signals: keep them from the server at least, and from everybody at once.
fn signals(rules: &mut Rules, server: i32) -> Result<(), Error> {
    let pid = server as u32 as u64;
    let everybody = u64::from(u32::MAX);
    let group = (-server) as u32 as u64;
    rules.insert(libc::SYS_kill, vec![all([eq(0, pid)?])?, all([eq(0, group)?])?, all([eq(0, everybody)?])?]);
    for nr in [libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        rules.insert(nr, vec![all([eq(0, pid)?])?]);
    }
    // A pidfd does not tell its pid.
    rules.insert(libc::SYS_pidfd_send_signal, vec![]);
    Ok(())
}

fn all<const N: usize>(conditions: [SeccompCondition; N]) -> Result<SeccompRule, Error> {
    SeccompRule::new(conditions.to_vec()).map_err(fault)
}

fn eq(arg: u8, value: u64) -> Result<SeccompCondition, Error> {
    dword(arg, SeccompCmpOp::Eq, value)
}

fn ne(arg: u8, value: u64) -> Result<SeccompCondition, Error> {
    dword(arg, SeccompCmpOp::Ne, value)
}

/// The socket's type, its flags aside.
fn kind(value: u64) -> Result<SeccompCondition, Error> {
    dword(1, SeccompCmpOp::MaskedEq(SOCK_TYPE_MASK), value)
}

fn dword(arg: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, op, value).map_err(fault)
}

fn qword(arg: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    SeccompCondition::new(arg, SeccompCmpArgLen::Qword, op, value).map_err(fault)
}

#[cfg(test)]
mod tests;
