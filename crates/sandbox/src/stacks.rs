//! Stacks that are used again: to map and unmap them costs more than a launch does with them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::Stacks;

/// Unused ones that are kept. Each holds a few KiB of memory.
const KEPT: usize = 8;

/// The unused stacks of one sandbox.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    unused: Arc<Mutex<Vec<Stacks>>>,
}

/// Stacks for one launch; they go back to their pool. Whoever drops them has seen the tasks on them end.
#[derive(Debug)]
pub(crate) struct Pooled {
    /// `None` only while it is being dropped.
    stacks: Option<Stacks>,
    pool: Pool,
}

impl Pool {
    /// Used ones, or new ones.
    ///
    /// # Errors
    /// There is no memory for new ones.
    pub(crate) fn take(&self) -> io::Result<Pooled> {
        let used = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stacks = used.map_or_else(Stacks::new, Ok)?;
        Ok(Pooled { stacks: Some(stacks), pool: self.clone() })
    }
}

impl Pooled {
    /// See [`Stacks::top`].
    pub(crate) fn top(&self, n: usize) -> *mut u8 {
        // Only the drop takes them.
        self.stacks.as_ref().unwrap_or_else(|| unreachable!("dropped stacks are used")).top(n)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut unused = self.pool.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < KEPT {
            unused.extend(self.stacks.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_used_again_and_few_are_kept() {
        let pool = Pool::default();
        let first = pool.take().expect("memory");
        let top = first.top(0);
        drop(first);
        let again = pool.take().expect("memory");
        assert_eq!(again.top(0), top);
        let other = pool.take().expect("memory");
        assert_ne!(other.top(0), top);
        let many: Vec<_> = (0..3 * KEPT).map(|_| pool.take().expect("memory")).collect();
        drop((again, other, many));
        assert_eq!(pool.unused.lock().expect("whole").len(), KEPT);
    }
}
