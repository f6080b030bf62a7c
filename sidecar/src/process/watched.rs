//! Descriptors that the runtime watches. The one place that registers them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that stays the same, and open, for as long as its owner lives.
pub(crate) trait Owned: AsRawFd {}

impl Owned for OwnedFd {}
impl Owned for Arc<OwnedFd> {}

/// Registers a non-blocking descriptor. Must be called within the runtime.
#[expect(
    deprecated,
    reason = "deprecated for types whose descriptor may change or close while registered; an `Owned` does neither, \
              and the replacement is unsafe"
)]
pub(crate) fn watch<T: Owned>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(fd, interest)
}

/// A descriptor of its own for the runtime to watch, with a number beside the other's: the low ones are for launches. Where no
/// more is free there, a low one.
pub(super) fn beside(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, fd.as_raw_fd()).or_else(|_| fd.try_clone_to_owned())
}

/// Waits for an event that stays; for ever where there is none.
pub(super) async fn fired(event: Option<&AsyncFd<OwnedFd>>) {
    let Some(event) = event else { return std::future::pending().await };
    // An error means that the runtime is going down, and this task with it.
    let _ = event.readable().await;
}
