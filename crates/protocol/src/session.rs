//! `initialize` and `environment/*`.

use serde::{Deserialize, Serialize};

use crate::lenient;
use crate::path::WirePath;

/// Params of `initialize`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// How the client calls itself; for logs.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub client_name: String,
    /// Absent: the session ends with its connection (v0). `null`: a new session that can be resumed. A value: resume it.
    #[serde(default, deserialize_with = "lenient::present", skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<Option<String>>,
}

/// Result of `initialize`: the union of what the three generations read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// Always [`crate::PROTOCOL_VERSION`].
    #[serde(default)]
    pub protocol_version: String,
    /// The session's id.
    #[serde(default)]
    pub session_id: String,
    /// What this environment is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
}

/// Result of `environment/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusResult {
    /// `ready`
    pub status: String,
}

/// Result of `environment/info`, and part of the initialize result.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The shell that a client may start.
    pub shell: Shell,
    /// The default working directory: the workspace root.
    pub cwd: WirePath,
    /// The server's home, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<WirePath>,
    /// The directory for temporary files.
    pub temp_dir: WirePath,
    /// More of them; empty.
    #[serde(default)]
    pub temporary_directories: Vec<WirePath>,
    /// `linux`
    pub platform_os: String,
    /// The sidecar's version.
    pub executor_version: String,
    /// Folders that the server puts in front of PATH; empty.
    #[serde(default)]
    pub prepend_path_dirs: Vec<WirePath>,
    /// What the server can do beyond the base.
    pub capabilities: Capabilities,
    /// Our additions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<SidecarInfo>,
}

/// A shell on the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shell {
    /// `bash`, `sh` …
    pub name: String,
    /// Its absolute path, never a URI.
    pub path: String,
}

/// The stock client's capability flags, spelled out so that it finds each key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names are the stock client's own; this server sets three of them")]
pub struct Capabilities {
    pub network_proxy_launch: bool,
    pub network_proxy_review_domains: bool,
    pub network_proxy_transparent_tcp: bool,
    pub credential_masking: bool,
    pub credential_masking_custom_providers: bool,
    pub capability_discovery_sandbox: bool,
    pub fs_watch_missing: bool,
    #[serde(rename = "capabilityDiscoveryV2")]
    pub capability_discovery_v2: bool,
    pub environment_config_read: bool,
    pub http_header_env_vars: bool,
    pub sandboxed_file_streaming: bool,
    pub file_write_streaming: bool,
    #[serde(rename = "shellSnapshotV2")]
    pub shell_snapshot_v2: bool,
    pub windows_mxc: bool,
    pub linux_root_write_preserves_devices: bool,
    pub linux_approved_root_write_preserves_restrictions: bool,
}

/// Our additions to the environment info.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SidecarInfo {
    /// The sidecar's version.
    pub version: String,
    /// The workspace root that the cwd mapping starts from.
    pub workspace_root: WirePath,
    /// The Landlock ABI in use; 0 where there is none.
    pub landlock_abi: u32,
    /// The profiles that a launch may name.
    pub profiles: Vec<String>,
    /// The profile of a launch that names none.
    pub default_profile: String,
    /// The limits that a client may meet.
    pub limits: Limits,
}

/// Limits that a client may meet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Largest incoming message, bytes.
    pub message_bytes: u64,
    /// Output kept per process, bytes.
    pub retained_bytes: u64,
    /// Output kept per process, chunks.
    pub retained_chunks: u64,
    /// Processes of one session, exited ones that are retained among them.
    pub processes: u64,
    /// How long a session outlives its connection, seconds; 0 where it does not.
    #[serde(default)]
    pub detached_ttl_seconds: u64,
}
