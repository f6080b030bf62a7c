//! Error codes and the `data` member of an error.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Invalid request: wrong state, duplicate, unknown process or session, EINVAL, EACCES, EPERM, EROFS.
pub const INVALID_REQUEST: i64 = -32600;
/// Unknown method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Invalid params.
pub const INVALID_PARAMS: i64 = -32602;
/// Internal or OS error.
pub const INTERNAL: i64 = -32603;
/// File or handle not found.
pub const NOT_FOUND: i64 = -32004;
/// The session is attached to another connection.
pub const SESSION_ATTACHED: i64 = -32010;
/// Too many of something; `data.limit` names it. An addition of ours.
pub const LIMIT: i64 = -32011;

/// What kind of failure `data` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// The program does not exist.
    SpawnNotFound,
    /// The working directory does not exist or is no directory.
    CwdNotFound,
    /// The OS or the sandbox refused.
    PermissionDenied,
    /// The program is there but cannot be run: a directory, no known format, its interpreter is missing.
    NotExecutable,
    /// The sandbox cannot be enforced here.
    SandboxUnavailable,
    /// A limit was reached.
    Limit,
    /// A file or directory does not exist.
    NotFound,
    /// The path exists already.
    AlreadyExists,
    /// The path is of the wrong type for this call.
    WrongType,
    /// No space or quota left.
    NoSpace,
    /// Any other OS error.
    Os,
}

/// The `data` of an error. Every error from the OS carries kind, errno and path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    /// What kind of failure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// The launch step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The OS error number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// The path that it is about, in the request's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The limit that was reached, by its config key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What would grant a refused access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The `error` member of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message} ({code})")]
pub struct RpcError {
    /// One of this module's constants.
    pub code: i64,
    /// For people: names the thing and the remedy.
    pub message: String,
    /// For programs; [`ErrorData`] from this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// -32600
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// -32601
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// -32602
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// -32603
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// -32011; `limit` is the config key.
    pub fn limit(limit: &str, message: impl Into<String>) -> Self {
        Self::new(LIMIT, message).with_data(&ErrorData {
            kind: Some(ErrorKind::Limit),
            limit: Some(limit.to_owned()),
            ..ErrorData::default()
        })
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data(mut self, data: &ErrorData) -> Self {
        self.data = serde_json::to_value(data).ok();
        self
    }

    /// `data` as this server writes it, where it has that shape.
    pub fn typed_data(&self) -> Option<ErrorData> {
        self.data.as_ref().and_then(|d| ErrorData::deserialize(d).ok())
    }
}
