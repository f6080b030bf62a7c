//! What this kernel and container can enforce, found by trying it.

use std::fmt;
use std::io;

use landlock::{ABI, Scope};

use crate::{landlock as rules, shim, sys};

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

/// Flags of `landlock_create_ruleset`, linux/landlock.h.
const QUERY_VERSION: usize = 1;
const QUERY_ERRATA: usize = 2;

impl Kernel {
    /// Asks the kernel and tries each right. `max_abi` caps what is used.
    pub fn probe(max_abi: Option<u32>) -> Kernel {
        let mut kernel = Kernel {
            abi: 0,
            reported_abi: 0,
            errata: 0,
            unavailable: None,
            scope_abstract_unix: false,
            scope_signal: false,
            release: nix::sys::utsname::uname()
                .map_or_else(|_| String::new(), |u| u.release().to_string_lossy().into()),
        };
        match sys::landlock_query(QUERY_VERSION) {
            Ok(reported) => kernel.reported_abi = reported,
            Err(e) => {
                kernel.unavailable = Some(unavailable(&e));
                return kernel;
            }
        }
        kernel.errata = sys::landlock_query(QUERY_ERRATA).unwrap_or(0);
        // Rights that a newer kernel knows and this program does not are left alone: they stay allowed.
        let wanted = kernel.reported_abi.min(max_abi.unwrap_or(u32::MAX)).min(ABI::V10 as u32);
        if wanted == 0 {
            kernel.unavailable = Some(Unavailable::NotImplemented);
            return kernel;
        }
        // A number is a claim: some vendor kernels report an ABI without all of its rights.
        kernel.abi = (1..=wanted).rev().find(|abi| rules::rights_exist(*abi).is_ok()).unwrap_or(0);
        if kernel.abi == 0 {
            kernel.unavailable = Some(Unavailable::Other(libc::EINVAL));
        }
        if kernel.abi >= 6 {
            kernel.scope_abstract_unix = rules::scope_exists(Scope::AbstractUnixSocket).is_some();
            kernel.scope_signal = rules::scope_exists(Scope::Signal)
                .is_some_and(|scope| matches!(shim::signal_is_scoped(&scope, kernel.abi), Ok(true)));
        }
        kernel
    }
}

fn unavailable(e: &io::Error) -> Unavailable {
    match e.raw_os_error() {
        Some(libc::ENOSYS) => Unavailable::NotImplemented,
        Some(libc::EOPNOTSUPP) => Unavailable::Disabled,
        Some(libc::EPERM) => Unavailable::Blocked,
        other => Unavailable::Other(other.unwrap_or(0)),
    }
}
