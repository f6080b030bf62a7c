//! Everything that can go wrong. A message names the thing and the remedy.
//!
//! A message holds its cause, so `source()` has none: a chain would tell it twice.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sidecar_protocol::{ErrorData, RpcError};
use tokio_tungstenite::tungstenite;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A config file that was asked for, or that exists, cannot be read.
    #[error("cannot read the config file {}: {cause}", path.display())]
    ConfigRead {
        /// The file.
        path: PathBuf,
        /// What the OS said.
        cause: io::Error,
    },
    /// A config file is not TOML, or has an unknown key or a value of the wrong type.
    #[error("config file {}: {cause}", path.display())]
    ConfigParse {
        /// The file.
        path: PathBuf,
        /// Names the key and the line.
        cause: Box<toml::de::Error>,
    },
    /// A setting has a value that cannot be used.
    #[error("{setting}: {why}")]
    Setting {
        /// The flag, the variable, or the key and its file.
        setting: String,
        /// What is wrong and what was expected.
        why: String,
    },
    /// A path that the mapping does not cover.
    #[error(
        "{} is outside of the local root {}, which stands for {} on the sidecar's side; \
         run it from below the local root, or set local_root",
        path.display(), local_root.display(), named_or_unset(workspace_root.as_ref())
    )]
    OutsideRoot {
        /// The path.
        path: PathBuf,
        /// The local root.
        local_root: PathBuf,
        /// The workspace root, where it is known.
        workspace_root: Option<PathBuf>,
    },
    /// The path cannot be mapped, for want of the other root.
    #[error(
        "{} cannot be mapped: the server does not report its workspace root; set workspace_root to the directory \
         there that holds what {} holds here",
        path.display(), local_root.display()
    )]
    WorkspaceRootUnknown {
        /// The path.
        path: PathBuf,
        /// The local root.
        local_root: PathBuf,
    },
    /// A path on the sidecar's side that no local path stands for.
    #[error("{} on the sidecar's side lies outside of the workspace root: no local path stands for it", path.display())]
    NoCounterpart {
        /// The path.
        path: PathBuf,
    },
    /// A directory of which the server lists only a part.
    #[error("{} has more entries than the {listed} that the server lists in one answer", path.display())]
    TooManyEntries {
        /// The directory.
        path: PathBuf,
        /// What was listed.
        listed: usize,
    },
    /// A command of the tools that has ended, was forgotten to make room, or never was.
    #[error("no session {session_id}; it has ended, or made room for newer ones; run the command again")]
    UnknownSession {
        /// Its number.
        session_id: u64,
    },
    /// A local file or directory, in a transfer.
    #[error("{}: {cause}", path.display())]
    Local {
        /// Which.
        path: PathBuf,
        /// What the OS said.
        cause: io::Error,
    },
    /// The token file cannot be read.
    #[error("cannot read the token from {}: {cause}; set token_file to the file that the sidecar's token is in", path.display())]
    TokenRead {
        /// The file.
        path: PathBuf,
        /// What the OS said.
        cause: io::Error,
    },
    /// The token file holds something that no header can carry.
    #[error("the token in {} is empty or not printable ASCII; token_file must hold the token and nothing else", path.display())]
    TokenContent {
        /// The file.
        path: PathBuf,
    },
    /// Nobody listens at the URL, or the way to it is closed.
    #[error(
        "no connection to {url}: {cause}; check that sandbox-sidecar runs there and that sidecar_url is what it printed"
    )]
    Unreachable {
        /// The URL.
        url: String,
        /// What the OS said.
        cause: io::Error,
    },
    /// TCP or the WebSocket upgrade took too long.
    #[error(
        "no connection to {url} within {}; check sidecar_url and what lies between, or raise connect_timeout",
        humantime::format_duration(*after)
    )]
    ConnectTimeout {
        /// The URL.
        url: String,
        /// The limit.
        after: Duration,
    },
    /// The server wants a token, and had none or a wrong one.
    #[error("{url} refused the token (401): {}", match token_file {
        Some(path) => format!("the one in token_file {} is not the sidecar's", path.display()),
        None => "none was sent; set token_file to the file that the sidecar named when it started".to_owned(),
    })]
    Unauthorized {
        /// The URL.
        url: String,
        /// Where the token came from.
        token_file: Option<PathBuf>,
    },
    /// The port speaks TLS, and the URL does not.
    #[error("{url} leads to a port that speaks TLS; set sidecar_url to the same with wss://")]
    SpeaksTls {
        /// The URL.
        url: String,
    },
    /// No TLS with the server.
    #[error(
        "no TLS with {url}: {cause}; the port must speak TLS, and its certificate name this host and lead to one that this \
         system trusts, or to one in the file that SSL_CERT_FILE names"
    )]
    Tls {
        /// The URL.
        url: String,
        /// What went wrong.
        cause: io::Error,
    },
    /// The server answered the upgrade with another status.
    #[error(
        "{url} answered {status} instead of a WebSocket; check that sidecar_url leads to a sandbox-sidecar"
    )]
    Refused {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// What answered does not speak WebSocket.
    #[error(
        "the WebSocket handshake with {url} failed: {cause}; check that sidecar_url leads to a sandbox-sidecar"
    )]
    Upgrade {
        /// The URL.
        url: String,
        /// What went wrong.
        cause: Box<tungstenite::Error>,
    },
    /// The server did not answer `initialize` in time.
    #[error("the server did not answer initialize within {}; it may be overloaded, or raise initialize_timeout", humantime::format_duration(*after))]
    InitializeTimeout {
        /// The limit.
        after: Duration,
    },
    /// The connection ended. Every process that was open on it is told so too.
    #[error("the connection to the sidecar is lost: {reason}")]
    ConnectionLost {
        /// Why.
        reason: Arc<str>,
    },
    /// The connection was lost while the request was on its way, and it must not be sent twice. The session goes on.
    #[error(
        "{method}: the connection was lost before the answer; whether it was done is not known, look before trying again"
    )]
    Interrupted {
        /// The method that was called.
        method: &'static str,
    },
    /// A program that was to carry the connection does not start.
    #[error("cannot start {}: {cause}; it must be installed and in PATH", program.display())]
    Program {
        /// The program.
        program: OsString,
        /// What the OS said.
        cause: io::Error,
    },
    /// The server answered with an error.
    #[error("{method}: {error}")]
    Rpc {
        /// The method that was called.
        method: &'static str,
        /// What the server said.
        error: RpcError,
    },
    /// The server's answer does not have the shape of the method's result.
    #[error("{method}: the server's answer cannot be understood: {cause}")]
    Answer {
        /// The method that was called.
        method: &'static str,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// A request that is larger than a server accepts.
    #[error(
        "{method}: the request has {bytes} bytes, a message has at most {}",
        sidecar_protocol::MAX_MESSAGE_BYTES
    )]
    RequestTooLarge {
        /// The method.
        method: String,
        /// The message's size.
        bytes: usize,
    },
    /// A process of that id is open on this connection.
    #[error("process {process_id:?} is open already; ids must be unique")]
    ProcessExists {
        /// The id.
        process_id: String,
    },
    /// A write to a process that does not take any.
    #[error("the stdin of process {process_id:?} is closed")]
    StdinClosed {
        /// The process.
        process_id: String,
    },
    /// The server no longer knows the process.
    #[error("the server does not know process {process_id:?}; it may have ended long ago")]
    UnknownProcess {
        /// The process.
        process_id: String,
    },
    /// A gateway without a sidecar to lead to.
    #[error("a gateway needs a sidecar to lead to; set sidecar_url or kube")]
    GatewayNeedsSidecar,
    /// The gateway cannot listen there.
    #[error("the gateway cannot listen at {addr}: {cause}; choose a free IP:PORT of this host")]
    GatewayListen {
        /// The address.
        addr: SocketAddr,
        /// What the OS said.
        cause: io::Error,
    },
    /// A gateway that would let anybody in from other hosts.
    #[error(
        "without a token the gateway listens on loopback alone, which {addr} is not; give it a token file"
    )]
    GatewayOpen {
        /// The address.
        addr: SocketAddr,
    },
    /// A client of the gateway broke the protocol.
    #[error("the client broke the protocol: {0}")]
    ClientProtocol(String),
    /// The metrics cannot be registered, or encoded.
    #[error("metrics: {0}; a registry takes the metrics of one client")]
    Metrics(prometheus::Error),
    /// The metrics cannot be served there.
    #[error("cannot serve metrics at {addr}: {cause}; set metrics_listen to a free IP:PORT of this host")]
    MetricsListen {
        /// The address.
        addr: SocketAddr,
        /// What the OS said.
        cause: io::Error,
    },
    /// The metrics cannot be left in that file.
    #[error("cannot write the metrics to {}: {cause}; set metrics_file to a file in a directory that can be written", path.display())]
    MetricsFile {
        /// The file.
        path: PathBuf,
        /// What the OS said.
        cause: io::Error,
    },
    /// The embedded sidecar does not take the local root for its workspace.
    #[cfg(target_os = "linux")]
    #[error("no embedded sidecar for {}: {cause}; local_root must be a directory that exists", root.display())]
    EmbeddedConfig {
        /// The local root.
        root: PathBuf,
        /// What the sidecar says.
        cause: Box<sandbox_sidecar::config::ConfigError>,
    },
    /// The embedded sidecar does not start.
    #[cfg(target_os = "linux")]
    #[error(
        "the embedded sidecar does not start: {cause}; `sandbox-sidecar check` tells what this system can enforce, \
         and sidecar_url would lead to a sidecar elsewhere"
    )]
    EmbeddedStart {
        /// What the sidecar says.
        cause: Box<sandbox_sidecar::StartError>,
    },
    /// This platform has no embedded sidecar.
    #[cfg(not(target_os = "linux"))]
    #[error("the embedded sidecar needs Linux; set sidecar_url to a sidecar that runs elsewhere")]
    NoEmbedded,
}

impl Error {
    /// The `data` of the server's error, where it is one and has any.
    pub fn data(&self) -> Option<ErrorData> {
        match self {
            Error::Rpc { error, .. } => error.typed_data(),
            _ => None,
        }
    }
}

fn named_or_unset(root: Option<&PathBuf>) -> String {
    root.map_or_else(|| "an unset workspace_root".to_owned(), |root| root.display().to_string())
}
