//! The attack suite: hostile commands against the built server, judged by what each launch's receipt claims.
//!
//! | module | what it holds |
//! |---|---|
//! | [`table`] | the attacks as data: what is done, what stands against it, the errno of a refusal, the control |
//! | [`expect`] | from a receipt to what must happen |
//! | [`arena`] | two servers, a victim launch, listeners, files to be reached: what the attacks aim at |
//! | [`listeners`] | who takes what is sent, and tells what arrived |
//! | [`run`] | runs the table, launch by launch, and looks after each whether the server is unharmed |
//! | [`network`] | ways onto the network, with the proof at the listener |
//! | [`signals`] | ways to signal, with the proof at the receiver |
//! | [`planted`] | links that one launch leaves for those after it |
//! | [`trees`] | trees that do not want to end, and their end |
//! | [`server`] | what a launch can do to the server's own directories, trail and doors |
//! | [`report`] | the printed table |
//!
//! The hostile program is `crates/sandbox/examples/hostile`. Nothing here needs cargo, a shell or another program, so
//! the suite runs in a container that has nothing but these three programs.

pub mod arena;
pub mod expect;
pub mod listeners;
pub mod network;
pub mod planted;
pub mod report;
pub mod run;
pub mod server;
pub mod signals;
pub mod table;
pub mod trees;

/// The profiles, as the table's columns. `none` is reached on a second server, whose ceiling it is.
pub const PROFILES: [&str; 4] = ["readOnly", "workspaceWriteNoNetwork", "workspaceWrite", "none"];
