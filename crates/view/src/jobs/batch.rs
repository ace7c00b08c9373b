//! JSON output of commands that change several objects.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::error::Error;

#[derive(Clone, Debug, JsonSchema, Serialize)]
struct NotChanged {
    name: String,
    error: String,
    message: String,
}

/// The results of a command with several names.
#[derive(JsonSchema, Serialize)]
pub struct Batch<'a, T> {
    success: &'a [T],
    failed: Vec<NotChanged>,
}

pub fn batch<'a, T>(success: &'a [T], failed: &[(String, Error)]) -> Batch<'a, T> {
    let failed = failed.iter().map(|(name, error)| NotChanged {
        name: name.clone(),
        error: error.name.to_string(),
        message: error.to_string(),
    });
    Batch {
        success,
        failed: failed.collect(),
    }
}
