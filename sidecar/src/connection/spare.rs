//! The memory of large messages that were sent, for the next ones. A flood would else have the allocator give each
//! frame's pages back to the kernel and fetch them again, cleared, for the next; and a file that is read in blocks would
//! leave one in each of the allocator's heaps.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Sizes of frames of output; smaller ones are cheap to make, bytes.
const FRAMES: Range<usize> = 32 << 10..128 << 10;

/// What one flood has on its way while its client keeps up.
const MOST_FRAMES: usize = 4;

/// Sizes of blocks of files; those of whole files are not kept, bytes.
const BLOCKS: Range<usize> = FRAMES.end..2 << 20;

/// Of one reader that waits for each block.
const MOST_BLOCKS: usize = 1;

/// What is there to be used again; of all connections.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    frames: Mutex<Vec<Vec<u8>>>,
    blocks: Mutex<Vec<Vec<u8>>>,
}

impl Spare {
    /// A buffer for a message of so many bytes, with memory where there is some and the message is worth it: a small one
    /// would keep it from the next large one. What it holds is to be overwritten.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let kept = self.kept(bytes).and_then(|(kept, _)| lock(kept).pop());
        kept.unwrap_or_default()
    }

    /// Keeps a message's memory.
    pub(crate) fn put(&self, message: Vec<u8>) {
        if let Some((kept, most)) = self.kept(message.capacity()) {
            let mut kept = lock(kept);
            if kept.len() < most {
                kept.push(message);
            }
        }
    }

    /// The same with one that the WebSocket library had, unless it still has it.
    pub(crate) fn put_sent(&self, message: Bytes) {
        if let Ok(message) = message.try_into_mut() {
            self.put(message.into());
        }
    }

    /// Those of about that size, and how many of them are kept.
    fn kept(&self, bytes: usize) -> Option<(&Mutex<Vec<Vec<u8>>>, usize)> {
        match bytes {
            _ if FRAMES.contains(&bytes) => Some((&self.frames, MOST_FRAMES)),
            _ if BLOCKS.contains(&bytes) => Some((&self.blocks, MOST_BLOCKS)),
            _ => None,
        }
    }
}

fn lock(kept: &Mutex<Vec<Vec<u8>>>) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_used_again() {
        let spare = Spare::default();
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
        let spare = Spare::default();
        for bytes in [1, 4 << 20, 60_000, 60_000, 60_000, 60_000, 60_000] {
            spare.put(Vec::with_capacity(bytes));
        }
        let kept: Vec<usize> = std::iter::repeat_with(|| spare.take(60_000).capacity()).take(5).collect();
        assert!(
            kept[..MOST_FRAMES].iter().all(|bytes| *bytes >= 60_000) && kept[MOST_FRAMES] == 0,
            "{kept:?}"
        );
    }

    #[test]
    fn one_block_is_kept_beside_the_frames() {
        let spare = Spare::default();
        for bytes in [60_000, 1_400_000, 1_400_000] {
            spare.put(Vec::with_capacity(bytes));
        }
        assert!(spare.take(1_400_000).capacity() >= 1_400_000);
        assert_eq!(spare.take(1_400_000).capacity(), 0, "there was one");
        assert!((60_000..1_400_000).contains(&spare.take(60_000).capacity()), "a frame takes no block");
    }
}
