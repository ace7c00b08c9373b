//! Writes labels of nodes, and the taint of a pool, by merge patch against the version that was
//! read, so that two writers at once lose nothing.
//!
//! Note: a server-side apply of one label would remove the other labels of its manager.

use serde_json::{Value, json};

use crate::{Failure, handles::NodesApi};
use gpuctl_core::model::contract::labels::POOL_LABEL;

/// What became of one label on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Labelling {
    Done,
    /// It was so already.
    Unchanged,
    NoNode,
    /// There is another value, or none, and that was not to be written over.
    Conflict(Option<String>),
    /// There is none to take away.
    NoLabel,
}

/// What may be written over.
#[derive(Clone, Copy, Debug)]
pub enum LabelOverwrite<'a> {
    Anything,
    /// Only what was seen there.
    Only(Option<&'a str>),
}

/// How often a write that somebody else got in front of is tried.
const TRIES: u32 = 8;

fn contended(node: &str) -> Failure {
    let message = format!("node {node} is written to by others all the time");
    Failure::conflict("Conflict", message)
}

impl NodesApi<'_> {
    /// Sets a label to `value`, or takes it away.
    pub async fn set_label(
        self,
        node: &str,
        key: &str,
        value: Option<&str>,
        over: LabelOverwrite<'_>,
    ) -> Result<Labelling, Failure> {
        for _ in 0..TRIES {
            let Some((host, version)) = self.0.inventory().host(node).await? else {
                return Ok(Labelling::NoNode);
            };
            let there = host.node.labels.get(key).map(String::as_str);
            match (there, value) {
                (None, None) => return Ok(Labelling::NoLabel),
                (Some(there), Some(value)) if there == value => return Ok(Labelling::Unchanged),
                _ => {}
            }
            if matches!(over, LabelOverwrite::Only(expected) if expected != there) {
                return Ok(Labelling::Conflict(there.map(ToOwned::to_owned)));
            }
            match self.patch_labels(node, &version, &[(key, value)]).await {
                Err(failure) if failure.code() == Some(409) => {}
                other => return other.map(|()| Labelling::Done),
            }
        }
        Err(contended(node))
    }

    /// Takes the taint of pool `from` away from a node, and gives it that of pool `to`. Every other
    /// taint stays. False when there is no such node.
    pub async fn set_pool_taint(
        self,
        node: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<bool, Failure> {
        let path = format!("/api/v1/nodes/{node}");
        for _ in 0..TRIES {
            let Some(host) = self.0.find_in::<Value>("/api/v1/nodes", node).await? else {
                return Ok(false);
            };
            let there = host
                .pointer("/spec/taints")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let of_pool = |taint: &Value, pool: Option<&str>| {
                taint["key"] == POOL_LABEL
                    && taint["effect"] == "NoSchedule"
                    && taint["value"].as_str() == pool
            };
            let mut taints: Vec<Value> = there
                .iter()
                .filter(|taint| {
                    !(from.is_some() && of_pool(taint, from) || to.is_some() && of_pool(taint, to))
                })
                .cloned()
                .collect();
            taints.extend(
                to.map(|pool| json!({"key": POOL_LABEL, "value": pool, "effect": "NoSchedule"})),
            );
            if taints == there {
                return Ok(true);
            }
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

    /// Writes labels of a node as it was at `version`; a 409 says that it has changed since.
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
