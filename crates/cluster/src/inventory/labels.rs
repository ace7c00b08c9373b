//! Writes labels and pool taints of nodes with merge patches. Each patch carries the
//! `resourceVersion` that was read, so that concurrent writers do not overwrite each other.
//!
//! Server-side apply is not an option, because applying one label would remove the other labels
//! that the same field manager owns.

use serde_json::{Value, json};

use crate::{Failure, handles::NodesApi};
use gpuctl_core::model::contract::labels::POOL_LABEL;

/// The outcome of setting one label on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Labelling {
    Done,
    /// The node already had this value.
    Unchanged,
    NoNode,
    /// The label has this value, or is missing, and the caller did not allow gpuctl to overwrite
    /// it.
    Conflict(Option<String>),
    /// The label to remove is not set on the node.
    NoLabel,
}

/// Existing values that a write may replace.
#[derive(Clone, Copy, Debug)]
pub enum LabelOverwrite<'a> {
    Anything,
    /// Only this value, which the caller read before.
    Only(Option<&'a str>),
}

/// Maximum number of attempts per write if other writers cause conflicts.
const TRIES: u32 = 8;

fn contended(node: &str) -> Failure {
    let message = format!("other clients keep changing node {node}; try again");
    Failure::conflict("Conflict", message)
}

impl NodesApi<'_> {
    /// Sets a label to `value`, or removes it.
    pub async fn set_label(
        self,
        node: &str,
        key: &str,
        value: Option<&str>,
        overwrite: LabelOverwrite<'_>,
    ) -> Result<Labelling, Failure> {
        for _ in 0..TRIES {
            let Some((host, version)) = self.0.inventory().host(node).await? else {
                return Ok(Labelling::NoNode);
            };
            let current = host.node.labels.get(key).map(String::as_str);
            match (current, value) {
                (None, None) => return Ok(Labelling::NoLabel),
                (Some(current), Some(value)) if current == value => {
                    return Ok(Labelling::Unchanged);
                }
                _ => {}
            }
            if matches!(overwrite, LabelOverwrite::Only(expected) if expected != current) {
                return Ok(Labelling::Conflict(current.map(ToOwned::to_owned)));
            }
            match self.patch_labels(node, &version, &[(key, value)]).await {
                // Another writer changed the node, so read it again.
                Err(failure) if failure.code() == Some(409) => {}
                other => return other.map(|()| Labelling::Done),
            }
        }
        Err(contended(node))
    }

    /// Removes the taint of `old_pool` from a node and adds that of `new_pool`. Other taints are
    /// kept. Returns false if the node does not exist.
    pub async fn set_pool_taint(
        self,
        node: &str,
        old_pool: Option<&str>,
        new_pool: Option<&str>,
    ) -> Result<bool, Failure> {
        let path = format!("/api/v1/nodes/{node}");
        for _ in 0..TRIES {
            let Some(host) = self.0.find_in::<Value>("/api/v1/nodes", node).await? else {
                return Ok(false);
            };
            let current = host
                .pointer("/spec/taints")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let is_pool_taint = |taint: &Value, pool: Option<&str>| {
                taint["key"] == POOL_LABEL
                    && taint["effect"] == "NoSchedule"
                    && taint["value"].as_str() == pool
            };
            let mut taints: Vec<Value> = current
                .iter()
                .filter(|taint| {
                    !(old_pool.is_some() && is_pool_taint(taint, old_pool)
                        || new_pool.is_some() && is_pool_taint(taint, new_pool))
                })
                .cloned()
                .collect();
            taints.extend(
                new_pool
                    .map(|pool| json!({"key": POOL_LABEL, "value": pool, "effect": "NoSchedule"})),
            );
            if taints == current {
                return Ok(true);
            }
            // A merge patch replaces the entire array (RFC 7396). Without the version, it would
            // drop a taint that a controller adds at the same time.
            let version = &host["metadata"]["resourceVersion"];
            let patch =
                json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            match self.0.writes().merge_patch(&path, &patch).await {
                Err(failure) if failure.code() == Some(409) => {}
                other => return other.map(|_| true),
            }
        }
        Err(contended(node))
    }

    /// Patches the labels of a node. Fails with 409 if the node is no longer at `version`.
    pub(crate) async fn patch_labels(
        self,
        node: &str,
        version: &str,
        labels: &[(&str, Option<&str>)],
    ) -> Result<(), Failure> {
        let labels: Value = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let patch = json!({"metadata": {"resourceVersion": version, "labels": labels}});
        self.0
            .writes()
            .merge_patch(&format!("/api/v1/nodes/{node}"), &patch)
            .await
            .map(|_| ())
    }
}
