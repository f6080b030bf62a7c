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
