//! Connections that were not let in yet: at most so many. A new one takes the place of the oldest, so that those who only
//! hold on to theirs keep nobody out who comes to the point. None loses its place before it had time to: a flood that
//! arrives at once waits in the listener's queue, and whoever arrived amid it is heard.
//!
//! Knows no protocol: who is let in, and what else there is a deadline for, is the business of who accepts.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Connections that wait to be accepted. The standard library's 128 are full within a flood, and whoever the kernel then
/// drops tries again after a second. It takes no more than `net.core.somaxconn`.
const BACKLOG: u32 = 1024;

/// How long nobody loses a place. Many round trips within a cluster, and a flood of half-open connections is still shed
/// at 640 a second with the default of 64 places.
const GRACE: Duration = Duration::from_millis(100);

/// Listens on a TCP address, with room for a flood. Must be called within a runtime.
///
/// # Errors
/// What the OS says: the address is in use, or not this machine's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As the standard library does: a restarted server gets its port although old connections linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The places of one listener.
#[derive(Debug)]
pub struct Intake {
    places: usize,
    /// Those that have lost their place have a descriptor until whoever serves them has noticed.
    sockets: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    /// Told when a place becomes free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order of arrival.
    by_number: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    since: Instant,
    lost: CancellationToken,
}

/// The place of a connection that waits to be let in. To be dropped no sooner than the connection is, unless that was let
/// in.
#[derive(Debug)]
pub struct Place {
    intake: Arc<Intake>,
    number: u64,
    lost: CancellationToken,
    displaced: bool,
    _socket: Option<OwnedSemaphorePermit>,
}

impl Intake {
    /// At most so many.
    pub fn new(places: usize) -> Arc<Intake> {
        let sockets = Arc::new(Semaphore::new(2 * places));
        Arc::new(Intake { places, sockets, waiting: Mutex::default(), freed: Notify::new() })
    }

    /// Waits for a place, then for the connection that `next` accepts. Cancel safe where `next` is. To be called for one
    /// connection after the other.
    ///
    /// # Errors
    /// Those of `next`.
    pub async fn accept<T>(
        self: &Arc<Self>,
        next: impl Future<Output = io::Result<T>>,
    ) -> io::Result<(T, Place)> {
        // Never closed.
        let socket = self.sockets.clone().acquire_owned().await.ok();
        self.room().await;
        Ok((next.await?, self.enter(socket)))
    }

    /// Waits until there is a place for a new connection: a free one, or one whose holder has had its time. It stays so
    /// until the next [`Intake::enter`].
    async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            let oldest = {
                let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if waiting.by_number.len() < self.places {
                    return;
                }
                waiting.by_number.first_key_value().map(|(_, oldest)| oldest.since)
            };
            let Some(since) = oldest else { return };
            tokio::select! {
                () = tokio::time::sleep_until(since + GRACE) => return,
                () = freed => {}
            }
        }
    }

    fn enter(self: &Arc<Self>, socket: Option<OwnedSemaphorePermit>) -> Place {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest =
            if waiting.by_number.len() >= self.places { waiting.by_number.pop_first() } else { None };
        if let Some((_, oldest)) = &oldest {
            oldest.lost.cancel();
        }
        let (number, lost) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_number.insert(number, Holder { since: Instant::now(), lost: lost.clone() });
        Place { intake: self.clone(), number, lost, displaced: oldest.is_some(), _socket: socket }
    }
}

impl Place {
    /// Whether the oldest connection has lost its own place for it.
    pub fn displaced(&self) -> bool {
        self.displaced
    }

    /// Waits until a newer connection has it.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// The connection is let in: it does not lose its place any more.
    pub fn leave(&self) {
        let mut waiting = self.intake.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.by_number.remove(&self.number).is_some() {
            self.intake.freed.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_for_a_new_one() {
        let intake = Intake::new(2);
        let (first, second) = (intake.enter(None), intake.enter(None));
        assert!(!second.displaced());
        drop(first);
        let third = intake.enter(None);
        assert!(!third.displaced(), "whoever is let in makes room");
        let fourth = intake.enter(None);
        assert!(fourth.displaced());
        assert_eq!([&second, &third, &fourth].map(|place| place.lost.is_cancelled()), [true, false, false]);
        drop(second);
        assert!(intake.enter(None).displaced(), "what has lost its place gives none back");
        drop((third, fourth));
        assert!(intake.waiting.lock().expect("not poisoned").by_number.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_goes_before_the_time_is_up() {
        let intake = Intake::new(2);
        intake.room().await;
        let first = intake.enter(None);
        intake.room().await;
        let start = Instant::now();
        let second = intake.enter(None);
        intake.room().await;
        assert_eq!(start.elapsed(), GRACE, "the clock stands still but for this wait");
        let third = intake.enter(None);
        assert!(third.displaced() && first.lost.is_cancelled() && !second.lost.is_cancelled());
        let (again, waits) = (Instant::now(), GRACE / 4);
        let freeing = async {
            tokio::time::sleep(waits).await;
            drop(third);
        };
        drop(second);
        let fourth = intake.enter(None);
        tokio::join!(intake.room(), freeing);
        assert_eq!(again.elapsed(), waits, "a place that becomes free is taken at once");
        assert!(!fourth.lost.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_have_lost_their_place_keep_a_socket_until_they_go() {
        let intake = Intake::new(1);
        let accept = async || intake.accept(std::future::ready(Ok(()))).await.expect("accepted").1;
        let (first, second) = (accept().await, accept().await);
        assert!(second.displaced() && first.lost.is_cancelled());
        tokio::time::timeout(GRACE * 2, accept()).await.expect_err("both have a socket");
        drop(first);
        let third = accept().await;
        second.leave();
        tokio::time::timeout(GRACE * 2, accept())
            .await
            .expect_err("it is being let in, and has its socket still");
        drop(second);
        drop((third, accept().await));
        let failed = intake.accept(std::future::ready(Err::<(), _>(io::ErrorKind::Other.into()))).await;
        failed.expect_err("what accepting says");
        drop((accept().await, accept().await));
    }
}
