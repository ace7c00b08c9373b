//! Names that the tab key was answered with: a second press within seconds asks no cluster, and a
//! cluster that takes too long is answered for by what it said some minutes ago. Only names are
//! kept, in a file that only the user can read.

use jiff::Timestamp;
use serde_json::{Value, json};

use gpuctl_cluster::{Access, Connection};
use gpuctl_local::cache::Cache;

/// Seconds for which names are believed: while somebody presses the key again.
const FRESH: i64 = 10;
/// Seconds for which names are better than none.
const USABLE: i64 = 600;

/// What was answered to one kind of question.
pub(super) struct KeptNames {
    cache: Cache,
    question: String,
    now: i64,
}

impl KeptNames {
    /// Finds what was kept of `kind` for a server, a user and a namespace; nothing is kept where
    /// the kubeconfig does not name them.
    pub(super) fn of(kind: &str, access: &Access, now: Timestamp) -> Self {
        let place = Connection::place(access);
        let cache = place
            .as_ref()
            .map_or_else(Cache::none, |_| Cache::of_found());
        Self {
            cache,
            question: json!(["names", kind, place]).to_string(),
            now: now.as_second(),
        }
    }

    fn younger_than(&self, seconds: i64) -> Option<Vec<String>> {
        let mut kept = self.cache.get(&self.question)?;
        let at = kept["at"].as_i64()?;
        // A clock that was set back makes nothing young.
        let is_young = (0..seconds).contains(&(self.now - at));
        is_young
            .then(|| serde_json::from_value(Value::take(&mut kept["names"])).ok())
            .flatten()
    }

    /// Returns names that need not be asked for again.
    pub(super) fn fresh(&self) -> Option<Vec<String>> {
        self.younger_than(FRESH)
    }

    /// Returns names for a cluster that does not answer in time.
    pub(super) fn usable(&self) -> Option<Vec<String>> {
        self.younger_than(USABLE)
    }

    pub(super) fn keep(&self, names: &[String]) {
        self.cache
            .put(&self.question, &json!({"at": self.now, "names": names}));
    }
}
