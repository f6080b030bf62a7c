//! Wakes by threads that are not the runtime's.
//!
//! To the runtime such a wake is work that came from elsewhere: the worker that takes it wakes another one to look for
//! more, which finds nothing. Here the thread leaves the waker and rings; a task of the runtime that hears it wakes
//! whom it finds, as any task does.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_util::task::AbortOnDropHandle;

use crate::process::watched::watch;

/// Takes wakes to the runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Relay {
    bell: Arc<Bell>,
    _listener: Arc<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Bell {
    event: AsyncFd<OwnedFd>,
    left: Mutex<Vec<Waker>>,
}

/// A waker that another thread is given in place of the task's own.
struct Left {
    bell: Arc<Bell>,
    waker: Waker,
}

impl Relay {
    /// Must be called within the runtime.
    pub(crate) fn start() -> io::Result<Relay> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let bell = Arc::new(Bell { event: watch(event, Interest::READABLE)?, left: Mutex::default() });
        let listener = tokio::spawn(listen(bell.clone()));
        Ok(Relay { bell, _listener: Arc::new(AbortOnDropHandle::new(listener)) })
    }

    /// Runs a future that is woken by a thread of no runtime.
    pub(crate) async fn carry<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let waker = Waker::from(Arc::new(Left { bell: self.bell.clone(), waker: cx.waker().clone() }));
            future.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }
}

async fn listen(bell: Arc<Bell>) {
    while let Ok(mut ready) = bell.event.readable().await {
        // Before the look: what is left from now on rings again. The counter is not read, for each ring is an event to an
        // edge-triggered epoll, whatever it stands at; at one ring per microsecond it lasts for 500,000 years.
        ready.clear_ready();
        let left = std::mem::take(&mut *bell.left.lock().unwrap_or_else(PoisonError::into_inner));
        left.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Left {
    fn wake(self: Arc<Self>) {
        let is_first = {
            let mut left = self.bell.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(self.waker.clone());
            left.len() == 1
        };
        // Where others are left, somebody has rung and was not heard yet.
        if is_first {
            // It fails at a full counter alone.
            let _ = rustix::io::write(self.bell.event.get_ref(), &1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    /// How many answers of other threads come within a minute.
    async fn answers(relay: &Relay, threads: u32, each: u32) -> u32 {
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..threads {
            let (replies, answers): (Vec<_>, Vec<_>) = (0..each).map(|_| oneshot::channel()).unzip();
            for answer in answers {
                let relay = relay.clone();
                waiting.spawn(async move { relay.carry(answer).await.expect("an answer") });
            }
            std::thread::spawn(move || {
                replies.into_iter().for_each(|reply| reply.send(1).expect("waited for"))
            });
        }
        let all = tokio::time::timeout(Duration::from_secs(60), waiting.join_all());
        all.await.expect("each of them").into_iter().sum()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_answer_comes() {
        let relay = Relay::start().expect("a relay");
        assert_eq!(answers(&relay, 8, 500).await, 4000);
        // Quiet in between: the next one has to ring.
        for _ in 0..100 {
            assert_eq!(answers(&relay, 1, 1).await, 1);
        }
    }

    #[tokio::test]
    async fn what_is_ready_and_what_wakes_itself() {
        let relay = Relay::start().expect("a relay");
        assert_eq!(relay.carry(async { 1 }).await, 1);
        relay.carry(tokio::task::yield_now()).await;
        relay.carry(tokio::time::sleep(Duration::from_millis(1))).await;
    }

    #[tokio::test]
    async fn it_ends_with_its_last_handle() {
        let relay = Relay::start().expect("a relay");
        let bell = Arc::downgrade(&relay.bell);
        // It is listening.
        assert_eq!(answers(&relay, 1, 1).await, 1);
        drop(relay);
        while bell.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
