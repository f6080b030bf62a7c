//! What a `process/start` must look like before anything is done about it.

use std::collections::BTreeMap;
use std::ffi::CString;

use sidecar_protocol::process::{Size, StartParams};
use sidecar_protocol::{MAX_PROCESS_ID_BYTES, RpcError};
use sidecar_sandbox::Stdio;

/// Refuses what is malformed, and what is asked for and not offered: nothing is dropped in silence.
pub(super) fn check(params: &StartParams) -> Result<(), RpcError> {
    if params.process_id.is_empty() || params.process_id.len() > MAX_PROCESS_ID_BYTES {
        return Err(invalid(format!("processId must have 1 to {MAX_PROCESS_ID_BYTES} bytes")));
    }
    if params.argv.is_empty() {
        return Err(invalid("argv must not be empty"));
    }
    if params.size.is_some_and(|size| size.rows == 0 || size.cols == 0) {
        return Err(invalid("size must have at least one row and one column"));
    }
    let unoffered = [
        ("networkProxy", params.network_proxy.as_ref().is_some_and(|value| !value.is_null())),
        ("managedNetwork", params.managed_network.as_ref().is_some_and(|value| !value.is_null())),
        ("enforceManagedNetwork", params.enforce_managed_network == Some(true)),
    ];
    match unoffered.iter().find(|(_, asked)| *asked) {
        Some((name, _)) => Err(RpcError::invalid_request(format!("{name} is not offered by this server"))),
        None => Ok(()),
    }
}

/// The program and its arguments as the kernel takes them.
pub(super) fn argv(argv: &[String]) -> Result<Vec<CString>, RpcError> {
    argv.iter().map(|arg| c_string("argv", arg)).collect()
}

pub(super) fn c_string(what: &str, text: &str) -> Result<CString, RpcError> {
    CString::new(text).map_err(|_| invalid(format!("{what} must not hold a NUL byte: {text:?}")))
}

/// Names and values that an environment can hold.
pub(super) fn environment(env: &BTreeMap<String, String>) -> Result<(), RpcError> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(invalid(format!(
                "env names must not be empty, nor hold '=' or a NUL byte: {name:?}"
            )));
        }
        if value.contains('\0') {
            return Err(invalid(format!("env values must not hold a NUL byte: {name}")));
        }
    }
    Ok(())
}

pub(super) fn stdio(params: &StartParams) -> Stdio {
    if params.tty {
        let Size { rows, cols } = params.size.unwrap_or_default();
        Stdio::Pty { rows, cols }
    } else {
        Stdio::Pipes { stdin: params.pipe_stdin }
    }
}

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::invalid_params(message)
}
