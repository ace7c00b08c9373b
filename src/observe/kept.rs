//! Keeps what was read of the cluster until it is to be read again, so that metrics can be asked
//! more often than inventories.

use std::cell::RefCell;

use gpuctl_cluster::Failure;

/// An answer that is kept for the looks that follow.
pub(crate) struct KeptAnswer<T> {
    answer: RefCell<Option<T>>,
    /// False when none follows: a copy of a large cluster costs memory.
    again: bool,
}

impl<T: Clone> KeptAnswer<T> {
    /// Begins without an answer; keeps one if there will be looks `again`.
    pub(crate) fn new(again: bool) -> Self {
        Self {
            answer: RefCell::new(None),
            again,
        }
    }

    /// Returns the answer that is kept; reads it when there is none, or a `fresh` one is wanted.
    pub(crate) async fn or(
        &self,
        fresh: bool,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if !fresh && let Some(kept) = self.answer.borrow().clone() {
            return Ok(kept);
        }
        // What is out of date is not shown again when the new answer fails.
        self.answer.replace(None);
        let answer = read.await?;
        if self.again {
            self.answer.replace(Some(answer.clone()));
        }
        Ok(answer)
    }
}
