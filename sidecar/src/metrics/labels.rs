//! The closed sets that labels come from, and which of them an error or a method belongs to.

use sidecar_protocol::error::{INTERNAL, INVALID_PARAMS, INVALID_REQUEST, LIMIT};
use sidecar_protocol::{ErrorKind, Method, RpcError};

pub(crate) const OUTCOMES: &[&str] = &["started", "caller_error", "policy_refused", "limit", "server_error"];

pub(crate) const LAUNCH_REASONS: &[&str] = &[
    "invalid",
    "policy",
    "spawnNotFound",
    "cwdNotFound",
    "permissionDenied",
    "notExecutable",
    "sandboxUnavailable",
    "limit",
    "os",
];

pub(crate) const FS_REASONS: &[&str] =
    &["invalid", "notFound", "permissionDenied", "alreadyExists", "wrongType", "noSpace", "limit", "os"];

pub(crate) const FS_OPERATIONS: &[&str] =
    &["read", "write", "metadata", "list", "mkdir", "remove", "rename", "copy", "other"];

/// Response codes; `ok` is none of them.
pub(crate) const CODES: &[&str] =
    &["ok", "-32600", "-32601", "-32602", "-32603", "-32004", "-32010", "-32011", "other"];

pub(crate) const REJECTIONS: &[&str] = &[
    "origin",
    "draining",
    "authFailures",
    "handshakes",
    "handshakeSeconds",
    "initializeSeconds",
    "connections",
    "sessions",
    "requests",
    "requestBytes",
    "messageBytes",
    "processes",
    "handles",
    "watches",
    "watchDirectories",
    "watchEvents",
    "other",
];

pub(crate) const AUTH_REASONS: &[&str] = &["missing", "wrong", "unavailable"];
pub(crate) const AUDIT_OUTCOMES: &[&str] = &["written", "dropped", "failed"];
pub(crate) const RELOAD_OUTCOMES: &[&str] = &["ok", "failed"];
pub(crate) const STREAMS: &[&str] = &["stdout", "stderr", "pty"];

/// The outcome and the reason of a launch that did not start.
pub(crate) fn launch(error: &RpcError) -> (&'static str, &'static str) {
    let data = error.typed_data().unwrap_or_default();
    match data.kind {
        _ if error.code == LIMIT => ("limit", "limit"),
        Some(ErrorKind::Limit) => ("limit", "limit"),
        Some(ErrorKind::SpawnNotFound) => ("caller_error", "spawnNotFound"),
        Some(ErrorKind::CwdNotFound) => ("caller_error", "cwdNotFound"),
        Some(ErrorKind::NotExecutable) => ("caller_error", "notExecutable"),
        Some(ErrorKind::PermissionDenied) => ("policy_refused", "permissionDenied"),
        Some(ErrorKind::SandboxUnavailable) => ("server_error", "sandboxUnavailable"),
        // A request that the preparation of its policy refuses.
        None if error.code == INVALID_REQUEST && data.stage.is_some() => ("policy_refused", "policy"),
        _ if error.code == INTERNAL => ("server_error", "os"),
        _ => ("caller_error", "invalid"),
    }
}

/// Why a file operation failed.
pub(crate) fn fs_reason(error: &RpcError) -> &'static str {
    match error.typed_data().and_then(|data| data.kind) {
        Some(ErrorKind::NotFound) => "notFound",
        Some(ErrorKind::PermissionDenied) => "permissionDenied",
        Some(ErrorKind::AlreadyExists) => "alreadyExists",
        Some(ErrorKind::WrongType) => "wrongType",
        Some(ErrorKind::NoSpace) => "noSpace",
        Some(ErrorKind::Limit) => "limit",
        None if matches!(error.code, INVALID_PARAMS | INVALID_REQUEST) => "invalid",
        _ if error.code == LIMIT => "limit",
        _ => "os",
    }
}

/// What kind of operation a method of `fs/*` is.
pub(crate) fn fs_operation(method: Method) -> &'static str {
    match method.name() {
        "fs/readFile" | "fs/readBlock" => "read",
        "fs/writeFile" | "fs/writeBlock" => "write",
        "fs/getMetadata" | "fs/canonicalize" => "metadata",
        "fs/readDirectory" | "fs/walk" => "list",
        "fs/createDirectory" => "mkdir",
        "fs/remove" => "remove",
        "fs/rename" => "rename",
        "fs/copy" => "copy",
        _ => "other",
    }
}

/// The limit that refused a request, by the name of its key.
pub(crate) fn rejection(error: &RpcError) -> Option<&'static str> {
    let limit = if error.code == LIMIT { error.typed_data()?.limit? } else { return None };
    let name = limit.strip_prefix("limits.").unwrap_or(&limit);
    Some(REJECTIONS.iter().find(|reason| **reason == name).unwrap_or(&"other"))
}

pub(crate) const fn tty(tty: bool) -> &'static str {
    if tty { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use sidecar_protocol::ErrorData;

    use super::*;

    #[test]
    fn the_outcome_of_a_launch() {
        let with = |error: RpcError, kind, stage: Option<&str>| {
            let stage = stage.map(str::to_owned);
            launch(&error.with_data(&ErrorData { kind, stage, ..ErrorData::default() }))
        };
        assert_eq!(launch(&RpcError::invalid_params("x")), ("caller_error", "invalid"));
        assert_eq!(launch(&RpcError::invalid_request("x")), ("caller_error", "invalid"));
        assert_eq!(launch(&RpcError::internal("x")), ("server_error", "os"));
        assert_eq!(launch(&RpcError::limit("limits.processes", "x")), ("limit", "limit"));
        let internal = || RpcError::internal("x");
        assert_eq!(
            with(internal(), Some(ErrorKind::SpawnNotFound), Some("exec")),
            ("caller_error", "spawnNotFound")
        );
        assert_eq!(with(RpcError::invalid_request("x"), None, Some("prepare")), ("policy_refused", "policy"));
        assert_eq!(with(internal(), Some(ErrorKind::Os), Some("pipes")), ("server_error", "os"));
        assert_eq!(
            with(RpcError::invalid_request("x"), Some(ErrorKind::NotFound), Some("prepare")),
            ("caller_error", "invalid")
        );
    }

    #[test]
    fn every_label_is_in_its_set() {
        for method in Method::ALL {
            assert!(FS_OPERATIONS.contains(&fs_operation(*method)));
        }
        let rejected = |limit| rejection(&RpcError::limit(limit, "x"));
        assert_eq!(rejected("limits.requestBytes"), Some("requestBytes"));
        assert_eq!(rejected("limits.somethingNew"), Some("other"));
        assert_eq!(rejection(&RpcError::internal("x")), None);
    }
}
