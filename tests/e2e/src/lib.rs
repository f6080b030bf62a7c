//! End-to-end journeys: the built programs, started as a user starts them, and talked to over the wire.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scratch`] | the folders of one test: workspace, a place outside it, a home |
//! | [`programs`] | where the built programs are |
//! | [`server`] | a running `sandbox-sidecar` |
//! | [`client`] | a JSON-RPC client that hides nothing |
//! | [`http`] | one plain HTTP request |
//! | [`terminal`] | a real terminal, by tmux |
//! | [`until`] | looks again until something is so |
//!
//! It links none of the crates under test, so it cannot share a mistake with them.
//!
//! When not to add a test here: what one crate can show alone belongs to that crate, where it runs faster and fails
//! nearer to its cause.
#![expect(clippy::unwrap_used, reason = "a harness panics where a test would")]

pub mod client;
pub mod http;
pub mod programs;
pub mod scratch;
pub mod server;
pub mod terminal;
pub mod until;

pub use client::{Client, Finished};
pub use scratch::Scratch;
pub use server::Server;
pub use terminal::Terminal;
pub use until::until;

use std::time::Duration;

/// When a test gives up on something that should have come. No test passes or fails by being near it.
pub const GIVE_UP: Duration = Duration::from_secs(120);
