//! Renders what `create secret` did, without values.

use schemars::JsonSchema;
use serde::Serialize;

/// A secret that was written.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Written {
    pub name: String,
    pub namespace: String,
    pub r#type: &'static str,
    pub keys: Vec<String>,
    /// False when one of that name was replaced.
    pub created: bool,
}

/// Returns one secret for people.
pub fn text(written: &Written) -> String {
    let verb = if written.created {
        "created"
    } else {
        "replaced"
    };
    format!(
        "secret/{} {verb} in {}: {}\n",
        written.name,
        written.namespace,
        written.keys.join(", ")
    )
}
