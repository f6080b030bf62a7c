//! Whom a socket wakes that two tasks share, one to read and one to write.
//!
//! The WebSocket library wakes both at whatever happens: the writer at each message that comes, the reader each time a
//! full socket takes bytes again. Two tasks that are ready are work for two threads, so with each message the reader
//! would be moved to the other one.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket that wakes by its [`Tasks`] alone, not by whatever task polls it.
pub(super) struct Halves<S> {
    io: S,
    readable: Waker,
    writable: Waker,
}

/// The two tasks that share a socket.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks(Arc<Wakers>);

#[derive(Debug, Default)]
struct Wakers {
    reader: AtomicWaker,
    /// As long as it has something to write.
    writer: AtomicWaker,
}

struct Readable(Tasks);

struct Writable(Tasks);

impl<S> Halves<S> {
    pub(super) fn new(io: S, tasks: &Tasks) -> Halves<S> {
        let readable = Waker::from(Arc::new(Readable(tasks.clone())));
        Halves { io, readable, writable: Waker::from(Arc::new(Writable(tasks.clone()))) }
    }

    /// The socket, to be used by one task.
    pub(super) fn into_inner(self) -> S {
        self.io
    }
}

impl Tasks {
    /// Runs a future of the task that reads.
    pub(super) async fn reading<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.0.reader.register(cx.waker());
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Runs a future of the task that writes.
    pub(super) async fn writing<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.0.writer.register(cx.waker());
            let polled = future.as_mut().poll(cx);
            if polled.is_ready() {
                self.0.writer.take();
            }
            polled
        })
        .await
    }
}

impl Wake for Readable {
    fn wake(self: Arc<Self>) {
        self.0.0.reader.wake();
    }
}

impl Wake for Writable {
    fn wake(self: Arc<Self>) {
        match self.0.0.writer.take() {
            Some(writer) => writer.wake(),
            // The reader writes too: the answer to a ping.
            None => self.0.0.reader.wake(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Halves<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Halves { io, readable, .. } = &mut *self;
        Pin::new(io).poll_read(&mut Context::from_waker(readable), into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Halves<S> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Halves { io, writable, .. } = &mut *self;
        Pin::new(io).poll_write(&mut Context::from_waker(writable), bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Halves { io, writable, .. } = &mut *self;
        Pin::new(io).poll_flush(&mut Context::from_waker(writable))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Halves { io, writable, .. } = &mut *self;
        Pin::new(io).poll_shutdown(&mut Context::from_waker(writable))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    const ROOM: usize = 64;

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Task(Arc<Count>);

    impl Task {
        fn new() -> Task {
            Task(Arc::default())
        }

        fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
            future.poll_unpin(&mut Context::from_waker(&self.0.clone().into()))
        }

        fn woken(&self) -> usize {
            self.0.0.load(Ordering::Relaxed)
        }
    }

    /// How often the reader and the writer are woken: by a message that comes, then by a full socket that takes bytes.
    async fn woken<S>(io: S, mut peer: DuplexStream, tasks: &Tasks) -> [[usize; 2]; 2]
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (reader, writer) = (Task::new(), Task::new());
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        let (mut sink, mut stream) = socket.split();
        assert!(writer.poll(&mut Box::pin(tasks.writing(sink.flush()))).is_ready());
        let mut next = Box::pin(tasks.reading(stream.next()));
        assert!(reader.poll(&mut next).is_pending());
        // An empty text, masked with zeros.
        peer.write_all(&[0x81, 0x80, 0, 0, 0, 0]).await.expect("room");
        let by_message = [reader.woken(), writer.woken()];
        assert!(reader.poll(&mut next).is_ready());
        drop(next);
        let mut next = Box::pin(tasks.reading(stream.next()));
        assert!(reader.poll(&mut next).is_pending());
        let (reads, writes) = (reader.woken(), writer.woken());
        let mut sent = Box::pin(tasks.writing(sink.send(Message::Text("x".repeat(2 * ROOM).into()))));
        assert!(writer.poll(&mut sent).is_pending());
        peer.read_exact(&mut [0; ROOM]).await.expect("as much as there is room for");
        let by_room = [reader.woken() - reads, writer.woken() - writes];
        [by_message, by_room]
    }

    #[tokio::test]
    async fn each_task_is_woken_by_its_own_half() {
        let (near, peer) = tokio::io::duplex(ROOM);
        let tasks = Tasks::default();
        let halves = woken(Halves::new(near, &tasks), peer, &tasks).await;
        assert_eq!(halves, [[1, 0], [0, 1]]);
        // The control: what the library does by itself.
        let (near, peer) = tokio::io::duplex(ROOM);
        assert_eq!(woken(near, peer, &tasks).await, [[1, 1], [1, 1]]);
    }

    #[tokio::test]
    async fn what_the_reader_could_not_write_wakes_the_reader() {
        let (near, mut peer) = tokio::io::duplex(ROOM);
        let (tasks, reader) = (Tasks::default(), Task::new());
        let mut near = Halves::new(near, &tasks);
        let mut answering = Box::pin(tasks.reading(async {
            near.write_all(&[0; 2 * ROOM]).await.expect("written");
            near
        }));
        assert!(reader.poll(&mut answering).is_pending());
        peer.read_exact(&mut [0; ROOM]).await.expect("what was written");
        assert_eq!(reader.woken(), 1);
        let Poll::Ready(near) = reader.poll(&mut answering) else { panic!("there is room") };
        // Afterwards it is one task's, which it wakes whoever that is.
        let mut alone = near.into_inner();
        drop(peer);
        assert_eq!(alone.read(&mut [0; 1]).await.expect("the end"), 0);
    }
}
