//! The agent's side of the sandbox sidecar: start commands there, follow them, know what was enforced.
//!
//! | module | what it owns |
//! |---|---|
//! | [`environment`] | the one switch: a remote sidecar by URL, or one embedded in this process |
//! | [`backend`] | the traits that an agent programs against: [`ExecBackend`], [`ExecProcess`] |
//! | [`events`] | what a process reports, in order, under back-pressure |
//! | [`filesystem`] | files there: read, written, listed, watched |
//! | [`tools`] | commands in windows, for a model |
//! | [`patch`] | patches as models write them, over files there |
//! | [`search`] | lines of files there that match a pattern |
//! | [`mcp`] | all of that as a server of the Model Context Protocol |
//! | [`names`], [`schema`] | names and schemas of tools, for agents with several servers or a plain parser |
//! | [`transfer`] | files and trees there and back |
//! | [`client`] | one connection: requests, answers, notifications |
//! | [`transport`] | how a connection comes to be |
//! | [`gateway`] | stock clients in, a sidecar elsewhere out |
//! | [`metrics`] | what is counted, and how it is told |
//! | [`mapping`] | local root ↔ workspace root |
//! | [`config`] | file, environment and flags → [`Config`] |
//! | [`error`] | everything that can go wrong |
//!
//! Nothing here decides what a command may do: that is the server's, and its receipt comes with every launch
//! ([`ExecProcess::enforcement`]).
//!
//! ```no_run
//! use agent_client::{Config, Environment, Event, ExecBackend, Launch};
//!
//! # async fn example() -> Result<(), agent_client::Error> {
//! let cwd = std::path::Path::new("/srv/project");
//! let environment = Environment::connect(&Config::resolve(&[], cwd)?).await?;
//! let mut started = environment.start(Launch::new(["cargo", "test"], cwd)).await?;
//! while let Some(event) = started.events.recv().await {
//!     match event {
//!         Event::Output { stream, bytes, .. } => println!("{}: {} bytes", stream.name(), bytes.len()),
//!         Event::Exited(exit) => println!("exit code {}", exit.exit_code),
//!         Event::Closed => println!("that was all of its output"),
//!         Event::Failed { reason } => println!("lost: {reason}"),
//!     }
//! }
//! environment.close().await;
//! # Ok(())
//! # }
//! ```

pub mod backend;
pub mod client;
pub mod config;
mod embedded;
pub mod environment;
pub mod error;
pub mod events;
pub mod filesystem;
pub mod gateway;
pub mod mapping;
pub mod mcp;
pub mod metrics;
pub mod names;
pub mod patch;
pub mod schema;
pub mod search;
pub mod tools;
pub mod transfer;
pub mod transport;

pub use backend::{ExecBackend, ExecProcess, Launch, Started};
pub use client::Client;
pub use config::Config;
pub use environment::Environment;
pub use error::Error;
pub use events::{Event, Events, Exit};
pub use filesystem::Filesystem;
pub use gateway::Gateway;
pub use mapping::Mapping;
pub use metrics::Metrics;
pub use sidecar_protocol as protocol;
