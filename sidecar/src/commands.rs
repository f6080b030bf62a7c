//! The subcommands that serve nobody: each takes its arguments and gives an exit code.

pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod explain;
pub(crate) mod install;
pub(crate) mod run;
