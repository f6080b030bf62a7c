//! What each tool takes. The comments are what a model reads.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::Failure;

/// The arguments of `exec_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecCommand {
    /// Command line for the shell. Give this or argv.
    pub(super) cmd: Option<String>,
    /// Program and arguments, run without a shell. Give this or cmd.
    #[schemars(length(min = 1))]
    pub(super) argv: Option<Vec<String>>,
    /// Directory to run in, relative to the workspace root or absolute. Default: the workspace root.
    pub(super) workdir: Option<String>,
    /// Give the command a terminal. Needed to write to it by write_stdin; without it stdin is closed.
    #[serde(default)]
    pub(super) tty: bool,
    /// How long to wait for the command before it is left running, in milliseconds. Default 10000.
    #[schemars(range(min = 250, max = 30000))]
    pub(super) yield_time_ms: Option<u64>,
    /// Output to return at most, in tokens of 4 bytes. The middle of longer output is left out. Default 10000.
    #[schemars(range(min = 1))]
    pub(super) max_output_tokens: Option<usize>,
    /// End the command, with all that it started, after that time, in milliseconds. Default: no limit.
    #[schemars(range(min = 1))]
    pub(super) timeout_ms: Option<u64>,
}

/// The arguments of `write_stdin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteStdin {
    /// The session_id that exec_command returned.
    pub(super) session_id: u64,
    /// What to type: "\n" is Enter, "\u0003" is Ctrl-C. Empty, or left out: only look at new output.
    #[serde(default)]
    pub(super) chars: String,
    /// How long to wait for output, in milliseconds: 250 to 30000 after a write, default 250; 5000 to 300000 to only look,
    /// default 5000.
    #[schemars(range(min = 250, max = 300000))]
    pub(super) yield_time_ms: Option<u64>,
    /// Output to return at most, in tokens of 4 bytes. Default 10000.
    #[schemars(range(min = 1))]
    pub(super) max_output_tokens: Option<usize>,
}

/// The arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The file, relative to the workspace root or absolute.
    pub(super) path: String,
    /// First line to return, from 1. Default 1.
    #[schemars(range(min = 1))]
    pub(super) offset: Option<usize>,
    /// Lines to return at most. Default 2000.
    #[schemars(range(min = 1))]
    pub(super) limit: Option<usize>,
}

/// The arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// The file, relative to the workspace root or absolute. Missing directories are made.
    pub(super) path: String,
    /// All of its new content.
    pub(super) content: String,
}

/// The arguments of `apply_patch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyPatch {
    /// The patch, from "*** Begin Patch" to "*** End Patch".
    pub(super) patch: String,
}

/// The arguments of `list_dir`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDir {
    /// The directory, relative to the workspace root or absolute. Default: the workspace root.
    pub(super) path: Option<String>,
    /// Levels to list. Default 1.
    #[schemars(range(min = 1, max = 16))]
    pub(super) depth: Option<u64>,
    /// First entry to return, from 1. Default 1.
    #[schemars(range(min = 1))]
    pub(super) offset: Option<usize>,
    /// Entries to return at most. Default 200.
    #[schemars(range(min = 1, max = 2000))]
    pub(super) limit: Option<usize>,
}

/// The arguments of `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Regular expression (Rust syntax) that a line must match.
    #[schemars(length(min = 1))]
    pub(super) pattern: String,
    /// File or directory to search, relative to the workspace root or absolute. Default: the workspace root.
    pub(super) path: Option<String>,
    /// Only files that match, such as "*.rs" or "src/**/*.py".
    pub(super) glob: Option<String>,
    /// Take pattern as a text and not as an expression.
    #[serde(default)]
    pub(super) literal: bool,
    /// Upper and lower case are the same.
    #[serde(default)]
    pub(super) ignore_case: bool,
    /// Also files that .gitignore leaves out.
    #[serde(default)]
    pub(super) include_ignored: bool,
    /// Matches to return at most. Default 100.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) limit: Option<usize>,
}

/// Reads the arguments of a tool.
///
/// # Errors
/// [`Failure`] names the argument.
pub(super) fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Failure::new(format!("bad arguments: {error}; see the tool's input schema")))
}
