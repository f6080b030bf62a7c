//! What a launch may do, and how it is launched: Landlock rulesets, seccomp filters, launcher threads, shims.
//!
//! Read in this order: `policy` says what may be done, `probe` what this kernel can do, `prepared` joins the two into
//! descriptors made before any fork, `sandbox` starts commands under them through `launcher`, `shim` and `child`,
//! `process` is what the server holds of one, `receipt` says what was enforced.
//!
//! It knows no JSON and no tokio: events are descriptors that become readable.

mod aside;
mod changes;
mod child;
mod command;
mod cuts;
mod error;
mod explain;
mod failure;
mod globs;
mod hints;
mod landlock;
mod launcher;
mod links;
mod matches;
mod network;
mod orphans;
mod permissions;
mod plan;
mod policy;
mod prepared;
mod probe;
mod process;
mod profile;
mod pty;
mod receipt;
mod resolve;
mod sandbox;
mod seccomp;
mod shim;
mod stacks;
mod stamps;
mod sys;
mod syscalls;
#[cfg(test)]
mod tables;
mod tag;
mod tmp;

pub use command::{Command, Io, Limits, Stdio};
pub use error::{Error, LaunchError, LaunchErrorKind, Stage};
pub use explain::{Access, Explanation, Rule};
pub use failure::is_shortage;
pub use network::{MAX_PORTS, Network, Ports};
pub use policy::{
    CarveOuts, Entry, EntryAccess, OnUnsupported, Options, Permissions, Place, PtyPolicy, Request, Roots,
    TmpPolicy,
};
pub use prepared::{CUSTOM, Prepared};
pub use probe::{Kernel, Unavailable};
pub use process::{Child, Exit, Tree};
pub use profile::{CustomProfile, Profile, UnknownProfile};
pub use receipt::{Receipt, State, Unenforced};
pub use sandbox::{Launched, Sandbox};
