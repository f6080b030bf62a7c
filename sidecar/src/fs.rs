//! File operations for clients, under the same rules as a launch.
//!
//! Each runs on an OS thread that the kernel confines for ever ([`pool`]); so a symlink that a launch plants or swaps
//! leads nowhere that the launch itself could not go. The checks on top keep an operation from hanging on a FIFO, from
//! acting on a device, and from reading what the *server* can see in /proc. They are no substitute for the kernel's.
//!
//! One thing needs no such thread: to tell of a file what the kernel has in memory ([`cached_metadata`]). Landlock gates no
//! looks, and two changes of threads take longer than all the rest of it.

mod attached;
mod attributes;
mod canonicalize;
mod content;
mod copy;
mod directory;
mod error;
mod handles;
mod metadata;
mod open;
mod opened;
mod pool;
mod read;
mod remove;
mod rename;
mod symlink;
mod temp;
mod walk;
mod watch;
mod write;

pub(crate) use self::attached::Attached;
pub(crate) use self::attributes::Attributes;
pub(crate) use self::canonicalize::canonicalize;
pub(crate) use self::copy::copy;
pub(crate) use self::directory::{create_directory, read_directory};
pub(crate) use self::error::FsError;
pub(crate) use self::metadata::{cached_metadata, metadata};
pub(crate) use self::open::Symlinks;
pub(crate) use self::opened::Opened;
pub(crate) use self::pool::{Confined, Files};
pub(crate) use self::read::read_file;
pub(crate) use self::remove::{Removal, remove};
pub(crate) use self::rename::rename;
pub(crate) use self::symlink::create_symlink;
pub(crate) use self::walk::walk;
pub(crate) use self::watch::{Started, Subject};
pub(crate) use self::write::{NewContent, write_file};
