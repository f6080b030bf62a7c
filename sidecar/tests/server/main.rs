//! The server from outside: every test talks to a real one, over the wire's own frames.
//!
//! Workspaces lie in /var/tmp: /tmp is a write root of the default profile, so nothing there is "outside". No test
//! needs root, and none measures time.

mod auth;
mod common;
mod drain;
mod envelope;
mod files;
mod files_hostile;
mod handshake;
mod process;
mod process_io;
mod spawn_errors;
mod terminate;
