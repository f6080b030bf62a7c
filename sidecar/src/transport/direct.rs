//! Large frames, written from where they are. The WebSocket library copies each frame into a buffer of its own, and moves what
//! is left of it each time the socket took a part: of a block of a file that was a third of the server's time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_write_buf;

/// A frame: its head, and what it carries.
pub(super) type Frame = Chain<Bytes, Bytes>;

/// A stream below the library, which writes its own frames and, between them, those that took the direct way.
pub(super) struct Direct<S> {
    io: S,
    way: Way,
}

/// The way past the library.
#[derive(Debug, Clone, Default)]
pub(super) struct Way(Arc<Mutex<Turn>>);

/// Whose turn it is to write.
#[derive(Debug, Default)]
struct Turn {
    /// What goes before anything of the library's.
    frame: Option<Frame>,
    /// The library has written a part of what it has, which may end within a frame.
    interrupted: bool,
}

impl Way {
    /// Takes a frame; the next flush writes it, and so does whatever the library writes before that. Gives it back while the
    /// library, or another frame, is in the midst of being written.
    pub(super) fn take(&self, frame: Frame) -> Result<(), Frame> {
        let mut turn = self.lock();
        if turn.interrupted || turn.frame.is_some() {
            return Err(frame);
        }
        turn.frame = Some(frame);
        Ok(())
    }

    /// Whether no frame is left to be written.
    pub(super) fn is_clear(&self) -> bool {
        self.lock().frame.is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Writes the frame that there is, to its end.
    fn poll_frame<S: AsyncWrite + Unpin>(
        &mut self,
        io: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(frame) = &mut self.frame {
            if !frame.has_remaining() {
                self.frame = None;
            } else if ready!(poll_write_buf(Pin::new(&mut *io), cx, frame))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Direct<S> {
    pub(super) fn new(io: S, way: Way) -> Direct<S> {
        Direct { io, way }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Direct<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Direct<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Direct { io, way } = &mut *self;
        let mut turn = way.lock();
        ready!(turn.poll_frame(io, cx))?;
        let written = ready!(Pin::new(io).poll_write(cx, bytes))?;
        turn.interrupted = written < bytes.len();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Direct { io, way } = &mut *self;
        ready!(way.lock().poll_frame(io, cx))?;
        Pin::new(io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const ROOM: usize = 4;

    fn frame(head: &'static str, payload: &'static str) -> Frame {
        Bytes::from(head).chain(Bytes::from(payload))
    }

    /// What one write takes.
    fn write(to: &mut Direct<tokio::io::DuplexStream>, bytes: &[u8]) -> Option<usize> {
        match Pin::new(to).poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => Some(written.expect("written")),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn a_frame_goes_between_what_the_library_writes() {
        let (near, mut peer) = tokio::io::duplex(ROOM);
        let way = Way::default();
        let mut near = Direct::new(near, way.clone());
        let mut came = String::new();
        let mut read = async |len: usize| {
            let mut part = vec![0; len];
            peer.read_exact(&mut part).await.expect("read");
            came.push_str(&String::from_utf8(part).expect("text"));
            came.clone()
        };
        assert_eq!(write(&mut near, b"abcdef"), Some(ROOM));
        let refused = way.take(frame("h", "payload")).expect_err("the library is within a frame");
        assert_eq!(write(&mut near, b"ef"), None, "there is no room");
        assert_eq!(read(ROOM).await, "abcd");
        let refused = way.take(refused).expect_err("it still is");
        assert_eq!(write(&mut near, b"ef"), Some(2));
        way.take(refused).expect("it is between two frames");
        way.take(frame("", "another")).expect_err("one at a time");
        // Whoever writes next, writes what is to go before.
        assert_eq!(write(&mut near, b"later"), None);
        assert!(!way.is_clear());
        assert_eq!(read(ROOM).await, "abcdefhp");
        assert_eq!(write(&mut near, b"later"), None);
        assert_eq!(read(ROOM).await, "abcdefhpaylo");
        assert_eq!(write(&mut near, b"later"), Some(2), "as much as there is room for behind it");
        assert!(way.is_clear());
        assert_eq!(read(ROOM).await, "abcdefhpayloadla");
    }

    #[tokio::test]
    async fn a_flush_writes_the_frame() {
        let (near, mut peer) = tokio::io::duplex(ROOM);
        let way = Way::default();
        let mut near = Direct::new(near, way.clone());
        way.take(frame("head", "payload")).expect("nothing else is written");
        let flushed = tokio::spawn(async move { near.flush().await });
        let mut came = String::new();
        peer.read_to_string(&mut came).await.expect("read");
        flushed.await.expect("it ended").expect("flushed");
        assert_eq!(came, "headpayload");
        assert!(way.is_clear());
    }
}
