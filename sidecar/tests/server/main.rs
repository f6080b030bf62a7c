//! The server from outside: every test talks to a real one, over the wire's own frames.
//!
//! Workspaces lie in /var/tmp: /tmp is a write root of the default profile, so nothing there is "outside". No test
//! needs root, and none measures time.

mod acts;
mod admin;
mod audit;
mod auth;
mod cases;
mod check;
mod commands;
mod common;
mod drain;
mod envelope;
mod escapes;
mod files;
mod files_blocks;
mod files_hostile;
mod files_names;
mod files_walk;
mod files_watch;
mod handshake;
mod limits;
mod lines;
mod methods;
mod methods_files;
mod methods_processes;
mod metrics;
mod model;
mod policies;
mod process;
mod process_io;
mod process_limits;
mod races;
mod resume;
mod resume_acks;
mod resume_takeover;
mod spawn_errors;
mod terminate;
mod transports;
