//! `fs/*`: params and results.

use serde::{Deserialize, Serialize};

use crate::lenient::null_default;
use crate::path::WirePath;
use crate::process::Sandbox;

/// Params of a call that takes a path alone: `fs/readFile`, `fs/getMetadata`, `fs/readDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathParams {
    /// What it is about.
    pub path: WirePath,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResult {
    /// The whole file, base64.
    pub data_base64: String,
}

/// Params of `fs/writeFile`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// The file.
    pub path: WirePath,
    /// Its whole content, base64.
    pub data_base64: String,
    /// Permission bits of a new file, the process's umask aside; 0666 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Make missing parents.
    #[serde(default, deserialize_with = "null_default")]
    pub create_parents: bool,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/writeFile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFileResult {
    /// Whether readers saw either the old content or the new, never a part. Ours.
    #[serde(default)]
    pub atomic: bool,
}

/// Params of `fs/createDirectory`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateDirectoryParams {
    /// The directory.
    pub path: WirePath,
    /// Make parents too, and take an existing directory; the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Result of `fs/getMetadata`. A symlink is described by its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct ReadDirectoryResult {
    /// In no order.
    pub entries: Vec<DirectoryEntry>,
    /// Whether there were more than fit.
    #[serde(default)]
    pub truncated: bool,
}

/// One entry of a directory; the three flags describe a symlink's target, as `fs/getMetadata` does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// As in `process/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/copy`.
#[derive(Debug, Clone, Serialize, Deserialize)]
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

/// A result without content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}
