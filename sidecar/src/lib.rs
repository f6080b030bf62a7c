//! The exec/fs sandbox sidecar.
//!
//! Read in this order: [`config`] says what the operator chose; `server` accepts; `transport` moves messages;
//! `connection` does the handshake and hands each request to `rpc`; `session` holds the processes of one client;
//! `process` follows one of them; `fs` serves file operations on confined threads.
//!
//! The binary is a thin shell around [`Server`]; agent-client embeds the same.

mod admin;
mod audit;
mod auth;
mod caller;
pub mod check;
pub mod config;
mod connection;
mod environment;
mod fs;
mod health;
mod memory;
mod metrics;
pub mod orphans;
mod policy;
mod process;
mod relay;
mod rpc;
mod server;
mod session;
pub mod telemetry;
mod transport;

pub use auth::AuthError;
pub use health::State;
pub use server::{Server, StartError};
pub use transport::tls::TlsError;

/// The version that is reported to clients and people.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a request's `sandbox` asks for, for the fuzz target of that name.
///
/// # Errors
/// As the request would be answered.
#[cfg(fuzzing)]
pub fn sandbox_request(
    sandbox: &sidecar_protocol::process::Sandbox,
    cwd: &std::path::Path,
    options: &sidecar_sandbox::Options,
) -> Result<sidecar_sandbox::Request, sidecar_protocol::RpcError> {
    policy::request(Some(sandbox), cwd, options)
}
