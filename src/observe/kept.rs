//! Caches what was read from the API server, so that a watch can refresh metrics more often than
//! the inventory.

use std::cell::RefCell;

use gpuctl_cluster::Failure;

/// A response that is reused for later refreshes.
pub(crate) struct KeptAnswer<T> {
    answer: RefCell<Option<T>>,
    /// Whether later refreshes follow. If not, nothing is copied, because a copy of a large cluster
    /// costs memory.
    again: bool,
}

impl<T: Clone> KeptAnswer<T> {
    /// Starts without a cached response; caches one only if there will be another refresh.
    pub(crate) fn new(again: bool) -> Self {
        Self {
            answer: RefCell::new(None),
            again,
        }
    }

    /// Returns the cached response, or reads a new one if there is none or `fresh` is set.
    pub(crate) async fn or(
        &self,
        fresh: bool,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if !fresh && let Some(kept) = self.answer.borrow().clone() {
            return Ok(kept);
        }
        // Drop the old response first: if the read fails, stale data must not reappear.
        self.answer.replace(None);
        let answer = read.await?;
        if self.again {
            self.answer.replace(Some(answer.clone()));
        }
        Ok(answer)
    }
}
