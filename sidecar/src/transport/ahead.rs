//! Reads further ahead where much comes. The WebSocket library reads no more at once than the buffer holds that each
//! connection has all the time, which is to be small: then every 4 KiB of a file cost a system call.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// Bytes read at once while much comes, and held for as long.
const AHEAD: usize = 64 << 10;

/// A stream that is read from with a small buffer.
pub(super) struct ReadAhead<S> {
    io: S,
    /// What the reader has not asked for yet.
    ahead: BytesMut,
    /// The last read gave as much as there was room for.
    more: bool,
}

impl<S> ReadAhead<S> {
    pub(super) fn new(io: S) -> ReadAhead<S> {
        ReadAhead { io, ahead: BytesMut::new(), more: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ReadAhead { io, ahead, more } = &mut *self;
        if ahead.is_empty() {
            if !*more {
                let before = into.remaining();
                ready!(Pin::new(io).poll_read(cx, into))?;
                *more = before > 0 && into.remaining() == 0;
                return Poll::Ready(Ok(()));
            }
            ahead.reserve(AHEAD);
            let room = ahead.capacity();
            let read = poll_read_buf(Pin::new(io), cx, ahead);
            *more = matches!(read, Poll::Ready(Ok(read)) if read == room);
            if ahead.is_empty() {
                *ahead = BytesMut::new();
            }
            ready!(read)?;
        }
        let part = ahead.len().min(into.remaining());
        into.put_slice(&ahead[..part]);
        ahead.advance(part);
        if ahead.is_empty() && !*more {
            *ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
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
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Reads so many bytes, with room for so many at a time.
    async fn read(from: &mut ReadAhead<tokio::io::DuplexStream>, room: usize, bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut part = vec![0; room];
        while all.len() < bytes {
            let read = from.read(&mut part).await.expect("read");
            assert!(read > 0, "an end too soon");
            all.extend_from_slice(&part[..read]);
        }
        all
    }

    #[tokio::test]
    async fn the_buffer_is_there_only_while_much_comes() {
        let (mut peer, near) = tokio::io::duplex(8 * AHEAD);
        let mut near = ReadAhead::new(near);
        peer.write_all(&[1; 10]).await.expect("room");
        assert_eq!(read(&mut near, 4096, 10).await, [1; 10]);
        assert_eq!(near.ahead.capacity(), 0, "little came");
        peer.write_all(&[2; 3 * AHEAD]).await.expect("room");
        assert_eq!(read(&mut near, 4096, 2 * AHEAD).await, [2; 2 * AHEAD]);
        assert!(near.ahead.capacity() > 0, "more is there");
        assert_eq!(read(&mut near, 4096, AHEAD).await, [2; AHEAD]);
        assert_eq!(near.ahead.capacity(), 0, "all of it was read");
        peer.write_all(&[3; AHEAD + 4096]).await.expect("room");
        assert_eq!(read(&mut near, 4096, AHEAD + 4096).await, [3; AHEAD + 4096]);
        // Whether there is more is known once it was asked for.
        let nothing = tokio::time::timeout(std::time::Duration::ZERO, near.read(&mut [0; 4096])).await;
        assert!(nothing.is_err());
        assert_eq!(near.ahead.capacity(), 0);
        drop(peer);
        assert_eq!(near.read(&mut [0; 4096]).await.expect("read"), 0, "the end is the end");
    }

    proptest! {
        #[test]
        fn each_byte_comes_once_and_in_order(writes in proptest::collection::vec(1usize..200_000, 1..6), room in 1usize..9000) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let (mut peer, near) = tokio::io::duplex(100_000);
                let mut near = ReadAhead::new(near);
                let sent: Vec<u8> = (0..=250u8).cycle().take(writes.iter().sum()).collect();
                let all = sent.clone();
                let writer = tokio::spawn(async move {
                    let mut rest = &all[..];
                    for write in writes {
                        let (part, later) = rest.split_at(write);
                        peer.write_all(part).await.expect("written");
                        rest = later;
                    }
                });
                let came = read(&mut near, room, sent.len()).await;
                writer.await.expect("all written");
                prop_assert!(came == sent);
                prop_assert_eq!(near.read(&mut [0; 10]).await.expect("read"), 0);
                Ok(())
            })?;
        }
    }
}
