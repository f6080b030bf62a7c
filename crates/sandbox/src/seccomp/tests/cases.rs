//! What is documented, written down once more and independently: the calls that are always denied by their names, and
//! for each rule about arguments the calls that it denies, with neighbours that it must let through.

use crate::seccomp::{Class, Sockets};
use crate::syscalls;

/// The server's pid in these tests: above the kernel's largest, so that a case that gets through reaches nobody.
pub(super) const SERVER: i32 = 0x40_0123;

/// Denied under every profile.
pub(super) const ALWAYS: &str = "
    kcmp pidfd_getfd process_madvise bpf perf_event_open userfaultfd keyctl add_key request_key mount umount2 pivot_root
    chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr unshare setns
    open_by_handle_at kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct
    quotactl quotactl_fd syslog sethostname setdomainname settimeofday clock_settime adjtimex clock_adjtime
    fanotify_init vhangup lookup_dcookie move_pages migrate_pages nfsservctl iopl ioperm modify_ldt uselib ustat sysfs
    _sysctl clone3 io_uring_setup io_uring_enter io_uring_register";

/// Denied in readOnly too.
pub(super) const READ_ONLY: &str = "
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat setxattr lsetxattr
    fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr";

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) nr: i64,
    pub(super) args: [u64; 6],
    /// What the filters give it; 0 where they let it through.
    pub(super) errno: i32,
    /// Whether it may be made for real.
    pub(super) harmless: bool,
}

impl Case {
    /// Number and arguments on a line.
    pub(super) fn line(&self) -> String {
        let [a, b, c, d, e, f] = self.args;
        format!("{} {a} {b} {c} {d} {e} {f}\n", self.nr)
    }
}

/// Adds cases.
struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, errno: i32, nr: i64, args: &[u64]) -> &mut Case {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        self.0.push(Case { nr, args: all, errno, harmless: true });
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    fn denied(&mut self, nr: i64, args: &[u64]) {
        self.add(libc::EPERM, nr, args);
    }

    fn allowed(&mut self, nr: i64, args: &[u64]) {
        self.add(0, nr, args);
    }

    /// Denied where `when`, let through otherwise.
    fn either(&mut self, when: bool, nr: i64, args: &[u64]) -> &mut Case {
        self.add(if when { libc::EPERM } else { 0 }, nr, args)
    }
}

/// A pointer to nothing.
const NOWHERE: u64 = 8;
const MINUS_ONE: u64 = u64::MAX;
/// As a C program passes an int: the upper half is whatever it was.
const DIRTY: u64 = 0xdead_beef << 32;
const OTHER: u64 = SERVER as u64 + 1;

/// Every case of a class.
pub(super) fn cases(class: Class) -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    for nr in syscalls::DENIED {
        cases.denied(*nr, &[]);
    }
    for nr in syscalls::ABSENT {
        cases.add(libc::ENOSYS, *nr, &[]);
    }
    for nr in syscalls::METADATA {
        // Where it gets through, this kernel may not have it yet.
        let args = [MINUS_ONE, NOWHERE, NOWHERE, NOWHERE, NOWHERE];
        cases.either(class.read_only, *nr, &args).harmless = class.read_only;
    }
    for nr in [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev] {
        cases.either(!class.debug, nr, &[0xffff, OTHER]).harmless = !class.debug;
    }
    #[cfg(target_arch = "x86_64")]
    for nr in [0x4000_0000, 0x4000_0000 + libc::SYS_getpid, 0x7fff_ffff] {
        cases.add(libc::ENOSYS, nr, &[]);
    }
    processes(&mut cases, class);
    sockets(&mut cases, class);
    old_kernels(&mut cases, class);
    cases.0
}

fn processes(cases: &mut Cases, class: Class) {
    // CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
    for bit in [0x2_0000u64, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000] {
        cases.denied(libc::SYS_clone, &[bit | 17]);
    }
    // What a thread is made with, a vfork, a fork: only judged.
    for flags in [0x3d_0f00u64, 0x4111, 17] {
        cases.add(0, libc::SYS_clone, &[flags]).harmless = false;
    }
    // TIOCSTI, TIOCLINUX, then btrfs: snapshot, subvolume create, destroy, their second versions.
    for request in
        [0x5412u64, 0x541c, 0x5000_9401, 0x5000_940e, 0x5000_940f, 0x5000_9417, 0x5000_9418, 0x5000_943f]
    {
        cases.denied(libc::SYS_ioctl, &[MINUS_ONE, request, NOWHERE]);
        cases.denied(libc::SYS_ioctl, &[MINUS_ONE, DIRTY | request, NOWHERE]);
    }
    // SETFLAGS, FSSETXATTR, SETVERSION, encryption policy, verity, btrfs flags.
    for request in [0x4008_6602u64, 0x401c_5820, 0x4008_7602, 0x800c_6613, 0x4080_6685, 0x4008_941a] {
        cases.either(class.read_only, libc::SYS_ioctl, &[MINUS_ONE, request, NOWHERE]);
    }
    // TCGETS, TIOCGWINSZ, FIONREAD, FS_IOC_GETFLAGS
    for request in [0x5401u64, 0x5413, 0x541b, 0x8008_6601] {
        cases.allowed(libc::SYS_ioctl, &[MINUS_ONE, request, NOWHERE]);
    }
    cases.denied(libc::SYS_prctl, &[0x5961_6d61, MINUS_ONE]);
    cases.allowed(libc::SYS_prctl, &[3]);
    // READ_IMPLIES_EXEC, with PER_LINUX32 too, and another system's.
    for persona in [0x40_0000u64, 0x40_0008, 0x1] {
        cases.denied(libc::SYS_personality, &[persona]);
    }
    for persona in [8u64, 0x2_0008, 0x2_0000, 0, 0xffff_ffff] {
        cases.allowed(libc::SYS_personality, &[persona]);
    }
    cases.either(!class.debug, libc::SYS_personality, &[0x4_0000]);
    let (locks, files) = (10u64, 7u64);
    cases.denied(libc::SYS_prlimit64, &[0, locks, NOWHERE, 0]);
    cases.denied(libc::SYS_prlimit64, &[OTHER, files, NOWHERE, 0]);
    cases.denied(libc::SYS_prlimit64, &[MINUS_ONE, files, NOWHERE, 0]);
    cases.allowed(libc::SYS_prlimit64, &[0, files, NOWHERE, 0]);
    cases.allowed(libc::SYS_prlimit64, &[0, locks, 0, NOWHERE]);
    cases.allowed(libc::SYS_prlimit64, &[OTHER, files, 0, NOWHERE]);
    cases.denied(libc::SYS_setrlimit, &[locks, NOWHERE]);
    cases.allowed(libc::SYS_setrlimit, &[files, NOWHERE]);
    for nr in [libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr] {
        cases.denied(nr, &[OTHER, 0, 0]);
        cases.allowed(nr, &[0, 0xff, 0]);
        // The upper half does not count.
        cases.allowed(nr, &[DIRTY, 0xff, 0]);
    }
    cases.allowed(libc::SYS_sched_setaffinity, &[OTHER, 8, NOWHERE]);
    for (nr, [of_process, of_group, of_user], value) in
        [(libc::SYS_setpriority, [0u64, 1, 2], 19u64), (libc::SYS_ioprio_set, [1, 2, 3], 0)]
    {
        cases.denied(nr, &[of_process, OTHER, 0]);
        cases.denied(nr, &[of_group, 0, 0]);
        cases.denied(nr, &[of_user, 0, 0]);
        cases.allowed(nr, &[of_process, 0, value]);
    }
}

fn sockets(cases: &mut Cases, class: Class) {
    let (unix, inet, inet6, netlink) = (1u64, 2u64, 10u64, 16u64);
    let (stream, datagram, raw, rdm, seqpacket, dccp, packet) = (1u64, 2u64, 3u64, 4u64, 5u64, 6u64, 10u64);
    let cloexec = 0x8_0000u64;
    let call = libc::SYS_socket;
    for kind in [stream, datagram, seqpacket, stream | cloexec] {
        cases.allowed(call, &[unix, kind, 0]);
    }
    cases.denied(call, &[unix, packet, 0]);
    cases.allowed(call, &[netlink, raw, 0]);
    // NETLINK_AUDIT, NETLINK_GENERIC
    cases.denied(call, &[netlink, raw, 9]);
    cases.denied(call, &[netlink, raw, 16]);
    // AX25, PACKET, TIPC, ALG, VSOCK, SMC, XDP
    for family in [3u64, 17, 30, 38, 40, 43, 44] {
        cases.denied(call, &[family, raw, 0]);
    }
    for family in [inet, inet6] {
        for kind in [raw, rdm, seqpacket, dccp, packet] {
            cases.denied(call, &[family, kind, 0]);
            cases.denied(call, &[family, kind | cloexec, 0]);
        }
        // SCTP, MPTCP
        for protocol in [132u64, 262] {
            cases.denied(call, &[family, stream, protocol]);
            cases.denied(call, &[DIRTY | family, DIRTY | stream, protocol]);
        }
        for (kind, protocol) in [(stream, 0u64), (stream, 6), (stream | cloexec, 0)] {
            cases.either(class.sockets == Sockets::Unix, call, &[family, kind, protocol]);
        }
        for (kind, protocol) in [(datagram, 0u64), (datagram, 17), (datagram | cloexec, 0)] {
            cases.either(class.sockets != Sockets::All, call, &[family, kind, protocol]);
        }
    }
    cases.allowed(libc::SYS_socketpair, &[unix, stream, 0, NOWHERE]);
    cases.denied(libc::SYS_socketpair, &[inet, stream, 0, NOWHERE]);
    // TCP_ULP of IPPROTO_TCP; TCP_NODELAY; the same number of SOL_SOCKET.
    cases.either(class.sockets == Sockets::Tcp, libc::SYS_setsockopt, &[MINUS_ONE, 6, 31, NOWHERE, 4]);
    cases.allowed(libc::SYS_setsockopt, &[MINUS_ONE, 6, 1, NOWHERE, 4]);
    cases.allowed(libc::SYS_setsockopt, &[MINUS_ONE, 1, 31, NOWHERE, 4]);
    for (nr, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        let mut args = [MINUS_ONE, NOWHERE, 1, 0];
        // With MSG_NOSIGNAL, and that alone.
        args[flags] = 0x2000_4000;
        cases.denied(nr, &args);
        args[flags] = 0x4000;
        cases.allowed(nr, &args);
    }
}

fn old_kernels(cases: &mut Cases, class: Class) {
    let no_truncate = class.abi < 3;
    cases.either(no_truncate, libc::SYS_truncate, &[NOWHERE, 0]);
    let errno = if no_truncate { libc::ENOSYS } else { 0 };
    cases.add(errno, libc::SYS_openat2, &[MINUS_ONE, NOWHERE, NOWHERE, 24]);
    for (nr, flags) in syscalls::OPENS {
        let mut open = |mode: u64, denied: bool| {
            let mut args = [if *flags == 1 { NOWHERE } else { MINUS_ONE }, NOWHERE, 0, 0];
            args[usize::from(*flags)] = mode;
            cases.either(denied, *nr, &args);
        };
        const TRUNCATE: u64 = 0x200;
        // Reading, and the mode that is neither reading nor writing.
        for mode in [0, 3] {
            open(mode | TRUNCATE, no_truncate);
            open(mode, false);
        }
        // For writing: Landlock looks at those.
        for mode in [1, 2] {
            open(mode | TRUNCATE, false);
        }
    }
    let no_scope = !class.signal_scope;
    let server = SERVER as u64;
    for pid in [server, (-SERVER) as u32 as u64, MINUS_ONE, 0xffff_ffff, DIRTY | server] {
        // To everybody, even nothing: only where it is denied.
        let everybody = pid as u32 == u32::MAX;
        cases.either(no_scope, libc::SYS_kill, &[pid, 0]).harmless = no_scope || !everybody;
    }
    cases.allowed(libc::SYS_kill, &[OTHER, 0]);
    for nr in [libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        cases.either(no_scope, nr, &[server, 0, 0, NOWHERE]);
        cases.allowed(nr, &[OTHER, 0, NOWHERE, NOWHERE]);
    }
    cases.either(no_scope, libc::SYS_pidfd_send_signal, &[MINUS_ONE, 0, 0, 0]);
}
