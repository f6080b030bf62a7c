//! The closed sets that labels come from, and which of them an error or a method belongs to.

use sidecar_protocol::error::{INTERNAL, INVALID_REQUEST, LIMIT};
use sidecar_protocol::process::Cause;
use sidecar_protocol::{ErrorKind, Method, RpcError};

use super::{Outcome, Reconnect};

pub(super) const STARTED: &str = "started";
/// Also of a launch whose answer never came.
pub(super) const SERVER_ERROR: &str = "server_error";

pub(super) const LAUNCHES: &[&str] = &[STARTED, "caller_error", "policy_refused", "limit", SERVER_ERROR];

/// The cause from a server that tells none.
pub(super) const UNKNOWN: &str = "unknown";
/// The cause where the command could not be followed to its end.
pub(super) const LOST: &str = "lost";

/// A method that is not in the protocol's table.
const OTHER: &str = "other";

/// What a launch that was refused counts as: the same that the server counts it as.
pub(super) fn refusal(error: &RpcError) -> &'static str {
    let data = error.typed_data().unwrap_or_default();
    match data.kind {
        _ if error.code == LIMIT => "limit",
        Some(ErrorKind::Limit) => "limit",
        Some(ErrorKind::SpawnNotFound | ErrorKind::CwdNotFound | ErrorKind::NotExecutable) => "caller_error",
        Some(ErrorKind::PermissionDenied) => "policy_refused",
        Some(ErrorKind::SandboxUnavailable) => SERVER_ERROR,
        // A request that the preparation of its policy refuses.
        None if error.code == INVALID_REQUEST && data.stage.is_some() => "policy_refused",
        _ if error.code == INTERNAL => SERVER_ERROR,
        _ => "caller_error",
    }
}

pub(super) fn causes() -> impl Iterator<Item = &'static str> {
    Cause::ALL.into_iter().map(Cause::name).chain([UNKNOWN, LOST])
}

pub(super) const fn tty(tty: bool) -> &'static str {
    if tty { "true" } else { "false" }
}

pub(super) fn method(name: &str) -> &'static str {
    Method::from_name(name).map_or(OTHER, Method::name)
}

pub(super) fn methods() -> impl Iterator<Item = &'static str> {
    Method::ALL.iter().map(|method| method.name()).chain([OTHER])
}

pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Error => "error",
        Outcome::Lost => "lost",
    }
}

pub(super) const fn reconnect(outcome: Reconnect) -> &'static str {
    match outcome {
        Reconnect::Resumed => "resumed",
        Reconnect::Refused => "refused",
        Reconnect::Unreachable => "unreachable",
    }
}
