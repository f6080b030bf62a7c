//! How messages travel. A transport drives a [`crate::connection::Connection`] and its outbox; it decodes nothing.

pub(crate) mod http;
pub(crate) mod ws;
