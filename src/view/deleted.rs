//! What `delete` did.

use serde::Serialize;

use crate::error::Error;

/// A job that is going or gone.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    pub job_id: String,
    /// `null` for what belongs to no namespace.
    pub namespace: Option<String>,
    /// `terminating` while pods end, `deleted` when they are gone.
    pub status: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, Serialize)]
struct NotDeleted {
    name: String,
    error: String,
    message: String,
}

/// The answer to several names.
#[derive(Serialize)]
pub struct DeletionBatch<'a> {
    success: &'a [Deleted],
    failed: Vec<NotDeleted>,
}

#[must_use]
pub fn batch<'a>(deleted: &'a [Deleted], failed: &[(String, Error)]) -> DeletionBatch<'a> {
    let not = |(name, error): &(String, Error)| NotDeleted {
        name: name.clone(),
        error: error.name.to_string(),
        message: error.to_string(),
    };
    DeletionBatch { success: deleted, failed: failed.iter().map(not).collect() }
}

/// One job for people.
#[must_use]
pub fn text(deleted: &Deleted) -> String {
    format!("{} {}: {}\n", deleted.job_id, deleted.status, deleted.message)
}
