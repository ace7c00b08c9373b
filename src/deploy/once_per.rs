//! Caches asynchronous results by key, such as a namespace. The documents of a run are checked
//! concurrently, and the first document that needs a result fetches it for all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::OnceCell;

pub(super) struct OncePer<V>(RefCell<BTreeMap<String, Rc<OnceCell<V>>>>);

impl<V> Default for OncePer<V> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<V: Clone> OncePer<V> {
    /// Returns the result for `key`. Runs `compute` on the first request for the key.
    pub(super) async fn get(&self, key: &str, compute: impl AsyncFnOnce() -> V) -> V {
        // End the borrow before the `await`, because other documents use the map while this one
        // waits.
        let cell = Rc::clone(self.0.borrow_mut().entry(key.to_owned()).or_default());
        cell.get_or_init(|| compute()).await.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::future::join3;

    use super::*;

    #[tokio::test]
    async fn computes_each_key_once_for_concurrent_callers() {
        let (calls, cache) = (Cell::new(0), OncePer::default());
        let compute = async || {
            tokio::task::yield_now().await;
            calls.set(calls.get() + 1);
            calls.get()
        };
        let answers = join3(
            cache.get("a", compute),
            cache.get("a", compute),
            cache.get("b", compute),
        )
        .await;
        assert_eq!((answers.0, answers.1, calls.get()), (1, 1, 2));
        assert_eq!(answers.2, 2);
    }
}
