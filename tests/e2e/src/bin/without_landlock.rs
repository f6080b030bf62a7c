//! `without_landlock ERRNO COMMAND…` runs a command for which `landlock_create_ruleset` fails with ENOSYS, EOPNOTSUPP
//! or EPERM: an old kernel, one where Landlock is off, a container runtime that blocks the call.
//!
//! `without_landlock SIGNAL_SCOPE COMMAND…` runs it on a kernel whose signal scope does not hold, as vendor kernels have
//! it that claim ABI 6 without it: the proof at the start, a kill with the signal 0, succeeds in whatever scope.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let filtered = match words.next().as_deref().and_then(|word| word.to_str()) {
        Some("ENOSYS") => without(libc::ENOSYS),
        Some("EOPNOTSUPP") => without(libc::EOPNOTSUPP),
        Some("EPERM") => without(libc::EPERM),
        Some("SIGNAL_SCOPE") => unproven(),
        _ => return usage(),
    };
    let Some(program) = words.next() else { return usage() };
    if let Err(error) = filtered.and_then(|program| Ok(seccompiler::apply_filter(&program)?)) {
        eprintln!("without_landlock: {error}");
        return ExitCode::FAILURE;
    }
    eprintln!("without_landlock: {:?}: {}", program, Command::new(&program).args(words).exec());
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    eprintln!("usage: without_landlock ENOSYS|EOPNOTSUPP|EPERM|SIGNAL_SCOPE COMMAND…");
    ExitCode::from(64)
}

type Filter = Result<BpfProgram, Box<dyn std::error::Error>>;

fn without(errno: i32) -> Filter {
    filter(libc::SYS_landlock_create_ruleset, Vec::new(), errno.unsigned_abs())
}

/// `kill(pid, 0)` gives 0 without a look at the process.
fn unproven() -> Filter {
    let no_signal = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0)?;
    filter(libc::SYS_kill, vec![SeccompRule::new(vec![no_signal])?], 0)
}

fn filter(nr: i64, rules: Vec<SeccompRule>, errno: u32) -> Filter {
    let filter = SeccompFilter::new(
        BTreeMap::from([(nr, rules)]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}
