//! `process/*`: params, results and notifications.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::null_default;
use crate::path::WirePath;

/// Params of `process/start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// Chosen by the client, unique in its session while retained.
    pub process_id: String,
    /// The program and its arguments; no shell is put in between.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: WirePath,
    /// The environment; on top of `env_policy` where that is given.
    #[serde(default, deserialize_with = "null_default")]
    pub env: BTreeMap<String, String>,
    /// A terminal instead of pipes.
    #[serde(default, deserialize_with = "null_default")]
    pub tty: bool,
    /// What the program sees as its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg0: Option<String>,
    /// How much of the server's own environment to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<EnvPolicy>,
    /// Keep stdin open for `process/write`. A tty always is.
    #[serde(default, deserialize_with = "null_default")]
    pub pipe_stdin: bool,
    /// The terminal's size; 24×80 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Wall time that the command may take, milliseconds; its tree is ended then. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long it may be silent, milliseconds; its tree is ended then. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Resource limits. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceLimits>,
    /// How tight a sandbox; the default profile without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// The client's own notes; not interpreted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// A managed network is not offered: `true` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_managed_network: Option<bool>,
    /// Not offered: anything but `null` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<Value>,
    /// Not offered: anything but `null` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<Value>,
}

/// Resource limits of a launch. All but `processes` are each process's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// Data segment, bytes (RLIMIT_DATA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes of the tree at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Open files (RLIMIT_NOFILE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Size of a file that is written, bytes (RLIMIT_FSIZE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// CPU time, seconds (RLIMIT_CPU).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
}

/// How much of the server's own environment a launch starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvPolicy {
    /// Where to start.
    #[serde(default, deserialize_with = "null_default")]
    pub inherit: Inherit,
    /// Keep names that look like secrets.
    #[serde(default, deserialize_with = "null_default")]
    pub ignore_default_excludes: bool,
    /// Glob patterns of names to drop.
    #[serde(default, deserialize_with = "null_default")]
    pub exclude: Vec<String>,
    /// Variables to set.
    #[serde(default, deserialize_with = "null_default")]
    pub set: BTreeMap<String, String>,
    /// Glob patterns of the names to keep; empty keeps all.
    #[serde(default, deserialize_with = "null_default")]
    pub include_only: Vec<String>,
}

/// Where the environment of a launch starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Inherit {
    /// HOME, LANG, LC_*, LOGNAME, PATH, SHELL, TMPDIR, TEMP, TMP, TZ, USER.
    Core,
    /// Everything that the sidecar has, its own variables excepted.
    #[default]
    All,
    /// Nothing.
    None,
}

/// A terminal's size in character cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Default for Size {
    /// 24×80, what a VT100 has.
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// The sandbox that a request asks for. It can tighten the operator's ceiling, never loosen it. Where it has both a mode and
/// permissions, what both of them grant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// `none`, `hostDefault` or a profile's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The stock client's permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// What `current_working_directory` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<WirePath>,
    /// What `project_roots` stands for; `cwd` where it is empty.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub workspace_roots: Vec<WirePath>,
}

impl Sandbox {
    /// That profile, or mode, and nothing else.
    pub fn profile(name: impl Into<String>) -> Self {
        Self { mode: Some(name.into()), ..Self::default() }
    }
}

/// The stock client's permission profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Permissions {
    /// The server is to enforce what follows.
    Managed {
        /// What files may be touched.
        file_system: FileSystem,
        /// Whether the network may be used.
        #[serde(default)]
        network: NetworkAccess,
    },
    /// No sandbox asked for.
    Disabled,
    /// Somebody else enforces it.
    External,
}

/// The file system part of the permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystem {
    /// Only what the entries grant.
    Restricted {
        /// The grants and carve-outs.
        #[serde(default, deserialize_with = "null_default")]
        entries: Vec<FileSystemEntry>,
    },
    /// Everything.
    Unrestricted,
}

/// One grant, or carve-out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSystemEntry {
    /// What it is about.
    pub path: EntryPath,
    /// What it grants.
    pub access: Access,
    /// `skip`: leave the entry out where the path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_path_behavior: Option<String>,
}

/// What an entry is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryPath {
    /// One tree.
    Path {
        /// Its root.
        path: WirePath,
    },
    /// Every path that matches.
    GlobPattern {
        /// The pattern.
        pattern: String,
    },
    /// A place by its role.
    Special {
        /// Which.
        value: SpecialPath,
    },
}

/// A place by its role. `kind` stays a string: unknown ones are skipped and told, not refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpecialPath {
    /// root, minimal, current_working_directory, project_roots, tmpdir, slash_tmp …
    pub kind: String,
    /// A path below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subpath: Option<String>,
}

/// What an entry grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read and execute.
    Read,
    /// Read, execute and write.
    Write,
    /// Nothing.
    #[serde(alias = "none")]
    Deny,
}

/// Whether the network may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// No.
    #[default]
    Restricted,
    /// As far as the operator's ceiling goes.
    Enabled,
}

/// Result of `process/start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    /// As the request had it.
    pub process_id: String,
    /// The stock client's word for it: `none` or `linuxSeccomp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<String>,
    /// What was enforced. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
}

/// The receipt of a launch: what was enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enforcement {
    /// `full`, `partial` or `none`.
    pub status: String,
    /// The Landlock ABI in use.
    pub abi: u32,
    /// The profile's name; `custom` for translated permissions.
    pub profile: String,
    /// Each part: `full`, `partial` or `unsupported`.
    pub parts: BTreeMap<String, String>,
    /// What the network is limited to; only where the policy has a list of ports, or leaves UDP out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<LimitedNetwork>,
    /// What the policy asks for and nothing here can enforce.
    #[serde(default)]
    pub unenforced: Vec<Unenforced>,
}

/// What a network is limited to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LimitedNetwork {
    /// TCP ports that may be connected to; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_connect: Option<Vec<u16>>,
    /// TCP ports that may be bound, 0 for one of the kernel's choice; any without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_bind: Option<Vec<u16>>,
    /// Whether there is UDP, to any port.
    pub udp: bool,
}

/// Something that is not enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unenforced {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// Params of `process/read`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which process.
    pub process_id: String,
    /// Chunks after this one; 0 is from the start.
    #[serde(default, deserialize_with = "null_default")]
    pub after_seq: u64,
    /// Most payload in the answer, bytes; at least one chunk is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How long to wait for something new, milliseconds.
    #[serde(default, deserialize_with = "null_default")]
    pub wait_ms: u64,
}

/// Result of `process/read`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadResult {
    /// The output.
    pub chunks: Vec<Chunk>,
    /// One past the last seq that this answer covers.
    pub next_seq: u64,
    /// Whether the process itself has ended.
    pub exited: bool,
    /// Its exit code then; 128+n by signal n.
    pub exit_code: Option<i32>,
    /// Whether all output was delivered.
    pub closed: bool,
    /// Why the process could not be followed to its end.
    pub failure: Option<String>,
    /// A guess: the sandbox may have been in the way.
    #[serde(default)]
    pub sandbox_denied: bool,
    /// Output after `after_seq` that is no longer retained, bytes.
    #[serde(default)]
    pub dropped_bytes: u64,
}

/// One chunk of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chunk {
    /// Its number.
    pub seq: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The bytes, base64.
    pub chunk: String,
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The stdout pipe.
    Stdout,
    /// The stderr pipe.
    Stderr,
    /// The terminal.
    Pty,
}

impl Stream {
    /// All of them.
    pub const ALL: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];

    /// The name on the wire; also the metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Pty => "pty",
        }
    }
}

/// Params of `process/write`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub process_id: String,
    /// The bytes, base64.
    pub chunk: String,
    /// A repeated one is acknowledged and not applied again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// The bytes reach the process, in order.
    Accepted,
    /// There is no such process.
    UnknownProcess,
    /// Its stdin is closed, or never was open.
    StdinClosed,
    /// It has not started yet. This server waits instead.
    Starting,
}

/// Result of `process/write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteResult {
    /// v1 and v2.
    pub status: WriteStatus,
    /// v0.
    #[serde(default)]
    pub accepted: bool,
}

impl From<WriteStatus> for WriteResult {
    fn from(status: WriteStatus) -> Self {
        Self { status, accepted: status == WriteStatus::Accepted }
    }
}

/// Params of a call that names a process alone: `process/closeStdin`, `process/snapshot`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessParams {
    /// Which process.
    pub process_id: String,
}

/// Result of `process/closeStdin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CloseStdinResult {
    /// `accepted` where it was open, queued behind the writes before it.
    pub status: WriteStatus,
}

impl From<WriteStatus> for CloseStdinResult {
    fn from(status: WriteStatus) -> Self {
        Self { status }
    }
}

/// Params of `process/resize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResizeParams {
    /// Which process.
    pub process_id: String,
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// Params of `process/wait`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitParams {
    /// Which process.
    pub process_id: String,
    /// How long to wait for the end of its output, milliseconds; without it, as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Result of `process/wait`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// Whether the process itself has ended.
    pub exited: bool,
    /// Its exit code then; 128+n by signal n.
    pub exit_code: Option<i32>,
    /// The signal's name, where one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether all output was delivered.
    pub closed: bool,
}

/// Params of `process/list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ListParams {
    /// Those of every session of the same caller, not of this session alone.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// Result of `process/list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListResult {
    /// Every process of the session, or of the caller's sessions, in the order of their starts.
    pub processes: Vec<ProcessSummary>,
}

/// One process of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessSummary {
    /// Its id.
    pub process_id: String,
    /// How far it has come.
    pub state: ProcessState,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Its pid in the sidecar's pid namespace, once it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// When it was started, milliseconds since 1970.
    pub started_at_ms: u64,
    /// Its exit code, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether something that it left in the background lives on.
    #[serde(default)]
    pub background: bool,
}

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ProcessState {
    /// It is being launched.
    Starting,
    /// It runs.
    Running,
    /// It has ended; output may follow.
    Exited,
    /// All output was delivered.
    Closed,
}

/// Result of `process/snapshot`: what is retained of a process's output, by stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotResult {
    /// One entry for each stream that had output.
    pub streams: Vec<StreamSnapshot>,
    /// One past the last seq that it covers.
    pub next_seq: u64,
    /// Whether the process itself has ended.
    pub exited: bool,
    /// Its exit code then.
    pub exit_code: Option<i32>,
    /// Whether all output was delivered.
    pub closed: bool,
}

/// What is retained of one stream: `head`, then a gap of `dropped_bytes`, then `tail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StreamSnapshot {
    /// Which.
    pub stream: Stream,
    /// Its first bytes, base64.
    pub head: String,
    /// Its last bytes, base64; empty where `head` is all of it.
    pub tail: String,
    /// Bytes between the two that are gone.
    pub dropped_bytes: u64,
}

/// Params of `process/signal`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which process.
    pub process_id: String,
    /// The process's pid: it is looked for in every session of the same caller, not in this session alone. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Which signal.
    pub signal: Signal,
}

/// A signal by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Signal {
    Interrupt,
    Terminate,
    Kill,
    Hangup,
    Quit,
    User1,
    User2,
    Stop,
    Continue,
}

/// Params of `process/terminate`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which process.
    pub process_id: String,
    /// The process's pid: it is looked for in every session of the same caller, not in this session alone. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Between SIGTERM and SIGKILL, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// End what an exited command left in the background too.
    #[serde(default, deserialize_with = "null_default")]
    pub descendants: bool,
}

/// Result of `process/terminate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminateResult {
    /// Whether the command was running.
    pub running: bool,
}

/// Notification `process/output`; written by [`crate::frame::output`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutputNotification {
    /// Which process.
    pub process_id: String,
    /// Its number, contiguous from 1 over the three notifications.
    pub seq: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The bytes, base64.
    pub chunk: String,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// It exited.
    Exit,
    /// A signal that it got from elsewhere.
    Signal,
    /// Its wall time was over.
    Timeout,
    /// It was silent for too long.
    IdleTimeout,
    /// The client asked for it.
    Terminated,
    /// Its session ended.
    Disconnect,
    /// The container was short of memory.
    Oom,
    /// A limit of its own was reached.
    Limit,
}

impl Cause {
    /// The name on the wire, which metrics and the audit trail use too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Exit => "exit",
            Cause::Signal => "signal",
            Cause::Timeout => "timeout",
            Cause::IdleTimeout => "idleTimeout",
            Cause::Terminated => "terminated",
            Cause::Disconnect => "disconnect",
            Cause::Oom => "oom",
            Cause::Limit => "limit",
        }
    }

    /// Every cause.
    pub const ALL: [Cause; 8] = [
        Cause::Exit,
        Cause::Signal,
        Cause::Timeout,
        Cause::IdleTimeout,
        Cause::Terminated,
        Cause::Disconnect,
        Cause::Oom,
        Cause::Limit,
    ];
}

/// Notification `process/exited`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExitedNotification {
    /// Which process.
    pub process_id: String,
    /// Its number.
    pub seq: u64,
    /// 128+n by signal n.
    pub exit_code: i32,
    /// The signal's name, where one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Why it ended. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// A guess: the sandbox may have been in the way.
    #[serde(default)]
    pub sandbox_denied: bool,
    /// What would have been in the way, and what would grant it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Notification `process/closed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClosedNotification {
    /// Which process.
    pub process_id: String,
    /// Its number; the last.
    pub seq: u64,
}

/// Notification `process/ack`, from the client. An addition of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AckNotification {
    /// Which process.
    pub process_id: String,
    /// The client has everything up to this number; 0: nothing yet.
    pub seq: u64,
}
