//! The seccomp lists as data, one reviewable file per architecture.
//!
//! Each name is the kernel's; `libc` knows most numbers, the rest are given with their value.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Numbers that are the same on every architecture and newer than `libc` knows.
pub(crate) const SYS_OPEN_TREE_ATTR: i64 = 467;
/// `setxattrat`, Linux 6.13.
pub(crate) const SYS_SETXATTRAT: i64 = 463;
/// `removexattrat`, Linux 6.13.
pub(crate) const SYS_REMOVEXATTRAT: i64 = 466;
/// `file_setattr`, Linux 6.17.
pub(crate) const SYS_FILE_SETATTR: i64 = 469;
/// `fchmodat2`, Linux 6.6; `libc` has it for some architectures only.
pub(crate) const SYS_FCHMODAT2: i64 = 452;

/// Requests of `ioctl` that get EPERM in every class, by their numbers on both architectures.
pub(crate) const DENIED_IOCTLS: &[u64] = &[
    // asm-generic/ioctls.h: typing into a terminal.
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    // linux/btrfs.h: what makes and removes trees by a descriptor that may only read, past Landlock.
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0x5000_940e, // BTRFS_IOC_SUBVOL_CREATE
    0x5000_940f, // BTRFS_IOC_SNAP_DESTROY
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x5000_9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x5000_943f, // BTRFS_IOC_SNAP_DESTROY_V2
];

/// Requests of `ioctl` that get EPERM where nothing may be written: a descriptor that may only read is enough for them.
pub(crate) const METADATA_IOCTLS: &[u64] = &[
    // linux/fs.h
    0x4008_6602, // FS_IOC_SETFLAGS
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x4008_7602, // FS_IOC_SETVERSION
    // linux/fscrypt.h, linux/fsverity.h
    0x800c_6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0x4080_6685, // FS_IOC_ENABLE_VERITY
    // linux/btrfs.h
    0x4008_941a, // BTRFS_IOC_SUBVOL_SETFLAGS
];
