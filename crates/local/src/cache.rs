//! Caches answers on disk. Rows for past hours never change. Facts about a cluster, such as its
//! kinds and the address of its Prometheus, expire after a few minutes.
//!
//! A damaged file, or one for another version or query, counts as missing. Several processes may
//! read and write at the same time.

use std::path::PathBuf;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::files::trust;

/// Version of the calculations whose results are cached. Changing it invalidates all cached
/// answers.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/6");

/// A directory with cached answers; `None` disables the cache.
#[derive(Clone, Debug, Default)]
pub struct Cache(Option<PathBuf>);

impl Cache {
    /// Opens the cache of hourly rows in the user's cache directory.
    pub fn hourly_rows() -> Self {
        Self(dirs::cache_dir().map(|folder| folder.join("gpuctl/history")))
    }

    /// Opens the cache of facts about clusters in the user's cache directory.
    pub fn cluster_facts() -> Self {
        Self(dirs::cache_dir().map(|folder| folder.join("gpuctl/found")))
    }

    /// Creates a cache that stores nothing.
    pub fn disabled() -> Self {
        Self(None)
    }

    fn path(&self, question: &str) -> Option<PathBuf> {
        let hash = digest(&SHA256, question.as_bytes());
        let name: String = hash
            .as_ref()
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(self.0.as_deref()?.join(format!("{name}.json")))
    }

    /// Looks up the cached answer to a question.
    pub fn get(&self, question: &str) -> Option<Value> {
        let path = self.path(question)?;
        let mut entry: Value = serde_json::from_str(&trust::read_trusted(&path).ok()?).ok()?;
        let is_match = entry["version"] == VERSION && entry["question"] == question;
        is_match
            .then(|| entry["answer"].take())
            .filter(|answer| !answer.is_null())
    }

    /// Stores an answer. Failures are ignored, because the caller can ask again.
    pub fn put(&self, question: &str, answer: &impl Serialize) {
        let Some(path) = self.path(question) else {
            return;
        };
        let entry = json!({"version": VERSION, "question": question, "answer": answer}).to_string();
        let _ = trust::write_own(&path, entry.as_bytes());
    }
}
