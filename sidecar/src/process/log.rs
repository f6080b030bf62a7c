//! What happened to one process, numbered: output, exit, close. Its pump writes it and sends from it, `process/read`
//! reads it.

use base64::Engine as _;
use sidecar_protocol::process::{
    Chunk, ClosedNotification, ExitedNotification, ReadResult, SnapshotResult, Stream, StreamSnapshot,
    WaitResult,
};
use sidecar_protocol::{BASE64, envelope, frame, method};

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
    exited: Option<ExitedNotification>,
    closed: Option<ClosedNotification>,
    failure: Option<String>,
    /// Where the connection that was attached last goes on, unless its client acknowledges.
    live_from: u64,
}

impl Log {
    pub(super) fn new(limits: &Limits) -> Log {
        Log {
            ring: Ring::new(limits.retained_bytes, limits.retained_chunks),
            next_seq: 1,
            exited: None,
            closed: None,
            failure: None,
            live_from: 1,
        }
    }

    /// Each event takes the next number. Takes the first `len` bytes of a buffer, as [`Ring::push`] does.
    pub(super) fn output(&mut self, stream: Stream, buffer: &mut Vec<u8>, len: usize) -> u64 {
        let seq = self.take_seq();
        self.ring.push(seq, stream, buffer, len);
        seq
    }

    /// Gives the exit its number.
    pub(super) fn exited(&mut self, exited: ExitedNotification, failure: Option<String>) -> u64 {
        let seq = self.take_seq();
        self.exited = Some(ExitedNotification { seq, ..exited });
        self.failure = failure;
        seq
    }

    pub(super) fn closed(&mut self, process_id: &str) -> u64 {
        let seq = self.take_seq();
        self.closed = Some(ClosedNotification { process_id: process_id.to_owned(), seq });
        seq
    }

    /// The seq of the newest event; 0 where there is none.
    pub(super) fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// The notification of the first retained event after a seq, and its number. The client may have it from then on.
    pub(super) fn event_after(&mut self, seq: u64, process_id: &str) -> Option<(u64, Vec<u8>)> {
        let output = self.ring.after(seq).next();
        let exited = self.exited.as_ref().filter(|exited| exited.seq > seq);
        let closed = self.closed.as_ref().filter(|closed| closed.seq > seq);
        let event = match (output, exited, closed) {
            (Some(output), exited, _) if exited.is_none_or(|exited| output.seq < exited.seq) => {
                (output.seq, frame::output(process_id, output.seq, output.stream, &output.bytes))
            }
            (_, Some(exited), _) => {
                (exited.seq, envelope::notification(method::PROCESS_EXITED, exited).into())
            }
            (_, _, Some(closed)) => {
                (closed.seq, envelope::notification(method::PROCESS_CLOSED, closed).into())
            }
            _ => return None,
        };
        self.ring.show(event.0);
        Some(event)
    }

    /// The client may have everything up to a seq from now on.
    pub(super) fn show(&mut self, seq: u64) {
        self.ring.show(seq);
    }

    /// A connection is attached: what happens from now on is sent to it, whatever its pump is doing meanwhile.
    pub(super) fn attach(&mut self) {
        self.live_from = self.next_seq;
    }

    /// The seq of the first event that the connection gets of itself.
    pub(super) fn live_from(&self) -> u64 {
        self.live_from
    }

    /// The client has everything up to a seq.
    pub(super) fn acknowledge(&mut self, seq: u64) {
        self.ring.acknowledge(seq.min(self.last_seq()));
    }

    /// How many bytes the next chunk may have; 0: it must wait for the client to acknowledge.
    pub(super) fn room(&self) -> usize {
        self.ring.room()
    }

    /// How it ended, as far as it has.
    pub(super) fn end(&self) -> WaitResult {
        WaitResult {
            exited: self.exited.is_some(),
            exit_code: self.exit_code(),
            signal: self.exited.as_ref().and_then(|exited| exited.signal.clone()),
            closed: self.closed.is_some(),
        }
    }

    /// The first and the last of each stream.
    pub(super) fn snapshot(&self) -> SnapshotResult {
        let stream = |view: View<'_>| StreamSnapshot {
            stream: view.stream,
            head: BASE64.encode(view.head),
            tail: BASE64.encode(&view.tail),
            dropped_bytes: view.gap,
        };
        SnapshotResult {
            streams: self.ring.views().map(stream).collect(),
            next_seq: self.next_seq,
            exited: self.exited.is_some(),
            exit_code: self.exit_code(),
            closed: self.closed.is_some(),
        }
    }

    /// All output that is no longer retained, bytes.
    pub(super) fn dropped_bytes(&self) -> u64 {
        self.ring.dropped()
    }

    fn exit_code(&self) -> Option<i32> {
        self.exited.as_ref().map(|exited| exited.exit_code)
    }

    fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// At least one chunk where there is one, whatever `max_bytes` says.
    pub(super) fn read(&mut self, after_seq: u64, max_bytes: Option<u64>) -> ReadResult {
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
            let chunk = BASE64.encode(&kept.bytes);
            chunks.push(Chunk { seq: kept.seq, stream: kept.stream, chunk });
        }
        let last = chunks.last().map_or(after_seq, |chunk| chunk.seq);
        // With a bound the client goes on from the last chunk; the exit has a number of its own, which it then asks for.
        let next_seq = if max_bytes.is_none() && all { self.next_seq } else { last.saturating_add(1) };
        let dropped_bytes = self.ring.dropped_after(after_seq);
        self.ring.show(next_seq.saturating_sub(1).min(self.last_seq()));
        ReadResult {
            chunks,
            next_seq,
            exited: self.exited.is_some(),
            exit_code: self.exit_code(),
            closed: self.closed.is_some(),
            failure: self.failure.clone(),
            sandbox_denied: self.exited.as_ref().is_some_and(|exited| exited.sandbox_denied),
            dropped_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, sandbox_denied: bool) -> ExitedNotification {
        ExitedNotification {
            process_id: String::from("p"),
            seq: 0,
            exit_code: code,
            signal: None,
            cause: None,
            sandbox_denied,
            hint: None,
        }
    }

    fn log() -> Log {
        let mut log = Log::new(&Limits::default());
        assert_eq!(log.output(Stream::Stdout, &mut b"one".to_vec(), 3), 1);
        assert_eq!(log.output(Stream::Stderr, &mut b"two".to_vec(), 3), 2);
        log
    }

    #[test]
    fn after_is_exclusive_and_one_chunk_always_comes() {
        let mut log = log();
        let mut seqs = |after, max| log.read(after, max).chunks.iter().map(|c| c.seq).collect::<Vec<_>>();
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
        assert_eq!(log.exited(exit(7, true), None), 3);
        assert_eq!(log.closed("p"), 4);
        let read = log.read(0, None);
        assert_eq!((read.next_seq, read.exit_code, read.exited, read.closed), (5, Some(7), true, true));
        assert!(read.sandbox_denied);
        assert_eq!(log.read(0, Some(3)).next_seq, 2);
        assert_eq!(log.read(2, Some(3)).next_seq, 3);
    }

    #[test]
    fn events_are_told_again_in_their_order() {
        let mut log = log();
        log.exited(exit(0, false), None);
        log.output(Stream::Stdout, &mut b"of a child".to_vec(), 10);
        log.closed("p");
        let mut seq = 0;
        let mut told = Vec::new();
        while let Some((next, text)) = log.event_after(seq, "p") {
            assert_eq!(next, seq + 1);
            let text = String::from_utf8(text).expect("text");
            assert!(text.contains(&format!(r#""seq":{next}"#)), "{text}");
            told.push(text.split('"').nth(3).map(str::to_owned));
            seq = next;
        }
        let told: Vec<_> = told.iter().flatten().collect();
        let output = method::PROCESS_OUTPUT;
        assert_eq!(told, [output, output, method::PROCESS_EXITED, output, method::PROCESS_CLOSED]);
    }
}
