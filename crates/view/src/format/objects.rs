//! Renders Kubernetes objects as one document that `kubectl apply -f` accepts.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The JSON output of commands that print objects: `create --dry-run=client` and
/// `auth check --emit-role`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectList<'a> {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<&'a Value>,
}

impl<'a> ObjectList<'a> {
    pub fn new(items: impl IntoIterator<Item = &'a Value>) -> Self {
        Self {
            api_version: "v1",
            kind: "List",
            items: items.into_iter().collect(),
        }
    }
}
