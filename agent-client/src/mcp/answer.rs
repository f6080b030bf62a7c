//! Results and failures of tools, as a client gets them.

use std::fmt;

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use crate::error::Error;

/// What a tool comes to.
pub(super) type Answer = Result<CallToolResult, Failure>;

/// Why a tool did not do its work, and the remedy: a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// About a path, which not every error names.
    pub(super) fn about(path: &str, error: Error) -> Self {
        let Self(message) = error.into();
        if message.contains(path) { Self(message) } else { Self(format!("{path}: {message}")) }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.0)])
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(match error {
            // Without the method: the model knows its own tools alone.
            Error::Rpc { error, .. } => error.message,
            error => error.to_string(),
        })
    }
}

/// Text for a model, and the same for a program.
pub(super) fn both(text: String, structured: &impl Serialize) -> Answer {
    let value = serde_json::to_value(structured).map_err(|error| Failure::new(error.to_string()))?;
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(value);
    Ok(result)
}
