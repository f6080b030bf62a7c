//! The output that is retained of one process: the newest of it, within limits, the very first of each stream, and a
//! count of what is gone.
//!
//! Where the client acknowledges, what it has not acknowledged stays: then there is room for more only once it has.

use std::collections::VecDeque;

use sidecar_protocol::process::Stream;

/// Dropped stretches whose sizes are remembered one by one, to tell a reader what *it* missed: more chunks than fit
/// between the socket of this side and the client of the other.
const REMEMBERED: usize = 16_384;

/// Less room than this is none: output would go out in crumbs. Well below what a ring holds at least.
const MIN_ROOM: usize = 4096;

/// The first bytes of a stream that are kept whatever comes after them.
const HEAD_BYTES: usize = 16 << 10;

/// Most of a stream's newest bytes in one view: three of them, in base64, fit one message.
const TAIL_BYTES: usize = 8 << 20;

/// The newest output within limits.
#[derive(Debug)]
pub(super) struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
    max_bytes: usize,
    max_chunks: usize,
    /// The newest dropped stretches by the seq of their last chunk, oldest first. Chunks that no client has ever seen
    /// share one: nobody can have got to the middle of it.
    dropped: VecDeque<(u64, u64)>,
    /// The newest seq that a client may have.
    shown: u64,
    /// Up to where the client has acknowledged; `None`: it does not do so.
    acked: Option<u64>,
    /// Of what is kept, what it has not acknowledged: all of it where it does not do so.
    unacked: Amount,
    /// Bytes dropped before those.
    dropped_before: u64,
    /// By stream.
    heads: [Head; 3],
}

/// So much output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    bytes: usize,
    chunks: usize,
}

/// How a stream began.
#[derive(Debug, Default)]
struct Head {
    bytes: Vec<u8>,
    /// All bytes that the stream has had.
    total: u64,
}

/// The first and the last of one stream.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) stream: Stream,
    pub(super) head: &'a [u8],
    pub(super) tail: Vec<u8>,
    /// Bytes between the two.
    pub(super) gap: u64,
}

/// One chunk.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) seq: u64,
    pub(super) stream: Stream,
    pub(super) bytes: Box<[u8]>,
}

impl Ring {
    pub(super) fn new(max_bytes: usize, max_chunks: usize) -> Ring {
        Ring {
            kept: VecDeque::new(),
            bytes: 0,
            max_bytes,
            max_chunks,
            dropped: VecDeque::new(),
            shown: 0,
            acked: None,
            unacked: Amount::default(),
            dropped_before: 0,
            heads: Default::default(),
        }
    }

    /// How many bytes the next chunk may have, so that nothing is dropped that the client has not acknowledged.
    pub(super) fn room(&self) -> usize {
        let Amount { bytes, chunks } = self.unacked;
        match self.acked {
            None => usize::MAX,
            Some(_) if chunks >= self.max_chunks => 0,
            Some(_) => {
                Some(self.max_bytes.saturating_sub(bytes)).filter(|room| *room >= MIN_ROOM).unwrap_or(0)
            }
        }
    }

    /// The client has everything up to a seq. The first call makes it one that acknowledges.
    pub(super) fn acknowledge(&mut self, seq: u64) {
        let before = self.acked.unwrap_or_default();
        let now = before.max(seq);
        self.acked = Some(now);
        let index = |seq| self.kept.partition_point(|kept| kept.seq <= seq);
        for kept in self.kept.range(index(before)..index(now)) {
            self.unacked.bytes -= kept.bytes.len();
            self.unacked.chunks -= 1;
        }
    }

    /// A client may have everything up to a seq.
    pub(super) fn show(&mut self, seq: u64) {
        self.shown = self.shown.max(seq);
    }

    /// Adds the newest chunk, the first `len` bytes of a buffer, and drops the oldest where there is too much. The newest
    /// always stays. A buffer that is full stays too: then there is another one in its place, or none.
    pub(super) fn push(&mut self, seq: u64, stream: Stream, buffer: &mut Vec<u8>, len: usize) {
        let spare = self.make_room(len);
        let head = &mut self.heads[stream as usize];
        let room = HEAD_BYTES - head.bytes.len();
        head.bytes.extend_from_slice(&buffer[..len.min(room)]);
        head.total += len as u64;
        self.kept.push_back(Kept { seq, stream, bytes: kept(buffer, len, spare) });
        self.bytes += len;
        self.unacked.bytes += len;
        self.unacked.chunks += 1;
    }

    /// Drops the oldest chunks until one more of this size fits; gives the memory of the last of them.
    fn make_room(&mut self, size: usize) -> Option<Box<[u8]>> {
        let mut spare = None;
        while self.bytes + size > self.max_bytes || self.kept.len() >= self.max_chunks {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            if self.acked.is_none_or(|acked| oldest.seq > acked) {
                self.unacked.bytes -= oldest.bytes.len();
                self.unacked.chunks -= 1;
            }
            self.note_dropped(oldest.seq, oldest.bytes.len() as u64);
            spare = Some(oldest.bytes);
        }
        spare
    }

    fn note_dropped(&mut self, seq: u64, size: u64) {
        if let Some((last, bytes)) = self.dropped.back_mut()
            && *last > self.shown
        {
            *last = seq;
            *bytes += size;
            return;
        }
        if self.dropped.len() == REMEMBERED
            && let Some((_, size)) = self.dropped.pop_front()
        {
            self.dropped_before += size;
        }
        self.dropped.push_back((seq, size));
    }

    /// The retained chunks after a seq, oldest first.
    pub(super) fn after(&self, seq: u64) -> impl Iterator<Item = &Kept> {
        let from = self.kept.partition_point(|kept| kept.seq <= seq);
        self.kept.range(from..)
    }

    /// Bytes after a seq that are gone; exact for a seq that a client can have got to, unless very many chunks were
    /// dropped since. What is not remembered one by one counts for whoever may have missed it.
    pub(super) fn dropped_after(&self, seq: u64) -> u64 {
        let from = self.dropped.partition_point(|(dropped, _)| *dropped <= seq);
        let remembered: u64 = self.dropped.range(from..).map(|(_, size)| *size).sum();
        if from == 0 { self.dropped_before + remembered } else { remembered }
    }

    /// All bytes that are gone.
    pub(super) fn dropped(&self) -> u64 {
        let total: u64 = self.heads.iter().map(|head| head.total).sum();
        total - self.bytes as u64
    }

    /// The first and the last of each stream that had output.
    pub(super) fn views(&self) -> impl Iterator<Item = View<'_>> {
        Stream::ALL.into_iter().filter(|stream| self.heads[*stream as usize].total > 0).map(|s| self.view(s))
    }

    fn view(&self, stream: Stream) -> View<'_> {
        let head = &self.heads[stream as usize];
        let behind_head = head.total - head.bytes.len() as u64;
        let wanted = usize::try_from(behind_head).unwrap_or(usize::MAX).min(TAIL_BYTES);
        let mut chunks = Vec::new();
        let mut found = 0;
        for kept in self.kept.iter().rev().filter(|kept| kept.stream == stream) {
            let part = kept.bytes.len().min(wanted - found);
            chunks.push(&kept.bytes[kept.bytes.len() - part..]);
            found += part;
            if found == wanted {
                break;
            }
        }
        chunks.reverse();
        View { stream, head: &head.bytes, tail: chunks.concat(), gap: behind_head - found as u64 }
    }
}

/// In a flood all chunks have one size: then the oldest one's memory is taken, and none is given back to the kernel and
/// asked for again. Where it fills its buffer, it is not even copied.
fn kept(buffer: &mut Vec<u8>, len: usize, spare: Option<Box<[u8]>>) -> Box<[u8]> {
    match spare.filter(|spare| spare.len() == len) {
        spare if len == buffer.len() => {
            std::mem::replace(buffer, spare.map_or_else(Vec::new, Vec::from)).into_boxed_slice()
        }
        Some(mut spare) => {
            spare.copy_from_slice(&buffer[..len]);
            spare
        }
        None => buffer[..len].into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(ring: &mut Ring, seq: u64, stream: Stream, bytes: &[u8]) {
        ring.push(seq, stream, &mut bytes.to_vec(), bytes.len());
    }

    #[test]
    fn a_chunk_larger_than_the_ring_stays_until_the_next() {
        let mut ring = Ring::new(10, 100);
        push(&mut ring, 1, Stream::Stdout, &[0; 50]);
        assert_eq!(ring.after(0).count(), 1);
        push(&mut ring, 2, Stream::Stdout, &[0; 1]);
        assert_eq!(ring.after(0).map(|kept| kept.seq).collect::<Vec<_>>(), [2]);
        assert_eq!((ring.dropped_after(0), ring.dropped_after(1)), (50, 0));
    }

    #[test]
    fn head_gap_and_tail_make_up_the_stream() {
        let mut ring = Ring::new(40_000, 100);
        let text: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        let mut seen = 0;
        for (seq, chunk) in text.chunks(7_000).enumerate() {
            push(&mut ring, seq as u64 + 1, Stream::Stdout, chunk);
            push(&mut ring, seq as u64 + 1, Stream::Stderr, &chunk[..1]);
            seen += chunk.len();
            let view = ring.views().next().expect("stdout");
            let gap = usize::try_from(view.gap).expect("small");
            assert_eq!(view.head.len() + gap + view.tail.len(), seen);
            assert!(view.head == &text[..view.head.len()]);
            assert!(view.tail == text[seen - view.tail.len()..seen]);
            assert!(gap == 0 || view.head.len() == HEAD_BYTES);
        }
        let streams: Vec<Stream> = ring.views().map(|view| view.stream).collect();
        assert_eq!(streams, [Stream::Stdout, Stream::Stderr]);
    }

    #[test]
    fn what_is_not_acknowledged_stays_and_fills_the_ring() {
        let mut ring = Ring::new(10_000, 3);
        push(&mut ring, 1, Stream::Stdout, &[0; 6_000]);
        assert_eq!(ring.room(), usize::MAX, "whoever does not acknowledge is dropped from");
        ring.acknowledge(0);
        assert_eq!(ring.room(), 0, "less than is worth while");
        push(&mut ring, 2, Stream::Stdout, &[0; 4_000]);
        ring.acknowledge(1);
        assert_eq!(ring.room(), 6_000);
        push(&mut ring, 3, Stream::Stdout, &[0; 1]);
        assert_eq!(ring.room(), 5_999);
        push(&mut ring, 4, Stream::Stdout, &[0; 1]);
        assert_eq!(ring.after(1).map(|kept| kept.seq).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(ring.room(), 0, "three chunks");
        ring.acknowledge(0);
        assert_eq!(ring.room(), 0, "nothing is taken back");
        ring.acknowledge(u64::MAX);
        assert_eq!((ring.unacked, ring.room()), (Amount::default(), 10_000));
        push(&mut ring, 5, Stream::Stdout, &[0; 9_000]);
        assert_eq!((ring.after(0).count(), ring.dropped()), (3, 10_000));
    }

    #[test]
    fn what_nobody_has_seen_is_one_stretch() {
        let mut ring = Ring::new(1, 100);
        for seq in 1..=3 * REMEMBERED as u64 {
            push(&mut ring, seq, Stream::Stdout, b"xy");
            if seq == 2 {
                ring.show(seq);
            }
        }
        assert!(ring.dropped.len() <= 3);
        let all = 6 * REMEMBERED as u64;
        assert_eq!(
            [ring.dropped_after(0), ring.dropped_after(1), ring.dropped_after(2)],
            [all - 2, all - 4, all - 6]
        );
    }

    #[test]
    fn a_full_buffer_is_kept_and_replaced_by_what_is_dropped() {
        let mut ring = Ring::new(8, 100);
        let mut buffer = b"full".to_vec();
        let first = buffer.as_ptr();
        ring.push(1, Stream::Stdout, &mut buffer, 4);
        assert!(buffer.is_empty());
        buffer = b"more".to_vec();
        ring.push(2, Stream::Stdout, &mut buffer, 3);
        assert_eq!(buffer, b"more", "what is not full is copied");
        ring.push(3, Stream::Stdout, &mut buffer, 4);
        assert_eq!((buffer.as_ptr(), buffer.len()), (first, 4));
        let kept: Vec<&[u8]> = ring.after(0).map(|kept| &*kept.bytes).collect();
        assert_eq!(kept, [&b"mor"[..], b"more"]);
    }

    proptest! {
        #[test]
        fn every_byte_is_kept_or_counted(sizes in proptest::collection::vec(1usize..40, 0..300), after in 0u64..300) {
            let mut ring = Ring::new(200, 20);
            ring.show(after);
            for (i, size) in sizes.iter().enumerate() {
                push(&mut ring, i as u64 + 1, Stream::Pty, &vec![0; *size]);
            }
            let kept: usize = ring.after(after).map(|kept| kept.bytes.len()).sum();
            let all: usize = sizes.iter().skip(usize::try_from(after).expect("small")).sum();
            prop_assert_eq!(kept as u64 + ring.dropped_after(after), all as u64);
            prop_assert!(ring.bytes <= 200 || ring.kept.len() == 1);
            prop_assert!(ring.kept.len() <= 20);
        }
    }
}
