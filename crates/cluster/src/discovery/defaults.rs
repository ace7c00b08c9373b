//! Reads the ConfigMap that holds a site's defaults. The YAML in it is returned unparsed, because
//! `deploy/defaults.rs` parses it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::transport::lenient;
use crate::write::apply::Deletion;
use crate::{Failure, handles::SiteApi};
use gpuctl_core::model::Node;
use gpuctl_core::model::contract::labels::USER;
use gpuctl_manifest::render::{DEFAULTS_FILE, DEFAULTS_TYPE_LABELS};

const PATH: &str = "/api/v1/namespaces/gpuctl-system/configmaps/gpuctl-defaults";

/// The contents of the ConfigMap with the site's defaults.
#[derive(Clone, Debug)]
pub struct StoredDefaults {
    /// The defaults file as unparsed YAML.
    pub text: String,
    /// The user who last wrote the defaults.
    pub user: Option<String>,
    pub created_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct WireDefaults {
    metadata: WireMetadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    #[serde(default, deserialize_with = "lenient::time")]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl SiteApi<'_> {
    /// Reads the site's defaults; `None` if the site has none.
    pub async fn defaults(self) -> Result<Option<StoredDefaults>, Failure> {
        let stored: Option<WireDefaults> = self.0.find(PATH).await?;
        Ok(stored.and_then(|mut object| {
            Some(StoredDefaults {
                text: object.data.remove(DEFAULTS_FILE)?,
                user: object.metadata.annotations.remove(USER),
                created_at: object.metadata.creation_timestamp,
            })
        }))
    }

    /// Deletes the site's defaults. Returns false if there are none.
    pub async fn remove_defaults(self) -> Result<bool, Failure> {
        self.0.writes().delete_at(PATH, Deletion::default()).await
    }

    /// Lists the node labels that an administrator registered as holding the GPU type. Returns none
    /// if the user cannot read the site's defaults, so that only the built-in labels apply.
    pub(crate) async fn gpu_type_labels(self) -> Vec<String> {
        let stored = self.0.find::<WireDefaults>(PATH).await.ok().flatten();
        let labels = stored
            .and_then(|mut object| object.data.remove(DEFAULTS_TYPE_LABELS))
            .unwrap_or_default();
        labels.lines().map(ToOwned::to_owned).collect()
    }
}

/// Sets the node's `site_type_label` to the first of `labels` that the node has.
pub(crate) fn note_type_label(node: &mut Node, labels: &[String]) {
    node.site_type_label = labels
        .iter()
        .find(|key| node.labels.contains_key(*key))
        .cloned();
}
