//! Reads the object in which a site keeps its defaults. It hands the file out as text;
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

/// The defaults as they are kept.
#[derive(Clone, Debug)]
pub struct StoredDefaults {
    /// The file as it was written.
    pub text: String,
    /// Who wrote it last.
    pub user: Option<String>,
    /// When the object was made.
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
    /// Returns the site's defaults; `None` where there are none.
    pub async fn defaults(self) -> Result<Option<StoredDefaults>, Failure> {
        let found: Option<WireDefaults> = self.0.find(PATH).await?;
        Ok(found.and_then(|mut object| {
            Some(StoredDefaults {
                text: object.data.remove(DEFAULTS_FILE)?,
                user: object.metadata.annotations.remove(USER),
                created_at: object.metadata.creation_timestamp,
            })
        }))
    }

    /// Takes the site's defaults away. False when there are none.
    pub async fn remove_defaults(self) -> Result<bool, Failure> {
        self.0.writes().delete_at(PATH, Deletion::default()).await
    }

    /// Returns the labels that tell the type of GPUs at this site. Whoever may not read them has
    /// the usual ones.
    pub(crate) async fn gpu_type_labels(self) -> Vec<String> {
        let found = self.0.find::<WireDefaults>(PATH).await.ok().flatten();
        let labels = found
            .and_then(|mut object| object.data.remove(DEFAULTS_TYPE_LABELS))
            .unwrap_or_default();
        labels.lines().map(ToOwned::to_owned).collect()
    }
}

/// Notes on a node which of the site's labels tells the type of its GPUs.
pub(crate) fn note_type_label(node: &mut Node, labels: &[String]) {
    node.site_type_label = labels
        .iter()
        .find(|key| node.labels.contains_key(*key))
        .cloned();
}
