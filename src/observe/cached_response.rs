//! Caches data from the API server, so that a watch can refresh metrics more often than the
//! inventory.

use std::cell::RefCell;

use gpuctl_cluster::Failure;

/// An optional response of the API server, kept for later refreshes.
pub(crate) struct CachedResponse<T> {
    response: RefCell<Option<T>>,
    /// Whether a later refresh will use the cache. If false, the response is not copied, because
    /// the data of a large cluster uses much memory.
    is_reused: bool,
}

impl<T: Clone> CachedResponse<T> {
    /// Creates an empty cache. A command that reads once passes `false`, so nothing is cached.
    pub(crate) fn new(is_reused: bool) -> Self {
        Self {
            response: RefCell::new(None),
            is_reused,
        }
    }

    /// Returns the cached response. Reads a new one if the cache is empty or `fresh` is set.
    pub(crate) async fn get_or_read(
        &self,
        fresh: bool,
        read: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if !fresh && let Some(cached) = self.response.borrow().clone() {
            return Ok(cached);
        }
        // Drop the old response first, so that a failed read does not leave stale data in the
        // cache.
        self.response.replace(None);
        let response = read.await?;
        if self.is_reused {
            self.response.replace(Some(response.clone()));
        }
        Ok(response)
    }
}
