//! The definition of a pool, which adds a description, allowed GPU types and a quota to the label
//! of its nodes. The definition also records the labels that gpuctl set on each node, so that
//! deleting the pool removes exactly those.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu::{GpuType, TYPE_LABELS};
use super::node::Node;
use crate::model::contract::labels::{POOL_LABEL, is_label_value};
use crate::model::values::units::GpuCount;

/// The definition of a pool, stored in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolDefinition {
    pub name: String,
    pub description: Option<String>,
    /// Allowed GPU types; empty allows all.
    pub gpu_types: Vec<GpuType>,
    pub max_jobs: Option<u32>,
    /// Limit on the GPUs of all pods of one job.
    pub max_gpu_per_job: Option<u32>,
    /// True when a taint repels jobs of other pools from its nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Labels that were set for this pool, by node and key.
    pub labels: BTreeMap<String, LabelNotes>,
}

/// Labels of a node by key.
pub type LabelNotes = BTreeMap<String, LabelNote>;

/// A label that gpuctl set.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LabelNote {
    pub value: String,
    /// The previous value, which is restored when the node leaves the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// Changes to the labels of a node that leaves a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRemoval {
    /// Labels to remove, or to reset to their previous values.
    pub restored: LabelNotes,
    /// Recorded keys that gpuctl never sets for a pool, and therefore does not change.
    pub foreign: Vec<String>,
}

/// Computes the label changes of a node that leaves the pool. A user who can write the definition
/// may not be allowed to change nodes, so gpuctl restores only labels that it could have set: the
/// pool label, and the GPU type of a node that is in the pool.
pub fn node_removal(pool: &str, node: &Node, notes: &LabelNotes) -> NodeRemoval {
    let mut removal = NodeRemoval::default();
    for (key, note) in notes {
        let is_value = |value: &String| is_label_value(value);
        match key.as_str() {
            // A node is in at most one pool, so the label had no previous value.
            POOL_LABEL if note.value == pool => {
                removal.restored.insert(
                    key.clone(),
                    LabelNote {
                        before: None,
                        ..note.clone()
                    },
                );
            }
            key if key == TYPE_LABELS[0]
                && is_value(&note.value)
                && note.before.as_ref().is_none_or(is_value) =>
            {
                if node.pool() == Some(pool) {
                    removal.restored.insert(key.to_owned(), note.clone());
                }
            }
            key => removal.foreign.push(key.to_owned()),
        }
    }
    removal
}

/// Reason why a pool rejects a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRefusal {
    /// Name of the error in CamelCase.
    pub name: &'static str,
    pub message: String,
    pub hint: String,
}

impl PoolDefinition {
    /// Returns why the pool rejects a job, if it does. `gpus` is the number of GPUs of the whole
    /// job, and `jobs` the number of other jobs in the pool that have not ended.
    pub fn refuses(
        &self,
        gpus: GpuCount,
        kind: Option<&GpuType>,
        jobs: usize,
    ) -> Option<PoolRefusal> {
        let pool = &self.name;
        if let Some(limit) = self
            .max_gpu_per_job
            .filter(|limit| gpus > GpuCount(u64::from(*limit)))
        {
            let message = format!(
                "the job requests {gpus} GPUs in total; pool `{pool}` allows {limit} per job"
            );
            return Some(PoolRefusal {
                name: "PoolQuotaExceeded",
                message,
                hint: format!("request {limit} or fewer, or choose another pool"),
            });
        }
        if let Some(limit) = self.max_jobs.filter(|limit| jobs >= *limit as usize) {
            let message = format!("pool `{pool}` is at its job limit ({jobs} of {limit})");
            let hint = format!("wait for one to finish: gpuctl get jobs --pool {pool}");
            return Some(PoolRefusal {
                name: "PoolQuotaExceeded",
                message,
                hint,
            });
        }
        let kind = kind.filter(|kind| gpus > GpuCount::ZERO && !self.allows(kind))?;
        let message = format!("pool `{pool}` does not accept jobs on {kind}");
        Some(PoolRefusal {
            name: "GpuTypeNotAllowed",
            message,
            hint: format!("this pool allows: {}", self.type_names().join(", ")),
        })
    }

    /// Resets the definition to `before` after a failed attempt, but keeps the labels of nodes that
    /// `attempted` does not contain.
    #[must_use]
    pub fn rolled_back(&self, attempted: &Self, before: &Self) -> Self {
        let mut labels = self.labels.clone();
        for node in attempted.labels.keys() {
            match before.labels.get(node) {
                Some(notes) => labels.insert(node.clone(), notes.clone()),
                None => labels.remove(node),
            };
        }
        Self {
            labels,
            ..before.clone()
        }
    }

    /// Changes the definition to `target`, but keeps the labels of nodes that `target` does not
    /// contain.
    #[must_use]
    pub fn updated_to(&self, target: &Self) -> Self {
        let mut labels = self.labels.clone();
        for (node, set) in &target.labels {
            labels.entry(node.clone()).or_default().extend(set.clone());
        }
        Self {
            labels,
            ..target.clone()
        }
    }

    /// Returns true if the pool accepts jobs with this GPU type.
    pub fn allows(&self, kind: &GpuType) -> bool {
        self.gpu_types.is_empty() || self.gpu_types.iter().any(|allowed| allowed.matches(kind))
    }

    /// Returns the names of the allowed GPU types.
    pub fn type_names(&self) -> Vec<String> {
        self.gpu_types.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_labels_that_gpuctl_sets_are_restored() {
        let note = |value: &str, before: Option<&str>| LabelNote {
            value: value.into(),
            before: before.map(Into::into),
        };
        let notes: LabelNotes = [
            ("gpuctl/pool", note("p", Some("other"))),
            (TYPE_LABELS[0], note("H100", Some("A100"))),
            ("security-zone", note("trusted", Some("dmz"))),
            ("nvidia.com/gpu.product", note("a", None)),
            ("kubernetes.io/hostname", note("a", Some("b"))),
        ]
        .map(|(key, note)| (key.to_owned(), note))
        .into();
        let node = |pool: &str| Node {
            labels: [(POOL_LABEL.to_owned(), pool.to_owned())].into(),
            ..Node::default()
        };
        let removal = node_removal("p", &node("p"), &notes);
        assert_eq!(
            removal.restored.keys().collect::<Vec<_>>(),
            ["gpuctl/pool", TYPE_LABELS[0]]
        );
        assert_eq!(removal.restored["gpuctl/pool"].before, None);
        assert_eq!(
            removal.foreign,
            [
                "kubernetes.io/hostname",
                "nvidia.com/gpu.product",
                "security-zone"
            ]
        );
        // The node has moved to another pool, so its type label does not belong to this pool
        // anymore.
        let other_node = node_removal("p", &node("q"), &notes);
        assert_eq!(
            other_node.restored.keys().collect::<Vec<_>>(),
            ["gpuctl/pool"]
        );
        let stolen: LabelNotes = [("gpuctl/pool".to_owned(), note("q", None))].into();
        assert_eq!(
            node_removal("p", &node("q"), &stolen),
            NodeRemoval {
                foreign: vec!["gpuctl/pool".into()],
                ..NodeRemoval::default()
            }
        );
        let bad: LabelNotes = [(TYPE_LABELS[0].to_owned(), note("x", Some("$(id)")))].into();
        assert_eq!(
            node_removal("p", &node("p"), &bad).foreign,
            [TYPE_LABELS[0]]
        );
    }

    #[test]
    fn pool_refusal_contains_its_limits() {
        let pool = PoolDefinition {
            name: "p".into(),
            gpu_types: GpuType::parse("a100-80g").into_iter().collect(),
            max_jobs: Some(2),
            max_gpu_per_job: Some(8),
            ..PoolDefinition::default()
        };
        let why = |gpus, kind: Option<&str>, jobs| {
            let kind = kind.and_then(GpuType::parse);
            pool.refuses(GpuCount(gpus), kind.as_ref(), jobs)
                .map(|refused| refused.message)
        };
        assert_eq!(why(8, Some("NVIDIA-A100-SXM4-80GB"), 1), None);
        assert_eq!(
            why(9, None, 0).unwrap(),
            "the job requests 9 GPUs in total; pool `p` allows 8 per job"
        );
        assert_eq!(
            why(1, None, 2).unwrap(),
            "pool `p` is at its job limit (2 of 2)"
        );
        assert_eq!(
            why(1, Some("h100"), 0).unwrap(),
            "pool `p` does not accept jobs on h100"
        );
        assert_eq!(
            why(0, Some("h100"), 0),
            None,
            "a job without GPUs is of no type"
        );
        assert!(
            PoolDefinition::default()
                .refuses(GpuCount(1000), GpuType::parse("x").as_ref(), 1000)
                .is_none()
        );
    }
}
