//! The lists for x86_64.

use libc::*;

use super::{SYS_FCHMODAT2, SYS_FILE_SETATTR, SYS_OPEN_TREE_ATTR, SYS_REMOVEXATTRAT, SYS_SETXATTRAT};

/// EPERM in every class: the kernel's own configuration, other processes' memory and descriptors, mounts and
/// namespaces, interfaces with a history of kernel bugs.
pub(crate) const DENIED: &[i64] = &[
    // other processes
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_process_madvise,
    SYS_move_pages,
    SYS_migrate_pages,
    // large kernel interfaces
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_fanotify_init,
    // mounts and namespaces
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
    // the machine
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_vhangup,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
    // x86 only
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_uselib,
    SYS_ustat,
    SYS_sysfs,
    SYS__sysctl,
];

/// ENOSYS in every class: what a filter cannot look into. Libraries fall back.
pub(crate) const ABSENT: &[i64] =
    &[SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register];

/// EPERM where nothing may be written: metadata, which Landlock does not gate.
pub(crate) const METADATA: &[i64] = &[
    SYS_fchmod,
    SYS_fchmodat,
    SYS_FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_SETXATTRAT,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
];

/// Where `clone` has its flags.
pub(crate) const CLONE_FLAGS_ARG: u8 = 0;

/// `open` and its flags' argument, with `openat`; for the truncation hole of ABI 1 and 2.
pub(crate) const OPENS: &[(i64, u8)] = &[(SYS_open, 1), (SYS_openat, 2)];
