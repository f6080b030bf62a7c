//! What a launch may do, and how it is launched: Landlock rulesets, seccomp filters, launcher threads, shims.
//!
//! Read in this order: [`policy`] says what may be done, [`probe`] what this kernel can do, [`prepared`] joins the two
//! into descriptors made before any fork, [`launcher`] starts commands under them, [`receipt`] says what was enforced.
//!
//! It knows no JSON and no tokio: events are descriptors that become readable.

pub mod error;
pub mod launcher;
pub mod policy;
pub mod prepared;
pub mod probe;
pub mod receipt;

pub use error::{Error, LaunchError, Stage};
pub use launcher::{Child, Command, Exit, Io, Launched, Sandbox, Stdio};
pub use policy::{CarveOuts, Entry, EntryAccess, OnUnsupported, Options, Permissions, Place, Profile, Request, Roots};
pub use prepared::Prepared;
pub use probe::{Kernel, Unavailable};
pub use receipt::{Receipt, State, Unenforced};
