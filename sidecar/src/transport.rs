//! How messages travel. A transport drives a [`crate::connection::Connection`] and its outbox; it decodes nothing.

mod ahead;
mod direct;
mod drive;
mod halves;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod listener;
mod progress;
pub(crate) mod stdio;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "transport/without_tls.rs"]
pub(crate) mod tls;
mod unix;
pub(crate) mod ws;
