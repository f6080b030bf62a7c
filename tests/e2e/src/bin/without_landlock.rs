//! `without_landlock ERRNO COMMAND…` runs a command for which `landlock_create_ruleset` fails with ENOSYS, EOPNOTSUPP
//! or EPERM: an old kernel, one where Landlock is off, a container runtime that blocks the call.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let errno = match words.next().as_deref().and_then(|word| word.to_str()) {
        Some("ENOSYS") => libc::ENOSYS,
        Some("EOPNOTSUPP") => libc::EOPNOTSUPP,
        Some("EPERM") => libc::EPERM,
        _ => return usage(),
    };
    let Some(program) = words.next() else { return usage() };
    if let Err(error) = install(errno.unsigned_abs()) {
        eprintln!("without_landlock: {error}");
        return ExitCode::FAILURE;
    }
    eprintln!("without_landlock: {:?}: {}", program, Command::new(&program).args(words).exec());
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    eprintln!("usage: without_landlock ENOSYS|EOPNOTSUPP|EPERM COMMAND…");
    ExitCode::from(64)
}

fn install(errno: u32) -> Result<(), Box<dyn std::error::Error>> {
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into()?,
    )?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
    Ok(())
}
