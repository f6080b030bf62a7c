//! The limits, with their defaults.

use std::time::Duration;

use super::error::ConfigError;
use super::source::Settings;

/// What one client can make the sidecar hold, and for how long.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest incoming message, bytes.
    pub message_bytes: usize,
    /// Requests in flight per connection.
    pub requests: usize,
    /// Bytes of the requests in flight per connection; never below `message_bytes`.
    pub request_bytes: usize,
    /// Bytes of responses per connection that wait to be sent: half of it for what is read from files, half for the rest.
    /// A single one that is larger waits alone in its half.
    pub response_bytes: usize,
    /// Connections that were let in.
    pub connections: usize,
    /// Connections per listener that were not let in yet. A new one takes the place of the oldest.
    pub handshakes: usize,
    /// From accepting a connection to letting it in.
    pub handshake: Duration,
    /// From letting a client in to its `initialized`.
    pub initialize: Duration,
    /// Failures to authenticate per address and minute that are told one by one.
    pub auth_failures: usize,
    /// The same of all addresses.
    pub auth_failures_in_all: usize,
    /// Sessions, detached ones among them.
    pub sessions: usize,
    /// How long a session outlives its connection, where its client asked for that; 0: not at all.
    pub detached_ttl: Duration,
    /// Processes per session. Where it is reached, exited ones are forgotten before their time.
    pub processes: usize,
    /// Open file handles per connection.
    pub handles: usize,
    /// Watches per connection.
    pub watches: usize,
    /// Directories of one `fs/watch`.
    pub watch_directories: usize,
    /// Paths that one `fs/changed` tells; more become `overflow`.
    pub watch_events: usize,
    /// Output kept per process, bytes.
    pub retained_bytes: usize,
    /// Output kept per process, chunks.
    pub retained_chunks: usize,
    /// How long an exited process is kept.
    pub exited_ttl: Duration,
    /// How long output may be silent after an exit until it counts as over.
    pub drain: Duration,
    /// From SIGTERM to SIGKILL.
    pub terminate_grace: Duration,
    /// Between two pings.
    pub ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: sidecar_protocol::MAX_MESSAGE_BYTES,
            requests: 1024,
            request_bytes: 2 * sidecar_protocol::MAX_MESSAGE_BYTES,
            response_bytes: 1 << 20,
            connections: 64,
            handshakes: 64,
            handshake: Duration::from_secs(10),
            initialize: Duration::from_secs(30),
            auth_failures: 60,
            auth_failures_in_all: 600,
            sessions: 128,
            detached_ttl: Duration::from_secs(60),
            processes: 256,
            handles: sidecar_protocol::MAX_HANDLES,
            watches: 64,
            watch_directories: 10_000,
            watch_events: 1000,
            retained_bytes: 1 << 20,
            retained_chunks: 50_000,
            exited_ttl: Duration::from_secs(60),
            drain: Duration::from_secs(5),
            terminate_grace: Duration::from_secs(2),
            ping: Duration::from_secs(30),
        }
    }
}

/// A day; longer waits are taken for mistakes.
const MAX_SECONDS: u64 = 24 * 60 * 60;
/// The largest size that fits the semaphores which count bytes.
const MAX_BYTES: u64 = 1 << 30;
const MAX_COUNT: u64 = 1 << 20;

impl Limits {
    pub(super) fn from_settings(settings: &Settings) -> Result<Limits, ConfigError> {
        let default = Limits::default();
        let bytes = |key, min, value| Ok(settings.number(key, min, MAX_BYTES)?.unwrap_or(value));
        let count = |key, value| Ok(settings.number(key, 1, MAX_COUNT)?.unwrap_or(value));
        let seconds =
            |key, min, value| Ok(settings.number(key, min, MAX_SECONDS)?.map_or(value, Duration::from_secs));
        let message_bytes = bytes("limits.messageBytes", 4096, default.message_bytes)?;
        Ok(Limits {
            message_bytes,
            requests: count("limits.requests", default.requests)?,
            request_bytes: bytes("limits.requestBytes", 4096, default.request_bytes)?.max(message_bytes),
            response_bytes: bytes("limits.responseBytes", 65_536, default.response_bytes)?,
            connections: count("limits.connections", default.connections)?,
            handshakes: count("limits.handshakes", default.handshakes)?,
            handshake: seconds("limits.handshakeSeconds", 1, default.handshake)?,
            initialize: seconds("limits.initializeSeconds", 1, default.initialize)?,
            auth_failures: count("limits.authFailures", default.auth_failures)?,
            auth_failures_in_all: count("limits.authFailuresInAll", default.auth_failures_in_all)?,
            sessions: count("limits.sessions", default.sessions)?,
            detached_ttl: seconds("limits.detachedTtlSeconds", 0, default.detached_ttl)?,
            processes: count("limits.processes", default.processes)?,
            handles: count("limits.handles", default.handles)?,
            watches: count("limits.watches", default.watches)?,
            watch_directories: count("limits.watchDirectories", default.watch_directories)?,
            watch_events: count("limits.watchEvents", default.watch_events)?,
            retained_bytes: bytes("limits.retainedBytes", 65_536, default.retained_bytes)?,
            retained_chunks: count("limits.retainedChunks", default.retained_chunks)?,
            exited_ttl: seconds("limits.exitedTtlSeconds", 0, default.exited_ttl)?,
            drain: seconds("limits.drainSeconds", 0, default.drain)?,
            terminate_grace: seconds("limits.terminateGraceSeconds", 0, default.terminate_grace)?,
            ping: seconds("limits.pingSeconds", 1, default.ping)?,
        })
    }
}
