//! Caches answers on disk: the hourly rows of closed hours, which never change, what a user was
//! told of a cluster, which kinds it has, and where its Prometheus is, which its readers believe
//! for some minutes.
//!
//! Note: a file that is damaged, of another version or of another query counts as missing; several
//! processes may read and write at the same time.

use std::path::PathBuf;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::files::trust;

/// What the arithmetic is: a change of it makes all that was kept worthless.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/2");

/// A folder with answers; nothing is kept without one.
#[derive(Clone, Debug, Default)]
pub struct Cache(Option<PathBuf>);

impl Cache {
    /// Uses the user's cache folder.
    pub fn usual() -> Self {
        Self(dirs::cache_dir().map(|folder| folder.join("gpuctl/history")))
    }

    /// Uses the user's cache folder for what was found in clusters.
    pub fn of_found() -> Self {
        Self(dirs::cache_dir().map(|folder| folder.join("gpuctl/found")))
    }

    /// Makes a cache that keeps nothing.
    pub fn none() -> Self {
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

    /// Returns what was answered to the same question.
    pub fn get(&self, question: &str) -> Option<Value> {
        let path = self.path(question)?;
        let mut kept: Value = serde_json::from_str(&trust::own_text(&path).ok()?).ok()?;
        let same = kept["version"] == VERSION && kept["question"] == question;
        same.then(|| kept["answer"].take())
            .filter(|answer| !answer.is_null())
    }

    /// Keeps an answer. Whoever cannot keep it asks again the next time.
    pub fn put(&self, question: &str, answer: &impl Serialize) {
        let Some(path) = self.path(question) else {
            return;
        };
        let kept = json!({"version": VERSION, "question": question, "answer": answer}).to_string();
        let _ = trust::write_own(&path, kept.as_bytes());
    }
}
