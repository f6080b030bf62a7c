//! The embedded sidecar: the whole server, sandbox included, in this process and without a port.
//!
//! Linux only, as the sandbox is; elsewhere starting it is an error that says so.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub(crate) use linux::Embedded;
#[cfg(not(target_os = "linux"))]
pub(crate) use unsupported::Embedded;
