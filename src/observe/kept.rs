//! Keeps what was read of the cluster until it is to be read again, so that metrics can be asked more often than inventories.

use std::cell::RefCell;

use crate::cluster::Failure;

/// An answer that is kept.
pub(crate) struct Kept<T>(RefCell<Option<T>>);

impl<T: Clone> Kept<T> {
    /// Begins without an answer.
    pub(crate) fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Returns the answer that is kept; reads it when there is none, or a `fresh` one is wanted.
    pub(crate) async fn or(&self, fresh: bool, read: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let kept = self.0.borrow().clone().filter(|_| !fresh);
        if let Some(kept) = kept {
            return Ok(kept);
        }
        // What is out of date is not shown again when the new answer fails.
        self.0.replace(None);
        let answer = read.await?;
        self.0.replace(Some(answer.clone()));
        Ok(answer)
    }
}
