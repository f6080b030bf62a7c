//! `fs/*`: params and results.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::lenient::null_default;
use crate::path::WirePath;
use crate::process::Sandbox;

/// Params of a call that takes a path alone: `fs/readFile`, `fs/getMetadata`, `fs/readDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PathParams {
    /// What it is about.
    pub path: WirePath,
    /// `false`: fail on any symlink in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResult {
    /// The whole file, base64.
    pub data_base64: String,
}

/// Params of `fs/writeFile`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams<'a> {
    /// The file.
    pub path: WirePath,
    /// Its whole content, base64.
    #[serde(borrow)]
    pub data_base64: Cow<'a, str>,
    /// Permission bits of a new file, the process's umask aside; 0666 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Permission bits that the file is to have, new or not, whatever the umask. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<u32>,
    /// The time of its last change, milliseconds since 1970; now, without it. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at_ms: Option<i64>,
    /// Make missing parents.
    #[serde(default, deserialize_with = "null_default")]
    pub create_parents: bool,
    /// `false`: fail on any symlink in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/writeFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteFileResult {
    /// Whether readers saw either the old content or the new, never a part. Ours.
    #[serde(default)]
    pub atomic: bool,
}

/// Params of `fs/createDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateDirectoryParams {
    /// The directory.
    pub path: WirePath,
    /// Make parents too, and take an existing directory; the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Permission bits that it is to have where it is new, whatever the umask. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<u32>,
    /// `false`: fail on any symlink in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/getMetadata`. A symlink is described by its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
    /// The path itself is a symlink.
    pub is_symlink: bool,
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970; 0 where the file system does not tell.
    pub created_at_ms: i64,
    /// Milliseconds since 1970.
    pub modified_at_ms: i64,
    /// Permission bits. Ours, as are the rest.
    #[serde(default)]
    pub mode: u32,
    /// Owner.
    #[serde(default)]
    pub uid: u32,
    /// Group.
    #[serde(default)]
    pub gid: u32,
    /// Where a symlink points, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
}

/// Result of `fs/readDirectory`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadDirectoryResult {
    /// In no order.
    pub entries: Vec<DirectoryEntry>,
    /// Whether there were more than fit.
    #[serde(default)]
    pub truncated: bool,
}

/// One entry of a directory; the three flags describe a symlink's target, as `fs/getMetadata` does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// Its name; lossy where it is not UTF-8.
    pub file_name: String,
    /// The exact name then, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
    /// A symlink.
    pub is_symlink: bool,
}

/// Params of `fs/remove`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemoveParams {
    /// What to remove; a symlink is removed itself.
    pub path: WirePath,
    /// Remove a directory with its content; the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// A missing path is no error; the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// A symlink is never followed; `true` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/copy`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CopyParams {
    /// What to copy; symlinks are copied as symlinks.
    pub source_path: WirePath,
    /// Where to.
    pub destination_path: WirePath,
    /// Copy a directory with its content.
    #[serde(default, deserialize_with = "null_default")]
    pub recursive: bool,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/rename`. Ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RenameParams {
    /// What to rename.
    pub source_path: WirePath,
    /// Its new name.
    pub destination_path: WirePath,
    /// Replace what is there; otherwise that is an error.
    #[serde(default, deserialize_with = "null_default")]
    pub overwrite: bool,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/createSymlink`. Ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateSymlinkParams {
    /// The symlink.
    pub path: WirePath,
    /// Where it points, as it is to be written; nothing need be there.
    pub target: String,
    /// The exact target where it is not UTF-8, base64; it counts then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_base64: Option<String>,
    /// Replace a file or symlink that is there; otherwise that is an error.
    #[serde(default, deserialize_with = "null_default")]
    pub overwrite: bool,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/canonicalize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CanonicalizeResult {
    /// The path without symlinks, `.` and `..`.
    pub path: WirePath,
}

/// Params of `fs/walk`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WalkParams {
    /// Where to start; it is not among the entries itself.
    pub path: WirePath,
    /// Bounds and choices.
    #[serde(default, deserialize_with = "null_default")]
    pub options: WalkOptions,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// How to walk. The server's own caps come on top.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct WalkOptions {
    /// Levels below the start.
    pub max_depth: Option<u64>,
    /// Directories to list.
    pub max_directories: Option<u64>,
    /// Entries to give.
    pub max_entries: Option<u64>,
    /// Go into directories that a symlink leads to.
    pub follow_directory_symlinks: Option<bool>,
    /// Leave out directories whose name starts with a dot.
    pub prune_hidden_directories: Option<bool>,
    /// Describe each entry, as `fs/getMetadata` would a file. Ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<bool>,
}

/// Result of `fs/walk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkResult {
    /// What was found, parents before their children.
    pub entries: Vec<WalkEntry>,
    /// What could not be looked at; the rest is there all the same.
    pub errors: Vec<WalkError>,
    /// Whether a bound was reached.
    pub truncated: bool,
}

/// One entry of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkEntry {
    /// Where it is.
    pub path: WirePath,
    /// What it is.
    pub kind: EntryKind,
    /// More of it, where that was asked for and can be told. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// A description of an entry itself: a symlink's is not its target's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Bytes.
    pub size: u64,
    /// Milliseconds since 1970.
    pub modified_at_ms: i64,
    /// Permission bits.
    pub mode: u32,
    /// Where a symlink points, as it is written; lossy where that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    /// The exact target then, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink_target_base64: Option<String>,
}

/// What an entry is; a symlink is not described by its target here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A socket, FIFO or device.
    Other,
}

/// What a walk could not look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WalkError {
    /// Where it is.
    pub path: WirePath,
    /// What the OS said.
    pub message: String,
}

/// Params of `fs/open`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// Chosen by the client, at most [`crate::MAX_HANDLE_ID_BYTES`].
    pub handle_id: String,
    /// The file.
    pub path: WirePath,
    /// What for.
    #[serde(default, deserialize_with = "null_default")]
    pub mode: OpenMode,
    /// Permission bits that the replaced file is to have, new or not, whatever the umask. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<u32>,
    /// The time of its last change, milliseconds since 1970; the close's, without it. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at_ms: Option<i64>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OpenMode {
    /// To read it.
    #[default]
    Read,
    /// To write it anew; it takes effect at the close.
    Replace,
}

/// Params of `fs/close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CloseParams {
    /// Which.
    pub handle_id: String,
    /// Leave the old file as it is. Ours.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub discard: bool,
}

/// Result of `fs/open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Handle {
    /// Which.
    pub handle_id: String,
}

/// Params of `fs/readBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockParams {
    /// Which.
    pub handle_id: String,
    /// Where to start, bytes.
    pub offset: u64,
    /// How much, 1 to [`crate::MAX_BLOCK_BYTES`].
    pub len: u64,
}

/// Result of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadBlockResult {
    /// The bytes, base64.
    pub chunk: String,
    /// Whether the file ends within this block.
    pub eof: bool,
}

/// Params of `fs/writeBlock`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteBlockParams<'a> {
    /// Which.
    pub handle_id: String,
    /// Where to start, bytes; a gap before it reads as zeros.
    pub offset: u64,
    /// The bytes, base64, at most [`crate::MAX_BLOCK_BYTES`].
    #[serde(borrow)]
    pub chunk: Cow<'a, str>,
}

/// Params of `fs/watchMissing`: tells once when one of `missing` appears or one of `present` goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WatchMissingParams {
    /// Chosen by the client; a number from the stock client.
    pub watch_id: WatchId,
    /// Paths that do not exist.
    #[serde(default, deserialize_with = "null_default")]
    pub missing: Vec<WirePath>,
    /// Paths that do.
    #[serde(default, deserialize_with = "null_default")]
    pub present: Vec<WirePath>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// A watch's id, echoed as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum WatchId {
    /// A number.
    Number(u64),
    /// A string.
    Text(String),
}

/// Result of `fs/watchMissing` and `fs/watch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchResult {
    /// Whether a notification will come.
    pub watching: bool,
}

/// Params of `fs/unwatch`, and the notification `fs/missingChanged`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    /// Which.
    pub watch_id: WatchId,
}

/// Params of `fs/watch`: every change below a directory, until `fs/unwatch`. Ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WatchParams {
    /// Chosen by the client.
    pub watch_id: WatchId,
    /// The directory.
    pub path: WirePath,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Notification `fs/changed`. Ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedNotification {
    /// Which.
    pub watch_id: WatchId,
    /// What has changed, each path once.
    pub paths: Vec<WirePath>,
    /// Whether more has changed than is named: look at everything again.
    pub overflow: bool,
}

/// A result without content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Empty {}
