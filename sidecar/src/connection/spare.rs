//! The memory of frames of output that were sent, for the next ones. A flood would else have the allocator give each
//! frame's pages back to the kernel and fetch them again, cleared, for the next.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// So many are kept: what one flood has on its way while its client keeps up.
const MOST: usize = 4;

/// Smaller frames are cheap to make, bytes.
const WORTH_KEEPING: usize = 32 << 10;

/// Larger than any frame of output: those of whole files are not kept, bytes.
const TOO_LARGE: usize = 128 << 10;

/// What is there to be used again; of all connections.
#[derive(Debug, Default)]
pub(crate) struct SpareFrames(Mutex<Vec<Vec<u8>>>);

impl SpareFrames {
    /// A buffer for a frame of so many bytes of output, with memory where there is some and the frame is worth it: a
    /// small one would keep it from the next large one. What it holds is to be overwritten.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        if !Self::wants(bytes) {
            return Vec::new();
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Whether a frame of so many bytes is worth giving back.
    pub(crate) fn wants(bytes: usize) -> bool {
        (WORTH_KEEPING..TOO_LARGE).contains(&bytes)
    }

    /// Keeps a frame's memory.
    pub(crate) fn put(&self, frame: Vec<u8>) {
        if Self::wants(frame.capacity()) {
            let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < MOST {
                spare.push(frame);
            }
        }
    }

    /// The same with one that the WebSocket library had, unless it still has it.
    pub(crate) fn put_sent(&self, frame: Bytes) {
        if let Ok(frame) = frame.try_into_mut() {
            self.put(frame.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_used_again() {
        let spare = SpareFrames::default();
        let mut frame = Vec::with_capacity(90_000);
        frame.extend_from_slice(b"a frame");
        let at = frame.as_ptr();
        let sent = Bytes::from(frame);
        let held = sent.clone();
        spare.put_sent(sent);
        assert_eq!(spare.take(60_000).capacity(), 0, "somebody still has it");
        spare.put_sent(held);
        assert_eq!(spare.take(100).capacity(), 0, "a small one takes none");
        let again = spare.take(60_000);
        assert_eq!((&again[..], again.as_ptr()), (&b"a frame"[..], at));
        assert!(again.capacity() >= 90_000);
    }

    #[test]
    fn few_are_kept_and_none_that_is_small_or_large() {
        let spare = SpareFrames::default();
        for bytes in [1, 1 << 20, 60_000, 60_000, 60_000, 60_000, 60_000] {
            spare.put(Vec::with_capacity(bytes));
        }
        let kept: Vec<usize> = std::iter::repeat_with(|| spare.take(60_000).capacity()).take(5).collect();
        assert!(kept[..MOST].iter().all(|bytes| *bytes >= 60_000) && kept[MOST] == 0, "{kept:?}");
    }
}
