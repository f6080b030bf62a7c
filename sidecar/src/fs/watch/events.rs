//! Reading what the kernel tells.

use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader};
use rustix::io::Errno;
use sidecar_protocol::RpcError;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::watched;

/// Room for some hundred events.
const BUFFER: usize = 16 << 10;

/// One event.
#[derive(Debug)]
pub(super) struct Event {
    /// The kernel's number of the watched directory.
    pub(super) directory: i32,
    pub(super) flags: ReadFlags,
    /// What has changed in it; `None`: itself.
    pub(super) name: Option<PathBuf>,
}

impl Event {
    /// A directory is there now.
    pub(super) fn is_directory_new(&self) -> bool {
        self.flags.contains(ReadFlags::ISDIR)
            && self.flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)
    }

    /// A directory is elsewhere now, with all below it. One that is deleted takes its watch with it.
    pub(super) fn is_directory_gone(&self) -> bool {
        self.flags.contains(ReadFlags::ISDIR | ReadFlags::MOVED_FROM)
    }
}

/// An inotify instance.
#[derive(Debug)]
pub(super) struct Inotify {
    events: AsyncFd<OwnedFd>,
    /// The same instance, for the threads that place watches.
    instance: Arc<OwnedFd>,
}

impl Inotify {
    /// Makes one. There is one per connection: the kernel grants a user 128 by default, on the whole node.
    pub(super) fn new() -> Result<Inotify, RpcError> {
        let made = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(io::Error::from);
        let made = made.and_then(|instance| {
            let events = watched::watch(instance.try_clone()?, Interest::READABLE)?;
            Ok(Inotify { events, instance: Arc::new(instance) })
        });
        made.map_err(|error| {
            let message =
                format!("the kernel makes no more watchers (fs.inotify.max_user_instances): {error}");
            RpcError::limit("fs.inotify.max_user_instances", message)
        })
    }

    pub(super) fn instance(&self) -> &Arc<OwnedFd> {
        &self.instance
    }
}

/// Waits for the next events, one buffer of them. Cancel safe. Without an instance there are none, ever.
pub(super) async fn next(inotify: Option<&Inotify>) -> Vec<Event> {
    let Some(inotify) = inotify else { return pending().await };
    loop {
        let Ok(mut readable) = inotify.events.readable().await else { return pending().await };
        if let Ok(Ok(events)) = readable.try_io(|fd| read(fd.get_ref())) {
            return events;
        }
    }
}

fn read(inotify: &OwnedFd) -> io::Result<Vec<Event>> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => events.push(Event {
                directory: event.wd(),
                flags: event.events(),
                name: event.file_name().map(|name| PathBuf::from(OsStr::from_bytes(name.to_bytes()))),
            }),
            Err(Errno::INTR) => continue,
            // Nothing is to be read, and nothing else can go wrong.
            Err(_) => return Err(io::ErrorKind::WouldBlock.into()),
        }
        if reader.is_buffer_empty() {
            return Ok(events);
        }
    }
}
