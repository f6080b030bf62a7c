//! The lists for aarch64.

use libc::*;

use super::{SYS_FCHMODAT2, SYS_FILE_SETATTR, SYS_OPEN_TREE_ATTR, SYS_REMOVEXATTRAT, SYS_SETXATTRAT};

/// libc has it for glibc alone (include/uapi/asm-generic/unistd.h).
const SYS_KEXEC_FILE_LOAD: i64 = 294;

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
    SYS_KEXEC_FILE_LOAD,
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
];

/// Where `clone` has its flags.
pub(crate) const CLONE_FLAGS_ARG: u8 = 0;

/// `open` and its flags' argument, with `openat`; for the truncation hole of ABI 1 and 2.
pub(crate) const OPENS: &[(i64, u8)] = &[(SYS_openat, 2)];

/// The kernel's numbers, by asm-generic/unistd.h. The compiler compares them with the names above; a test, which runs on
/// every architecture, compares them with that header and sees that none is left out.
const _: () = {
    assert!(SYS_open_by_handle_at == 265);
    assert!(SYS_FCHMODAT2 == 452);
    assert!(SYS_kcmp == 272);
    assert!(SYS_pidfd_getfd == 438);
    assert!(SYS_process_madvise == 440);
    assert!(SYS_move_pages == 239);
    assert!(SYS_migrate_pages == 238);
    assert!(SYS_bpf == 280);
    assert!(SYS_perf_event_open == 241);
    assert!(SYS_userfaultfd == 282);
    assert!(SYS_keyctl == 219);
    assert!(SYS_add_key == 217);
    assert!(SYS_request_key == 218);
    assert!(SYS_fanotify_init == 262);
    assert!(SYS_mount == 40);
    assert!(SYS_umount2 == 39);
    assert!(SYS_pivot_root == 41);
    assert!(SYS_chroot == 51);
    assert!(SYS_open_tree == 428);
    assert!(SYS_OPEN_TREE_ATTR == 467);
    assert!(SYS_move_mount == 429);
    assert!(SYS_fsopen == 430);
    assert!(SYS_fsconfig == 431);
    assert!(SYS_fsmount == 432);
    assert!(SYS_fspick == 433);
    assert!(SYS_mount_setattr == 442);
    assert!(SYS_unshare == 97);
    assert!(SYS_setns == 268);
    assert!(SYS_kexec_load == 104);
    assert!(SYS_KEXEC_FILE_LOAD == 294);
    assert!(SYS_init_module == 105);
    assert!(SYS_finit_module == 273);
    assert!(SYS_delete_module == 106);
    assert!(SYS_reboot == 142);
    assert!(SYS_swapon == 224);
    assert!(SYS_swapoff == 225);
    assert!(SYS_acct == 89);
    assert!(SYS_quotactl == 60);
    assert!(SYS_quotactl_fd == 443);
    assert!(SYS_syslog == 116);
    assert!(SYS_sethostname == 161);
    assert!(SYS_setdomainname == 162);
    assert!(SYS_settimeofday == 170);
    assert!(SYS_clock_settime == 112);
    assert!(SYS_adjtimex == 171);
    assert!(SYS_clock_adjtime == 266);
    assert!(SYS_vhangup == 58);
    assert!(SYS_lookup_dcookie == 18);
    assert!(SYS_nfsservctl == 42);
    assert!(SYS_clone3 == 435);
    assert!(SYS_io_uring_setup == 425);
    assert!(SYS_io_uring_enter == 426);
    assert!(SYS_io_uring_register == 427);
    assert!(SYS_fchmod == 52);
    assert!(SYS_fchmodat == 53);
    assert!(SYS_fchown == 55);
    assert!(SYS_fchownat == 54);
    assert!(SYS_utimensat == 88);
    assert!(SYS_setxattr == 5);
    assert!(SYS_lsetxattr == 6);
    assert!(SYS_fsetxattr == 7);
    assert!(SYS_SETXATTRAT == 463);
    assert!(SYS_removexattr == 14);
    assert!(SYS_lremovexattr == 15);
    assert!(SYS_fremovexattr == 16);
    assert!(SYS_REMOVEXATTRAT == 466);
    assert!(SYS_FILE_SETATTR == 469);
    assert!(SYS_openat == 56);
};
