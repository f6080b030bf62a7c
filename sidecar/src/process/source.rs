//! The streams that a process writes to, read without blocking: stdout and stderr, or the master of its terminal.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::termios::{Winsize, tcsetwinsize};
use sidecar_protocol::MAX_CHUNK_BYTES;
use sidecar_protocol::process::{Size, Stream};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watched::watch;

/// The open streams of one process.
#[derive(Debug)]
pub(super) struct Sources {
    open: Vec<Source>,
    /// Empty while there is nothing to be read: most processes are silent most of the time.
    buffer: Vec<u8>,
    /// Most bytes of one read.
    most: usize,
    /// Which is asked first; moves on, so that a flood on one does not starve the other.
    first: usize,
}

#[derive(Debug)]
struct Source {
    fd: AsyncFd<OwnedFd>,
    stream: Stream,
    /// Bytes that may still be read from it before the exit is told; 0 once it has been found empty.
    unsettled: usize,
    /// Reads in a row that took all there was room for; none is counted any more once the pipe has been made larger.
    full: Option<u32>,
}

thread_local! {
    /// A buffer that nobody needs at the moment: to make one anew for each burst of output would be to clear it each time.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What a read gave: the bytes are in [`Sources::bytes`] until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Data(Stream, usize),
    /// The stream has ended, and is gone from the sources.
    End,
}

/// Most that is read before the exit is told: what an unprivileged pipe holds at most. Beyond it a background
/// process is writing.
const SETTLE_BYTES: usize = 1 << 20;

/// So many full reads in a row are a flood: 1 MiB.
const FLOOD: u32 = 16;

/// What its pipe holds then. The kernel lets all pipes of a user have 64 MiB (`fs.pipe-user-pages-soft`), and gives new
/// ones but a page or two beyond that, so it is not the most that one may have.
const FLOOD_BYTES: usize = 256 << 10;

impl Sources {
    pub(super) fn new(streams: impl IntoIterator<Item = (Stream, OwnedFd)>) -> io::Result<Sources> {
        let source = |(stream, fd)| {
            let fd = watch(fd, Interest::READABLE)?;
            let full = (stream != Stream::Pty).then_some(0);
            Ok(Source { fd, stream, unsettled: SETTLE_BYTES, full })
        };
        let open = streams.into_iter().map(source).collect::<io::Result<_>>()?;
        Ok(Sources { open, buffer: Vec::new(), most: MAX_CHUNK_BYTES, first: 0 })
    }

    /// Bounds the reads from now on; at least 1 byte, and never beyond what a chunk may have.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.most = bytes.clamp(1, MAX_CHUNK_BYTES);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The bytes of the last read.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        &self.buffer[..len]
    }

    /// What holds them, to be taken.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Waits for bytes or the end of a stream. Cancel safe; pending for ever where no stream is open.
    pub(super) async fn read(&mut self) -> Read {
        std::future::poll_fn(|cx| self.poll_read(cx)).await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        self.fetch_buffer();
        let count = self.open.len();
        for offset in 0..count {
            let index = (self.first + offset) % count;
            if let Poll::Ready(read) = self.open[index].poll_read(cx, &mut self.buffer[..self.most]) {
                self.first = index + 1;
                return Poll::Ready(self.took(index, read));
            }
        }
        SPARE.set(std::mem::take(&mut self.buffer));
        Poll::Pending
    }

    fn fetch_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = SPARE.take();
            self.buffer.resize(MAX_CHUNK_BYTES, 0);
        }
    }

    /// Asks the kernel, not the readiness that the runtime remembers: after the exit, what a stream holds was written
    /// before it. `None` once every stream was found empty or has given its share.
    pub(super) fn settle(&mut self) -> Option<Read> {
        self.fetch_buffer();
        while let Some(index) = self.open.iter().position(|source| source.unsettled > 0) {
            let source = &mut self.open[index];
            match source.read(&mut self.buffer[..self.most], &mut false) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => source.unsettled = 0,
                read => {
                    if let Ok(len) = read {
                        source.unsettled = source.unsettled.saturating_sub(len);
                    }
                    return Some(self.took(index, read));
                }
            }
        }
        None
    }

    /// Lets [`Sources::settle`] look at every stream once more.
    pub(super) fn unsettle(&mut self) {
        for source in &mut self.open {
            source.unsettled = SETTLE_BYTES;
        }
    }

    /// Gives the terminal a size. One that is gone needs none.
    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        let Some(terminal) = self.open.iter().find(|source| source.stream == Stream::Pty) else {
            return Ok(());
        };
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(terminal.fd.get_ref(), size)?)
    }

    /// An error ends a stream: a terminal's master gives EIO when nobody has the terminal open any more.
    fn took(&mut self, index: usize, read: io::Result<usize>) -> Read {
        match read {
            Ok(len) if len > 0 => {
                self.open[index].note(len);
                Read::Data(self.open[index].stream, len)
            }
            _ => {
                self.open.remove(index);
                Read::End
            }
        }
    }
}

impl Source {
    /// Gives a flood a larger pipe: then its process and this one need not take turns for each chunk.
    fn note(&mut self, len: usize) {
        let Some(full) = &mut self.full else { return };
        *full = if len == MAX_CHUNK_BYTES { *full + 1 } else { 0 };
        if *full == FLOOD {
            self.full = None;
            // Where the kernel gives this user no more, the pipe stays as it is.
            let _ = rustix::pipe::fcntl_setpipe_size(self.fd.get_ref(), FLOOD_BYTES);
        }
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = match ready!(self.fd.poll_read_ready(cx)) {
                Ok(ready) => ready,
                Err(e) => return Poll::Ready(Err(e)),
            };
            let mut is_empty = false;
            if let Ok(read) = ready.try_io(|_| self.read(buffer, &mut is_empty)) {
                if is_empty {
                    // Known already: it need not be asked again before something comes.
                    ready.clear_ready();
                }
                return Poll::Ready(read);
            }
        }
    }

    /// A terminal gives a page at a time: what else is there already comes along, so that a flood is not cut into pages.
    /// Tells if nothing is left.
    fn read(&self, buffer: &mut [u8], is_empty: &mut bool) -> io::Result<usize> {
        let fd = self.fd.get_ref();
        let mut len = read_once(fd, buffer)?;
        while self.stream == Stream::Pty && len > 0 && len < buffer.len() {
            match read_once(fd, &mut buffer[len..]) {
                Ok(more @ 1..) => len += more,
                // An error comes again with the next read.
                end => {
                    *is_empty = end.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        Ok(len)
    }
}

fn read_once(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}
