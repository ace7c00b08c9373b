//! Renders the result of `delete`.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::error::Error;
pub use gpuctl_core::model::contract::deletion::Deleted;

#[derive(Clone, Debug, JsonSchema, Serialize)]
struct NotDeleted {
    name: String,
    error: String,
    message: String,
}

/// The JSON output for several names.
#[derive(JsonSchema, Serialize)]
pub struct DeletionBatch<'a> {
    success: &'a [Deleted],
    failed: Vec<NotDeleted>,
}

pub fn batch<'a>(deleted: &'a [Deleted], failed: &[(String, Error)]) -> DeletionBatch<'a> {
    let not = |(name, error): &(String, Error)| NotDeleted {
        name: name.clone(),
        error: error.name.to_string(),
        message: error.to_string(),
    };
    DeletionBatch {
        success: deleted,
        failed: failed.iter().map(not).collect(),
    }
}

pub fn text(deleted: &Deleted) -> String {
    let name = deleted
        .job_id
        .as_ref()
        .or(deleted.name.as_ref())
        .map_or("", String::as_str);
    format!("{name} {}: {}\n", deleted.status, deleted.message)
}
