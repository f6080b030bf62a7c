//! What this kernel and container can enforce, found by trying it.

use std::fmt;

/// Why there is no Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// ENOSYS: the kernel is older than 5.13, or is gVisor.
    NotImplemented,
    /// EOPNOTSUPP: built in, but not among the LSMs enabled at boot.
    Disabled,
    /// EPERM: a seccomp filter of the container runtime refuses the call.
    Blocked,
    /// Any other errno.
    Other(i32),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::NotImplemented => f.write_str(
                "the kernel has no Landlock (ENOSYS): it is older than 5.13 or a user-space kernel such as gVisor; \
                 use nodes with Linux 5.13 or newer, without gVisor",
            ),
            Unavailable::Disabled => f.write_str(
                "Landlock is disabled at boot (EOPNOTSUPP): add landlock to the kernel's lsm= parameter of the node",
            ),
            Unavailable::Blocked => f.write_str(
                "a seccomp filter of the container runtime blocks Landlock (EPERM): use a runtime whose default \
                 profile allows landlock_create_ruleset, or a profile that does",
            ),
            Unavailable::Other(errno) => write!(f, "landlock_create_ruleset failed with errno {errno}"),
        }
    }
}

/// What this kernel and container can enforce.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The Landlock ABI in use: what was found, capped by `landlock.maxAbi`; 0 where there is none.
    pub abi: u32,
    /// The Landlock ABI that the kernel reports; 0 where there is none.
    pub reported_abi: u32,
    /// The bits of `LANDLOCK_CREATE_RULESET_ERRATA`; 0 where the kernel has no such call.
    pub errata: u32,
    /// Why there is no Landlock.
    pub unavailable: Option<Unavailable>,
    /// Whether the abstract-unix-socket scope works.
    pub scope_abstract_unix: bool,
    /// Whether the signal scope works, shown by a scoped child that could not signal this process.
    pub scope_signal: bool,
    /// `uname -r`.
    pub release: String,
}
