//! The attacks as data. What is in braces is a place of the arena.

use Control::{Instead, InsteadPasses, OfSomeKernels, Passes, Same, Unneeded};
use Guard::{Declared, Granted, Kept, Network, Part, Writes};

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// The row's name.
    pub name: &'static str,
    /// The hostile program's arguments.
    pub words: &'static str,
    /// What stands against it.
    pub guard: Guard,
    /// The errnos that a refusal may have; more than one where kernel and sandbox both refuse, each in its own way.
    pub errnos: &'static [&'static str],
    /// What shows that it would succeed without the sandbox.
    pub control: Control,
}

/// What stands against an attack, and so what must happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Refused under every profile on every kernel.
    Kept,
    /// Refused where this part of the receipt is `full`. Where it is not, the receipt must name the gap.
    Part(&'static str),
    /// As [`Guard::Part`], and granted by the profiles that may write.
    Writes(&'static str),
    /// Refused under the profiles without a network; granted by the others.
    Network,
    /// Stopped by nothing: each receipt names it in these words.
    Declared(&'static str),
    /// Allowed on purpose: it shows that the program works in the sandbox.
    Granted,
}

/// The positive control: the same act without the sandbox, as the same user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The same words succeed.
    Same,
    /// These words succeed: they aim at an ordinary process or place instead of the server's.
    Instead(&'static str),
    /// The same words fail for another reason than the refusal's: the kernel looked at them. Without privileges it may
    /// refuse them itself; then nothing is shown here, and the table says so.
    Passes,
    /// As [`Control::Passes`], with these words.
    InsteadPasses(&'static str),
    /// As [`Control::Passes`], of something that few kernels are built with. The others refuse it as the sandbox does;
    /// then nothing is shown here, and the table says so.
    OfSomeKernels,
    /// The row is itself a control.
    Unneeded,
}

const fn row(
    name: &'static str,
    words: &'static str,
    guard: Guard,
    errnos: &'static [&'static str],
    control: Control,
) -> Attack {
    Attack { name, words, guard, errnos, control }
}

const EACCES: &[&str] = &["EACCES"];
const EPERM: &[&str] = &["EPERM"];
const ENOSYS: &[&str] = &["ENOSYS"];
/// The kernel's DUMPABLE check says one, Landlock the other, by which is asked first.
const NO_ENTRY: &[&str] = &["EACCES", "EPERM"];
/// Landlock tells a cross-directory rename or link by EXDEV where copying might do.
const NO_LINK: &[&str] = &["EACCES", "EXDEV", "EPERM"];

const READ: Guard = Part("fsRead");
const WRITE: Guard = Part("fsWrite");

/// Every attack that is one launch with an answer.
pub const ATTACKS: &[Attack] = &[
    row("(a launch works)", "read {workspace}/file", Granted, &[], Unneeded),
    row("(a readable root is readable)", "read {home}/project/file", Granted, &[], Unneeded),
    // Reading.
    row("read the token", "read {token}", READ, EACCES, Same),
    row("list the token's directory", "list {state}", READ, EACCES, Same),
    row("read the audit trail", "read {audit}", READ, EACCES, Same),
    row("list /", "list /", READ, EACCES, Same),
    row("list /run", "list /run", READ, EACCES, Same),
    row("read below /run", "read {run_file}", READ, EACCES, Same),
    row("read it by /var/run", "read /var{run_file}", READ, EACCES, Same),
    row("list an unlisted directory", "list {outside}", READ, EACCES, Same),
    row("read an unlisted file", "read {outside}/secret", READ, EACCES, Same),
    row("read it through a symlink", "read-by-symlink {outside}/secret", READ, EACCES, Same),
    row("read it through /proc/self/root", "read-by-proc-root {outside}/secret", READ, EACCES, Same),
    row("execute an unlisted file", "exec {outside}/hostile", READ, EACCES, Same),
    row("read ~/.ssh in a readable home", "read {home}/.ssh/id", READ, EACCES, Same),
    row("list ~/.aws in a readable home", "list {home}/.aws", READ, EACCES, Same),
    row("read ~/.netrc in a readable home", "read {home}/.netrc", READ, EACCES, Same),
    row(
        "secrets in the environment",
        "environment {token_text}",
        Kept,
        &["ENOENT"],
        Instead("given-environment {token_text}"),
    ),
    row("descriptors of the server", "descriptors", Kept, &["EBADF"], Instead("given-descriptor")),
    // Writing.
    row("create outside", "create {outside}/new", WRITE, EACCES, Same),
    row("append outside", "append {outside}/secret", WRITE, EACCES, Same),
    row("append to the token", "append {token}", WRITE, EACCES, Instead("append {outside}/secret")),
    row("append to the audit trail", "append {audit}", WRITE, EACCES, Instead("append {outside}/secret")),
    row("make a nameless file outside", "tmpfile {outside}", WRITE, EACCES, Same),
    row("mkdir outside", "mkdir {outside}/new", WRITE, EACCES, Same),
    row("rmdir outside", "rmdir {outside}/empty", WRITE, EACCES, Same),
    row("unlink outside", "unlink {outside}/secret", WRITE, EACCES, Same),
    row("rename within outside", "rename {outside}/secret {outside}/new", WRITE, EACCES, Same),
    row("rename out", "rename {workspace}/file {outside}/new", WRITE, NO_LINK, Same),
    row("rename in", "rename {outside}/secret {workspace}/new", WRITE, NO_LINK, Same),
    row("hard link in", "link {outside}/secret {workspace}/new", WRITE, NO_LINK, Same),
    row("hard link out", "link {workspace}/file {outside}/new", WRITE, NO_LINK, Same),
    row("link by descriptor", "link-by-descriptor {outside}/secret {workspace}/new", WRITE, NO_LINK, Passes),
    row("symlink outside", "symlink /etc {outside}/new", WRITE, EACCES, Same),
    row("mknod a fifo outside", "mknod {outside}/new fifo", WRITE, EACCES, Same),
    row("mknod a device in the workspace", "mknod {workspace}/new char", WRITE, NO_ENTRY, Passes),
    row("bind a socket file outside", "bind-unix {outside}/new", WRITE, EACCES, Same),
    row("write to a readable root", "append {home}/project/file", WRITE, EACCES, Same),
    row("create in the workspace", "create {workspace}/new", Writes("fsWrite"), EACCES, Same),
    row("append in the workspace", "append {workspace}/file", Writes("fsWrite"), EACCES, Same),
    row("create in /tmp", "create {tmp_file}", Writes("fsWrite"), EACCES, Same),
    row("create in /dev/shm", "create {shm_file}", Writes("fsWrite"), EACCES, Same),
    row("truncate(2) a readable file", "truncate {home}/project/file", Part("truncate"), NO_ENTRY, Same),
    row("open it O_RDONLY|O_TRUNC", "open-truncate {home}/project/file", Part("truncate"), NO_ENTRY, Same),
    row("open it 3|O_TRUNC", "open-truncate-mode-3 {home}/project/file", Part("truncate"), NO_ENTRY, Same),
    row("truncate(2) an unlisted file", "truncate {outside}/secret", Part("truncate"), NO_ENTRY, Same),
    // The pseudo file systems.
    row("write /proc/sys", "open-to-write /proc/sys/kernel/core_pattern", WRITE, NO_ENTRY, Passes),
    row("write own /proc files", "open-to-write /proc/self/comm", WRITE, EACCES, Same),
    row(
        "the server's oom_score_adj",
        "open-to-write /proc/{server}/oom_score_adj",
        WRITE,
        NO_ENTRY,
        Instead("open-to-write /proc/{plain}/oom_score_adj"),
    ),
    row(
        "the server's comm",
        "open-to-write /proc/{server}/comm",
        WRITE,
        NO_ENTRY,
        Instead("open-to-write /proc/{plain}/comm"),
    ),
    row(
        "the server's clear_refs",
        "open-to-write /proc/{server}/clear_refs",
        WRITE,
        NO_ENTRY,
        Instead("open-to-write /proc/{plain}/clear_refs"),
    ),
    // Metadata.
    row("chmod a readable file", "chmod {home}/project/file", Part("metadata"), EPERM, Same),
    row("chmod outside", "chmod {outside}/secret", Part("metadata"), EPERM, Same),
    row("chown outside", "chown {outside}/secret", Part("metadata"), EPERM, Same),
    row("utimes outside", "utimes {outside}/secret", Part("metadata"), EPERM, Same),
    row("setxattr outside", "setxattr {outside}/secret", Part("metadata"), EPERM, Passes),
    row("inode flags of a readable file", "set-flags {home}/project/file", Part("metadata"), EPERM, Passes),
    row("inode xflags of a readable file", "set-xflags {home}/project/file", Part("metadata"), EPERM, Passes),
    row("btrfs subvolume in a readable root", "make-subvolume {home}/project", Kept, EPERM, Passes),
    row("stat outside", "stat {outside}/secret", Declared("looking at files outside the roots"), &[], Same),
    row(
        "readlink outside",
        "readlink {outside}/link",
        Declared("looking at files outside the roots"),
        &[],
        Same,
    ),
    row("chdir outside", "chdir {outside}", Declared("looking at files outside the roots"), &[], Same),
    row("inotify outside", "inotify {outside}", Declared("looking at files outside the roots"), &[], Same),
    // The server's process.
    row(
        "the server's environ",
        "read /proc/{server}/environ",
        Kept,
        NO_ENTRY,
        Instead("read /proc/{plain}/environ"),
    ),
    row("the server's mem", "read /proc/{server}/mem", Kept, NO_ENTRY, Instead("read /proc/{plain}/maps")),
    row("the server's maps", "read /proc/{server}/maps", Kept, NO_ENTRY, Instead("read /proc/{plain}/maps")),
    row(
        "the server's exe",
        "readlink /proc/{server}/exe",
        Kept,
        NO_ENTRY,
        Instead("readlink /proc/{plain}/exe"),
    ),
    row(
        "the server's root",
        "list /proc/{server}/root/",
        Kept,
        NO_ENTRY,
        Instead("list /proc/{plain}/root/"),
    ),
    row(
        "the server's descriptors",
        "readlink /proc/{server}/fd/0",
        Kept,
        NO_ENTRY,
        Instead("readlink /proc/{plain}/fd/0"),
    ),
    row("ptrace the server", "ptrace {server}", Kept, EPERM, Instead("ptrace {plain}")),
    row("process_vm_readv the server", "vm-read {server}", Kept, EPERM, InsteadPasses("vm-read {plain}")),
    row("process_vm_writev the server", "vm-write {server}", Kept, EPERM, InsteadPasses("vm-write {plain}")),
    row("pidfd_getfd the server", "pidfd-getfd {server}", Kept, EPERM, InsteadPasses("pidfd-getfd {plain}")),
    row("kcmp the server", "kcmp {server}", Kept, EPERM, InsteadPasses("kcmp {plain}")),
    row(
        "process_madvise the server",
        "process-madvise {server}",
        Kept,
        EPERM,
        InsteadPasses("process-madvise {plain}"),
    ),
    row("move_pages of the server", "move-pages {server}", Kept, EPERM, InsteadPasses("move-pages {plain}")),
    row(
        "migrate_pages of the server",
        "migrate-pages {server}",
        Kept,
        EPERM,
        InsteadPasses("migrate-pages {plain}"),
    ),
    row("prlimit the server", "prlimit {server}", Kept, EPERM, Instead("prlimit {plain}")),
    row("renice the server", "setpriority {server}", Kept, EPERM, Instead("setpriority {plain}")),
    // Of nobody's: it would be all of this user's processes.
    row("renice a user's processes", "setpriority-user 4242424", Kept, EPERM, Passes),
    row("ioprio_set the server", "ioprio {server}", Kept, EPERM, Instead("ioprio {plain}")),
    row("sched_setscheduler the server", "scheduler {server}", Kept, EPERM, Instead("scheduler {plain}")),
    row(
        "sched_setaffinity the server",
        "affinity {server}",
        Declared("CPU affinity of other processes"),
        &[],
        Same,
    ),
    row("System V shared memory", "system-v", Declared("shared memory and message queues"), &[], Same),
    // Its shims, and another launch.
    row("the shim's mem", "read /proc/{victim_shim}/mem", Kept, NO_ENTRY, Instead("read /proc/{plain}/maps")),
    row("ptrace a shim", "ptrace {victim_shim}", Kept, EPERM, Instead("ptrace {plain}")),
    row("process_vm_readv a shim", "vm-read {victim_shim}", Kept, EPERM, InsteadPasses("vm-read {plain}")),
    row("process_vm_writev a shim", "vm-write {victim_shim}", Kept, EPERM, InsteadPasses("vm-write {plain}")),
    row("pidfd_getfd a shim", "pidfd-getfd {victim_shim}", Kept, EPERM, InsteadPasses("pidfd-getfd {plain}")),
    row("prlimit a shim", "prlimit {victim_shim}", Kept, EPERM, Instead("prlimit {plain}")),
    row("renice a shim", "setpriority {victim_shim}", Kept, EPERM, Instead("setpriority {plain}")),
    row(
        "another launch's environ",
        "read /proc/{victim}/environ",
        READ,
        EACCES,
        Instead("read /proc/{plain}/environ"),
    ),
    row("another launch's mem", "read /proc/{victim}/mem", READ, EACCES, Instead("read /proc/{plain}/maps")),
    row(
        "another launch's descriptors",
        "readlink /proc/{victim}/fd/0",
        READ,
        EACCES,
        Instead("readlink /proc/{plain}/fd/0"),
    ),
    row("another launch's terminal", "open-terminal {terminal}", Part("pty"), EACCES, Same),
    row("another launch's command line", "read /proc/{victim}/cmdline", Declared("command lines"), &[], Same),
    row("ptrace another launch", "ptrace {victim}", Kept, EPERM, Instead("ptrace {plain}")),
    row(
        "process_vm_writev another launch",
        "vm-write {victim}",
        Kept,
        EPERM,
        InsteadPasses("vm-write {plain}"),
    ),
    row("prlimit another launch", "prlimit {victim}", Kept, EPERM, Instead("prlimit {plain}")),
    row("lower the tag: setrlimit", "lower-tag-setrlimit", Kept, EPERM, Same),
    row("lower the tag: prlimit64(0)", "lower-tag-prlimit", Kept, EPERM, Same),
    row("lower the tag: prlimit64(own pid)", "lower-tag-own-pid", Kept, EPERM, Same),
    // Signals whose refusal can be seen by their sender.
    row("kill the server", "signal kill {server} urg", Kept, EPERM, Instead("signal kill {plain} urg")),
    row("tkill the server", "signal tkill {server} urg", Kept, EPERM, Instead("signal tkill {plain} urg")),
    row("tgkill the server", "signal tgkill {server} urg", Kept, EPERM, Instead("signal tgkill {plain} urg")),
    row(
        "rt_sigqueueinfo the server",
        "signal sigqueue {server} urg",
        Kept,
        EPERM,
        Instead("signal sigqueue {plain} urg"),
    ),
    row(
        "rt_tgsigqueueinfo the server",
        "signal thread-sigqueue {server} urg",
        Kept,
        EPERM,
        Instead("signal thread-sigqueue {plain} urg"),
    ),
    row(
        "pidfd_send_signal the server",
        "signal pidfd {server} urg",
        Kept,
        EPERM,
        Instead("signal pidfd {plain} urg"),
    ),
    row(
        "kill a thread of the server",
        "signal kill {server_thread} urg",
        Part("signal"),
        EPERM,
        Instead("signal kill {plain} urg"),
    ),
    row(
        "tkill a thread of the server",
        "signal tkill {server_thread} urg",
        Part("signal"),
        EPERM,
        Instead("signal tkill {plain} urg"),
    ),
    row(
        "kill its own shim",
        "signal kill shim urg",
        Part("signal"),
        EPERM,
        Instead("signal kill {plain} urg"),
    ),
    row(
        "pidfd_send_signal another launch's shim",
        "signal pidfd {victim_shim} urg",
        Part("signal"),
        EPERM,
        Instead("signal pidfd {plain} urg"),
    ),
    row(
        "kill another launch's shim",
        "signal kill {victim_shim} urg",
        Part("signal"),
        EPERM,
        Instead("signal kill {plain} urg"),
    ),
    row(
        "kill another launch",
        "signal kill {victim} urg",
        Part("signal"),
        EPERM,
        Instead("signal kill {plain} urg"),
    ),
    row(
        "kill another launch's group",
        "signal group {victim} urg",
        Part("signal"),
        EPERM,
        Instead("signal group {plain} urg"),
    ),
    row(
        "tkill another launch",
        "signal tkill {victim} urg",
        Part("signal"),
        EPERM,
        Instead("signal tkill {plain} urg"),
    ),
    // Sockets.
    row("unix socket: abstract", "connect-abstract {abstract}", Part("unixAbstract"), EPERM, Same),
    row("unix socket: by path outside", "connect-unix {outside}/socket", Part("unixPath"), EACCES, Same),
    row("listen without bind", "listen-without-bind", Network, EPERM, Same),
    row("bind a port", "bind 127.0.0.1:0", Network, EPERM, Same),
    row("bind a port of IPv6", "bind [{ipv6}]:0", Network, EPERM, Same),
    row("inet socket: raw", "socket 2 3 1", Kept, EPERM, Passes),
    row("inet socket: MPTCP", "socket 2 1 262", Kept, EPERM, Passes),
    row("inet socket: SCTP", "socket 2 1 132", Kept, EPERM, Passes),
    row("inet socket: DCCP", "socket 2 6 33", Kept, EPERM, Passes),
    row("inet socket: packet", "socket 2 10 0", Kept, EPERM, Passes),
    row("inet6 socket: raw", "socket 10 3 58", Kept, EPERM, Passes),
    row("inet6 socket: MPTCP", "socket 10 1 262", Kept, EPERM, Passes),
    row("inet6 socket: SCTP", "socket 10 1 132", Kept, EPERM, Passes),
    row("packet socket", "socket 17 3 0", Kept, EPERM, Passes),
    row("vsock", "socket 40 1 0", Kept, EPERM, Passes),
    row("alg socket", "socket 38 5 0", Kept, EPERM, Passes),
    row("netlink: generic", "socket 16 3 16", Kept, EPERM, Passes),
    row("netlink: audit", "socket 16 3 9", Kept, EPERM, Passes),
    row("(netlink: route)", "socket 16 3 0", Granted, &[], Unneeded),
    row("tipc socket", "socket 30 1 0", Kept, EPERM, Passes),
    row("smc socket", "socket 43 1 0", Kept, EPERM, Passes),
    // The kernel's surface.
    row("unshare(NEWUSER)", "call unshare-user", Kept, EPERM, Passes),
    row("unshare(NEWNS)", "call unshare-mount", Kept, EPERM, Passes),
    row("clone(NEWUSER)", "clone-newuser", Kept, EPERM, Passes),
    row("clone3", "call clone3", Kept, ENOSYS, Passes),
    row("setns", "call setns", Kept, EPERM, Passes),
    row("io_uring_setup", "call io_uring_setup", Kept, ENOSYS, Passes),
    row("x32 call", "call x32", Kept, ENOSYS, OfSomeKernels),
    row("int 0x80", "int-0x80", Kept, &["SIGSYS"], Passes),
    row("TIOCSTI", "terminal-input 0", Kept, EPERM, Passes),
    row("TIOCSTI with high bits", "terminal-input 1", Kept, EPERM, Passes),
    row("TIOCLINUX", "terminal-console 0", Kept, EPERM, Passes),
    row("TIOCLINUX with high bits", "terminal-console 1", Kept, EPERM, Passes),
    row("PR_SET_PTRACER", "call set-ptracer", Kept, EPERM, Passes),
    row("personality READ_IMPLIES_EXEC", "call personality-read-implies-exec", Kept, EPERM, Passes),
    row("bpf", "call bpf", Kept, EPERM, Passes),
    row("keyctl", "call keyctl", Kept, EPERM, Passes),
    row("add_key", "call add_key", Kept, EPERM, Passes),
    row("request_key", "call request_key", Kept, EPERM, Passes),
    row("userfaultfd", "call userfaultfd", Kept, EPERM, Passes),
    row("perf_event_open", "call perf_event_open", Kept, EPERM, Passes),
    row("fanotify_init", "call fanotify_init", Kept, EPERM, Passes),
    row("mount", "call mount", Kept, EPERM, Passes),
    row("umount2", "call umount2", Kept, EPERM, Passes),
    row("pivot_root", "call pivot_root", Kept, EPERM, Passes),
    row("chroot", "call chroot", Kept, EPERM, Passes),
    row("open_tree", "call open_tree", Kept, EPERM, Passes),
    row("fsopen", "call fsopen", Kept, EPERM, Passes),
    row("open_by_handle_at", "call open_by_handle_at", Kept, EPERM, Passes),
    row("kexec_load", "call kexec_load", Kept, EPERM, Passes),
    row("init_module", "call init_module", Kept, EPERM, Passes),
    row("swapon", "call swapon", Kept, EPERM, Passes),
    row("syslog", "call syslog", Kept, EPERM, Passes),
    row("sethostname", "call sethostname", Kept, EPERM, Passes),
    row("clock_settime", "call clock_settime", Kept, EPERM, Passes),
    row("quotactl", "call quotactl", Kept, EPERM, Passes),
    row("modify_ldt", "call modify_ldt", Kept, EPERM, Passes),
    row("iopl", "call iopl", Kept, EPERM, Passes),
    // The sidecar's own doors.
    row(
        "its API over TCP, no token",
        "api-tcp {api}",
        Kept,
        &["401", "EPERM"],
        Instead("api-tcp {api} {token_text}"),
    ),
    row(
        "its API over TCP, a wrong token",
        "api-tcp {api} wrong",
        Kept,
        &["401", "EPERM"],
        Instead("api-tcp {api} {token_text}"),
    ),
    row("its API over the unix socket", "api-unix {state}/api.sock", Kept, &["refused"], Same),
    row(
        "listen in its place",
        "bind-same {api}",
        Kept,
        &["EADDRINUSE", "EPERM"],
        Instead("bind-same 127.0.0.1:0"),
    ),
];

/// Attacks on a server that is configured in another way.
#[derive(Debug)]
pub struct Elsewhere {
    /// More of its config.
    pub config: &'static str,
    /// Roots to read, beside the home.
    pub read_roots: &'static [&'static str],
    /// The attacks.
    pub attacks: &'static [Attack],
}

/// All of these servers.
pub const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        config: "tmp = \"private\"\nptyIsolation = \"own\"",
        read_roots: &[],
        attacks: &[
            row("(apart: its own private tmp)", "own-tmp", Granted, &[], Unneeded),
            row("(apart: its own terminal)", "own-terminal", Granted, &[], Unneeded),
            row("apart: list another's private tmp", "list {private}", READ, EACCES, Same),
            row("apart: read in another's private tmp", "read {private}/file", READ, EACCES, Same),
            row("apart: write in another's private tmp", "append {private}/file", WRITE, EACCES, Same),
            row("apart: list where they all are", "list {private}/..", READ, EACCES, Same),
            row("apart: create in /tmp", "create {tmp_file}", WRITE, EACCES, Same),
            row("apart: another launch's terminal", "open-terminal {terminal}", Part("pty"), EACCES, Same),
            row("apart: make a terminal", "open-terminal /dev/ptmx", Part("pty"), EACCES, Same),
        ],
    },
    // A device that may be read, and no more: under any other config each that may be opened is granted as a device.
    Elsewhere {
        config: "ptyIsolation = \"own\"",
        read_roots: &["/dev/pts"],
        attacks: &[
            row("device: ioctl on one to read", "ioctl-terminal {terminal}", Part("ioctlDev"), EACCES, Same),
            row("device: write to one to read", "open-terminal {terminal}", WRITE, EACCES, Same),
        ],
    },
];
