//! What happened to one process, numbered: output, exit, close. Its pump writes it, `process/read` reads it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sidecar_protocol::process::{Chunk, ReadResult, SnapshotResult, Stream, StreamSnapshot, WaitResult};

use super::ring::{Ring, View};
use crate::config::Limits;

/// Most output in one answer where the request sets no bound; well below what a client takes in one message.
const MAX_READ_BYTES: u64 = 32 << 20;

/// Most chunks in one answer: each has four JSON values, and a client takes 262,144 in one message.
const MAX_READ_CHUNKS: usize = 50_000;

/// The numbered events of one process.
#[derive(Debug)]
pub(super) struct Log {
    ring: Ring,
    next_seq: u64,
    exit_code: Option<i32>,
    signal: Option<String>,
    closed: bool,
    failure: Option<String>,
    sandbox_denied: bool,
}

impl Log {
    pub(super) fn new(limits: &Limits) -> Log {
        Log {
            ring: Ring::new(limits.retained_bytes, limits.retained_chunks),
            next_seq: 1,
            exit_code: None,
            signal: None,
            closed: false,
            failure: None,
            sandbox_denied: false,
        }
    }

    /// Each event takes the next number.
    pub(super) fn output(&mut self, stream: Stream, bytes: &[u8]) -> u64 {
        let seq = self.take_seq();
        self.ring.push(seq, stream, bytes);
        seq
    }

    pub(super) fn exited(
        &mut self,
        code: i32,
        signal: Option<String>,
        sandbox_denied: bool,
        failure: Option<String>,
    ) -> u64 {
        self.exit_code = Some(code);
        self.signal = signal;
        self.sandbox_denied = sandbox_denied;
        self.failure = failure;
        self.take_seq()
    }

    pub(super) fn closed(&mut self) -> u64 {
        self.closed = true;
        self.take_seq()
    }

    /// How it ended, as far as it has.
    pub(super) fn end(&self) -> WaitResult {
        WaitResult {
            exited: self.exit_code.is_some(),
            exit_code: self.exit_code,
            signal: self.signal.clone(),
            closed: self.closed,
        }
    }

    /// The first and the last of each stream.
    pub(super) fn snapshot(&self) -> SnapshotResult {
        let stream = |view: View<'_>| StreamSnapshot {
            stream: view.stream,
            head: STANDARD.encode(view.head),
            tail: STANDARD.encode(&view.tail),
            dropped_bytes: view.gap,
        };
        SnapshotResult {
            streams: self.ring.views().map(stream).collect(),
            next_seq: self.next_seq,
            exited: self.exit_code.is_some(),
            exit_code: self.exit_code,
            closed: self.closed,
        }
    }

    /// All output that is no longer retained, bytes.
    pub(super) fn dropped_bytes(&self) -> u64 {
        self.ring.dropped()
    }

    fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// At least one chunk where there is one, whatever `max_bytes` says.
    pub(super) fn read(&self, after_seq: u64, max_bytes: Option<u64>) -> ReadResult {
        let max = max_bytes.unwrap_or(MAX_READ_BYTES).min(MAX_READ_BYTES);
        let mut chunks = Vec::new();
        let mut bytes = 0;
        let mut all = true;
        for kept in self.ring.after(after_seq) {
            bytes += kept.bytes.len() as u64;
            if (bytes > max && !chunks.is_empty()) || chunks.len() == MAX_READ_CHUNKS {
                all = false;
                break;
            }
            let chunk = STANDARD.encode(&kept.bytes);
            chunks.push(Chunk { seq: kept.seq, stream: kept.stream, chunk });
        }
        let last = chunks.last().map_or(after_seq, |chunk| chunk.seq);
        // With a bound the client goes on from the last chunk; the exit has a number of its own, which it then asks for.
        let next_seq = if max_bytes.is_none() && all { self.next_seq } else { last.saturating_add(1) };
        ReadResult {
            chunks,
            next_seq,
            exited: self.exit_code.is_some(),
            exit_code: self.exit_code,
            closed: self.closed,
            failure: self.failure.clone(),
            sandbox_denied: self.sandbox_denied,
            dropped_bytes: self.ring.dropped_after(after_seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let mut log = Log::new(&Limits::default());
        assert_eq!(log.output(Stream::Stdout, b"one"), 1);
        assert_eq!(log.output(Stream::Stderr, b"two"), 2);
        log
    }

    #[test]
    fn after_is_exclusive_and_one_chunk_always_comes() {
        let log = log();
        let seqs = |after, max| log.read(after, max).chunks.iter().map(|c| c.seq).collect::<Vec<_>>();
        assert_eq!(seqs(0, None), [1, 2]);
        assert_eq!(seqs(1, None), [2]);
        assert_eq!(seqs(2, None), [0; 0]);
        assert_eq!(seqs(0, Some(0)), [1]);
        assert_eq!(seqs(0, Some(5)), [1]);
        assert_eq!(seqs(0, Some(6)), [1, 2]);
        assert_eq!(seqs(u64::MAX, None), [0; 0]);
    }

    #[test]
    fn next_seq_covers_the_end_where_nothing_bounds_the_answer() {
        let mut log = log();
        assert_eq!(log.read(0, None).next_seq, 3);
        assert_eq!(log.exited(7, None, true, None), 3);
        assert_eq!(log.closed(), 4);
        let read = log.read(0, None);
        assert_eq!((read.next_seq, read.exit_code, read.exited, read.closed), (5, Some(7), true, true));
        assert!(read.sandbox_denied);
        assert_eq!(log.read(0, Some(3)).next_seq, 2);
        assert_eq!(log.read(2, Some(3)).next_seq, 3);
    }
}
