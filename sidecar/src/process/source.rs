//! The streams that a process writes to, read without blocking: stdout and stderr, or the master of its terminal.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::termios::{Winsize, tcsetwinsize};
use sidecar_protocol::MAX_CHUNK_BYTES;
use sidecar_protocol::process::{Size, Stream};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::coop;
use tokio::time::Sleep;

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
    fd: Arc<OwnedFd>,
    stream: Stream,
    /// `None` while it flows.
    watched: Option<AsyncFd<Arc<OwnedFd>>>,
    /// Where the kernel watches no more: when to look whether something has come.
    look_at: Option<Pin<Box<Sleep>>>,
    /// Reads in a row that have not found it empty.
    flowing: u32,
    /// Bytes that may still be read from it before the exit is told; 0 once it has been found empty.
    unsettled: usize,
    /// Reads in a row that took all there was room for; none is counted any more once the pipe has been made larger.
    full: Option<u32>,
}

thread_local! {
    /// A buffer that nobody needs at the moment: to make one anew for each burst of output would be to clear it each time.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Who takes in what is read.
pub(super) trait Intake {
    /// A piece of a read, in the order of the bytes; empty at the end of a stream.
    fn piece(&mut self, stream: Stream, bytes: &[u8]);
}

/// What a read gave: the bytes are in [`Sources::buffer`] until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Data(Stream, usize),
    /// The stream has ended, and is gone from the sources.
    End,
}

/// Most that is read before the exit is told: what an unprivileged pipe holds at most. Beyond it a background
/// process is writing.
const SETTLE_BYTES: usize = 1 << 20;

/// After so many reads in a row that did not find it empty, a stream flows: it is read without being watched until it is
/// empty. The kernel tells of each write to what is watched, and each telling wakes a thread that has nothing to do then.
const FLOWS: u32 = 8;

/// How often a stream is looked at that the kernel does not watch.
const UNWATCHED: Duration = Duration::from_millis(10);

/// So many full reads in a row are a flood: 1 MiB.
const FLOOD: u32 = 16;

/// What its pipe holds then. The kernel lets all pipes of a user have 64 MiB (`fs.pipe-user-pages-soft`), and gives new
/// ones but a page or two beyond that, so it is not the most that one may have.
const FLOOD_BYTES: usize = 256 << 10;

impl Sources {
    pub(super) fn new(streams: impl IntoIterator<Item = (Stream, OwnedFd)>) -> io::Result<Sources> {
        let source = |(stream, fd)| {
            let fd = Arc::new(fd);
            let watched = Some(watch(Arc::clone(&fd), Interest::READABLE)?);
            let full = (stream != Stream::Pty).then_some(0);
            Ok(Source { fd, stream, watched, look_at: None, flowing: 0, unsettled: SETTLE_BYTES, full })
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

    /// What holds the bytes of the last read, to be taken.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Waits for bytes or the end of a stream. `each` gets them piece by piece, as they come. Cancel safe; pending for ever where
    /// no stream is open.
    pub(super) async fn read(&mut self, each: &mut impl Intake) -> Read {
        std::future::poll_fn(|cx| self.poll_read(cx, each)).await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, each: &mut impl Intake) -> Poll<Read> {
        self.fetch_buffer();
        let count = self.open.len();
        for offset in 0..count {
            let index = (self.first + offset) % count;
            if let Poll::Ready(read) = self.open[index].poll_read(cx, &mut self.buffer[..self.most], each) {
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
    pub(super) fn settle(&mut self, each: &mut impl Intake) -> Option<Read> {
        self.fetch_buffer();
        while let Some(index) = self.open.iter().position(|source| source.unsettled > 0) {
            let source = &mut self.open[index];
            match source.read(&mut self.buffer[..self.most], each, &mut false) {
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
        Ok(tcsetwinsize(&*terminal.fd, size)?)
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
            let _ = rustix::pipe::fcntl_setpipe_size(&*self.fd, FLOOD_BYTES);
        }
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        each: &mut impl Intake,
    ) -> Poll<io::Result<usize>> {
        loop {
            let Some(watched) = &self.watched else {
                match ready!(self.poll_flowing(cx, buffer, each)) {
                    Some(read) => return Poll::Ready(read),
                    None => continue,
                }
            };
            let mut ready = match ready!(watched.poll_read_ready(cx)) {
                Ok(ready) => ready,
                Err(e) => return Poll::Ready(Err(e)),
            };
            let mut is_empty = false;
            let Ok(read) = ready.try_io(|_| self.read(buffer, each, &mut is_empty)) else {
                self.flowing = 0;
                continue;
            };
            if is_empty {
                // Known already: it need not be asked again before something comes.
                ready.clear_ready();
            }
            self.flowing = if is_empty { 0 } else { self.flowing + 1 };
            if self.flowing >= FLOWS {
                self.watched = None;
            }
            return Poll::Ready(read);
        }
    }

    /// One that is not watched. `None` once it is empty: then it is watched again.
    fn poll_flowing(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        each: &mut impl Intake,
    ) -> Poll<Option<io::Result<usize>>> {
        // Others get their turn, as they do beside what is watched.
        let turn = ready!(coop::poll_proceed(cx));
        if let Some(look_at) = &mut self.look_at {
            ready!(look_at.as_mut().poll(cx));
            self.look_at = None;
        }
        let read = self.read(buffer, each, &mut false);
        if !read.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
            turn.made_progress();
            return Poll::Ready(Some(read));
        }
        match watch(Arc::clone(&self.fd), Interest::READABLE) {
            Ok(watched) => {
                (self.watched, self.flowing) = (Some(watched), 0);
                Poll::Ready(None)
            }
            // Nothing will tell of what comes. A launch can bring that about (fs.epoll.max_user_watches), so it costs little.
            Err(_) => {
                let look_at = self.look_at.insert(Box::pin(tokio::time::sleep(UNWATCHED)));
                look_at.as_mut().poll(cx).map(|()| None)
            }
        }
    }

    /// A terminal gives a page at a time: what else is there already comes along, so that a flood is not cut into pages.
    /// Tells if nothing is left. Each page is taken in before the next one is asked for: the kernel has that ready then, where it
    /// would else be waited for, and to take in all of them at once would keep whoever writes waiting.
    fn read(&self, buffer: &mut [u8], each: &mut impl Intake, is_empty: &mut bool) -> io::Result<usize> {
        let fd = &*self.fd;
        let mut len = read_once(fd, buffer)?;
        each.piece(self.stream, &buffer[..len]);
        while self.stream == Stream::Pty && len > 0 && len < buffer.len() {
            match read_once(fd, &mut buffer[len..]) {
                Ok(more @ 1..) => {
                    each.piece(self.stream, &buffer[len..len + more]);
                    len += more;
                }
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

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Write as _};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Takes nothing in.
    struct Nobody;

    impl Intake for Nobody {
        fn piece(&mut self, _: Stream, _: &[u8]) {}
    }

    /// A stream that holds so many bytes.
    fn holding(bytes: usize) -> (Sources, PipeWriter) {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&reader, true).expect("non-blocking");
        writer.write_all(&vec![b'x'; bytes]).expect("there is room");
        (Sources::new([(Stream::Stdout, reader.into())]).expect("watched"), writer)
    }

    #[tokio::test]
    async fn what_flows_is_not_watched_until_it_is_empty() {
        let (mut sources, mut writer) = holding(32 << 10);
        sources.limit(1 << 10);
        for count in 1..=32 {
            assert_eq!(sources.read(&mut Nobody).await, Read::Data(Stream::Stdout, 1 << 10));
            assert_eq!(sources.open[0].watched.is_none(), count >= FLOWS, "after {count} reads");
        }
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(sources.poll_read(cx, &mut Nobody).is_pending())).await
        );
        assert!(sources.open[0].watched.is_some());
        writer.write_all(b"more").expect("there is room");
        assert_eq!(sources.read(&mut Nobody).await, Read::Data(Stream::Stdout, 4));
        drop(writer);
        assert_eq!(sources.read(&mut Nobody).await, Read::End);
    }

    /// Nothing tells of what comes then; it is found all the same, and the task sleeps in between.
    #[tokio::test]
    async fn what_cannot_be_watched_is_looked_at_now_and_then() {
        let (mut sources, mut writer) = holding(0);
        let source = &mut sources.open[0];
        // Long enough that a busy machine gets to the first look before it.
        (source.watched, source.look_at) = (None, Some(Box::pin(tokio::time::sleep(Duration::from_secs(2)))));
        let read = std::future::poll_fn(|cx| Poll::Ready(sources.poll_read(cx, &mut Nobody))).await;
        assert!(read.is_pending() && sources.open[0].watched.is_none(), "its time has not come");
        writer.write_all(b"found").expect("there is room");
        assert_eq!(sources.read(&mut Nobody).await, Read::Data(Stream::Stdout, 5));
        assert!(sources.open[0].look_at.is_none());
    }

    #[tokio::test]
    async fn what_flows_lets_others_have_their_turn() {
        let (mut sources, _writer) = holding(32 << 10);
        sources.limit(32);
        static RAN: AtomicBool = AtomicBool::new(false);
        tokio::spawn(async { RAN.store(true, Ordering::Relaxed) });
        for _ in 0..1000 {
            assert_eq!(sources.read(&mut Nobody).await, Read::Data(Stream::Stdout, 32));
        }
        assert!(RAN.load(Ordering::Relaxed), "a thousand reads in a row, and nobody else");
    }
}
