//! Completion cache. Repeated Tab presses reuse names for a few seconds, and slow clusters fall
//! back to names that are a few minutes old. Stores only names, in a file that only the user can
//! read.

use jiff::Timestamp;
use serde_json::{Value, json};

use gpuctl_cluster::{Access, Connection};
use gpuctl_local::cache::Cache;

/// Age in seconds up to which names are used without a request.
const FRESH: i64 = 10;
/// Age in seconds up to which names are used if the cluster is slow.
const USABLE: i64 = 600;

/// The cached names of one kind.
pub(super) struct CachedNames {
    cache: Cache,
    question: String,
    now: i64,
}

impl CachedNames {
    /// Opens the cache of `kind` for a server, user and namespace. Without a kubeconfig that names
    /// them, caches nothing.
    pub(super) fn open(kind: &str, access: &Access, now: Timestamp) -> Self {
        let location = Connection::place(access);
        let cache = location
            .as_ref()
            .map_or_else(Cache::disabled, |_| Cache::cluster_facts());
        Self {
            cache,
            question: json!(["names", kind, location]).to_string(),
            now: now.as_second(),
        }
    }

    fn younger_than(&self, seconds: i64) -> Option<Vec<String>> {
        let mut entry = self.cache.get(&self.question)?;
        let stored_at = entry["at"].as_i64()?;
        // If the clock was set back, the age is negative and the entry counts as old.
        let is_young = (0..seconds).contains(&(self.now - stored_at));
        is_young
            .then(|| serde_json::from_value(Value::take(&mut entry["names"])).ok())
            .flatten()
    }

    /// Returns names that are young enough to skip the request.
    pub(super) fn fresh(&self) -> Option<Vec<String>> {
        self.younger_than(FRESH)
    }

    /// Returns names that are young enough for a cluster that does not respond in time.
    pub(super) fn usable(&self) -> Option<Vec<String>> {
        self.younger_than(USABLE)
    }

    pub(super) fn store(&self, names: &[String]) {
        self.cache
            .put(&self.question, &json!({"at": self.now, "names": names}));
    }
}
