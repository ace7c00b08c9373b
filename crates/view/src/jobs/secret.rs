//! Renders the result of `create secret` without the secret's values.

use schemars::JsonSchema;
use serde::Serialize;

/// A secret that was written.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Written {
    pub name: String,
    pub namespace: String,
    pub r#type: &'static str,
    pub keys: Vec<String>,
    /// False when an existing secret of this name was replaced.
    pub created: bool,
}

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
