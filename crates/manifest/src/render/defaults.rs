//! Builds the ConfigMap that stores a site's defaults: the document as written, and the parts that
//! gpuctl reads without parsing the document.

use serde_json::{Value, json};

use super::Object;
use crate::spec::SiteDefaults;
use gpuctl_core::model::contract::labels::{HOME, KIND, MANAGED_BY, MANAGED_BY_US, USER};

/// Key of the document in the ConfigMap.
pub const DEFAULTS_FILE: &str = "defaults.yaml";
/// Key of the node labels that contain the GPU type, one per line.
pub const DEFAULTS_TYPE_LABELS: &str = "gpu-type-labels";

/// Builds the ConfigMap of the defaults, written by `user`.
pub fn defaults(site: &SiteDefaults, user: Option<&str>) -> Object {
    let mut metadata = json!({
        "name": SiteDefaults::NAME, "namespace": HOME,
        "labels": {MANAGED_BY: MANAGED_BY_US, KIND: "defaults"},
    });
    if let Some(user) = user {
        metadata["annotations"] = json!({USER: user});
    }
    let mut data = json!({DEFAULTS_FILE: site.source});
    if !site.gpu_type_labels.is_empty() {
        data[DEFAULTS_TYPE_LABELS] = Value::from(site.gpu_type_labels.join("\n"));
    }
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    Object {
        body,
        plural: "configmaps",
        shared: true,
        kept: true,
    }
}
