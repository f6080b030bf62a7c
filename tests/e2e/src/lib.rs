//! End-to-end journeys: the built programs, started as a user starts them, and talked to over the wire.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scratch`] | the folders of one test: workspace, a place outside it, a home |
//! | [`programs`] | where the built programs are |
//! | [`server`] | a running `sandbox-sidecar` |
//! | [`client`] | a JSON-RPC client that hides nothing |
//! | [`http`] | one plain HTTP request |
//! | [`scrape`] | what a scrape of the metrics tells |
//! | [`gateway`] | a running `agent-client gateway` |
//! | [`mcp`] | a running `agent-client mcp` |
//! | [`page`] | pages of docs/ as a reader follows them |
//! | [`proxy`] | a proxy that cuts connections |
//! | [`stock`] | the stock CLI with a scripted model |
//! | [`attack`] | the attack suite, which its own program runs |
//! | [`terminal`] | a real terminal, by tmux |
//! | [`found`] | looks again until something is there |
//!
//! It links none of the crates under test, so it cannot share a mistake with them.
//!
//! When not to add a test here: what one crate can show alone belongs to that crate, where it runs faster and fails
//! nearer to its cause.
#![expect(clippy::unwrap_used, reason = "a harness panics where a test would")]

pub mod attack;
pub mod client;
pub mod found;
pub mod gateway;
pub mod http;
pub mod mcp;
pub mod page;
pub mod programs;
pub mod proxy;
pub mod scrape;
pub mod scratch;
pub mod server;
pub mod soak;
pub mod stock;
pub mod terminal;

pub use client::{Client, Finished};
pub use found::found;
pub use gateway::Gateway;
pub use mcp::Mcp;
pub use proxy::Proxy;
pub use scratch::Scratch;
pub use server::Server;
pub use terminal::Terminal;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// 8×8 red pixels, base64.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";

/// When a test gives up on something that should have come. No test passes or fails by being near it.
pub const GIVE_UP: Duration = Duration::from_secs(120);

/// Looks again and again until it is so, where nothing tells of it.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let looking = async {
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        while !holds() {
            looks.tick().await;
        }
    };
    tokio::time::timeout(GIVE_UP, looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// How many live processes have the mark in their command line.
pub fn alive(mark: &str) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let bears = |file: PathBuf| {
        let line = fs::read(file).unwrap_or_default();
        line.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    // A leader that has ended has no command line; its threads still do.
    let threads = |dir: PathBuf| {
        let tasks = fs::read_dir(dir.join("task")).into_iter().flatten().flatten();
        tasks.map(|task| task.path().join("cmdline")).any(bears)
    };
    entries.flatten().filter(|entry| threads(entry.path())).count()
}
