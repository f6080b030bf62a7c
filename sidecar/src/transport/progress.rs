//! The way out to a peer, which notes each time that a full one has taken bytes again: whoever reads is alive, however far
//! behind it is, and need not have come to a ping yet. One that was full before it was asked may have read, and hung up,
//! before it was asked too.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::outbox::Heard;

/// A stream to a peer. What goes into a buffer that has room says nothing of the peer, and is not noted.
pub(super) struct Progress<S> {
    io: S,
    /// How often the peer had been asked for a sign of life when it was last found full.
    full: Option<u64>,
    heard: Heard,
}

impl<S> Progress<S> {
    pub(super) fn new(io: S, heard: Heard) -> Progress<S> {
        Progress { io, full: None, heard }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Progress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Progress<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let asked = self.heard.asked();
        let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(cx, bytes) else {
            self.full = Some(asked);
            return Poll::Pending;
        };
        if self.full.take() == Some(asked) && written.is_ok() {
            self.heard.note();
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::connection::outbox;

    #[tokio::test]
    async fn bytes_taken_before_the_question_are_no_answer() {
        let (near, mut peer) = tokio::io::duplex(1);
        let (outbox, _outgoing) = outbox::new(1000);
        let mut near = Progress::new(near, outbox.heard().clone());
        let mut writing = Box::pin(near.write_all(&[0; 4]));
        assert!(writing.as_mut().now_or_never().is_none(), "the peer is full");
        peer.read_u8().await.expect("a byte");
        let mut heard = Box::pin(outbox.probe());
        assert!(writing.as_mut().now_or_never().is_none(), "full again");
        assert!(heard.as_mut().now_or_never().is_none(), "the peer may have hung up since");
        peer.read_u8().await.expect("a byte");
        assert!(writing.as_mut().now_or_never().is_none());
        heard.now_or_never().expect("it was full after the question, and took a byte");
    }
}
