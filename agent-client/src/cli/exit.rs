//! Exit codes: the command's own, or which kind of failure kept it from having one.

use agent_client::Error;
use agent_client::protocol::{ErrorKind, Method};

/// A failure of agent-client or of the server.
pub(super) const OWN_FAILURE: u8 = 125;
/// Done, but for something that was told: a file that was skipped, a check that failed.
pub(super) const PARTIAL: u8 = 1;
/// The command is there and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
const NOT_FOUND: u8 = 127;

/// The exit code of a command that ended.
pub(super) fn code(exit_code: i32) -> u8 {
    u8::try_from(exit_code).unwrap_or(OWN_FAILURE)
}

/// The exit code of a failure.
pub(super) fn code_of(error: &anyhow::Error) -> u8 {
    let Some(error @ Error::Rpc { method, .. }) = error.downcast_ref::<Error>() else { return OWN_FAILURE };
    if *method != Method::ProcessStart.name() {
        return OWN_FAILURE;
    }
    let data = error.data().unwrap_or_default();
    match data.kind {
        Some(ErrorKind::SpawnNotFound) => NOT_FOUND,
        Some(ErrorKind::NotExecutable) => NOT_EXECUTABLE,
        // At any other stage it is the cwd, or the sandbox itself.
        Some(ErrorKind::PermissionDenied) if data.stage.as_deref() == Some("exec") => NOT_EXECUTABLE,
        _ => OWN_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use agent_client::protocol::{ErrorData, RpcError};

    use super::*;

    fn refused(method: &'static str, kind: ErrorKind, stage: &str) -> anyhow::Error {
        let data = ErrorData { kind: Some(kind), stage: Some(stage.to_owned()), ..ErrorData::default() };
        Error::Rpc { method, error: RpcError::internal("x").with_data(&data) }.into()
    }

    #[test]
    fn each_failure_has_its_code() {
        for (method, kind, stage, code) in [
            ("process/start", ErrorKind::SpawnNotFound, "exec", 127),
            ("process/start", ErrorKind::NotExecutable, "exec", 126),
            ("process/start", ErrorKind::PermissionDenied, "exec", 126),
            ("process/start", ErrorKind::PermissionDenied, "cwd", 125),
            ("process/start", ErrorKind::CwdNotFound, "cwd", 125),
            ("process/start", ErrorKind::SandboxUnavailable, "landlock", 125),
            ("process/signal", ErrorKind::SpawnNotFound, "exec", 125),
        ] {
            assert_eq!(code_of(&refused(method, kind, stage)), code, "{method} {kind:?} {stage}");
        }
        assert_eq!(code_of(&anyhow::anyhow!("x")), 125);
        assert_eq!(code_of(&refused("process/start", ErrorKind::SpawnNotFound, "exec").context("y")), 127);
    }

    #[test]
    fn a_code_that_no_process_can_have_is_a_failure() {
        assert_eq!((code(0), code(137), code(255), code(256), code(-1)), (0, 137, 255, 125, 125));
    }
}
