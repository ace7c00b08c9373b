//! Caches data from the API server, so that a watch can refresh metrics more often than the
//! inventory.

use std::cell::RefCell;

use gpuctl_cluster::Failure;

/// A response that is reused for later refreshes.
pub(crate) struct CachedResponse<T> {
    response: RefCell<Option<T>>,
    /// Whether there will be more refreshes. If not, nothing is copied, because a copy of a large
    /// cluster uses memory.
    is_reused: bool,
}

impl<T: Clone> CachedResponse<T> {
    /// Starts without a cached response. Responses are cached only if there will be more refreshes.
    pub(crate) fn new(is_reused: bool) -> Self {
        Self {
            response: RefCell::new(None),
            is_reused,
        }
    }

    /// Returns the cached response. If there is none, or if `fresh` is set, reads a new one.
    pub(crate) async fn get_or_read(
        &self,
        fresh: bool,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if !fresh && let Some(cached) = self.response.borrow().clone() {
            return Ok(cached);
        }
        // Drop the old response first, so that stale data does not reappear if the read fails.
        self.response.replace(None);
        let response = read.await?;
        if self.is_reused {
            self.response.replace(Some(response.clone()));
        }
        Ok(response)
    }
}
