//! Plans the changes of a pool in a file: to the pool's definition, and to the labels and taints of
//! its nodes.

use std::collections::BTreeMap;

use crate::deploy::pool_labels::{check_node, find_node, labels_for_pool};
use crate::deploy::pool_taints::{self, TaintChange};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;
use gpuctl_core::model::{Inventory, LabelNote, LabelNotes, NodeUsage, PoolDefinition};
use gpuctl_manifest::spec::Pool;

/// Builds the definition that a file describes, without nodes.
pub(crate) fn definition(pool: &Pool) -> PoolDefinition {
    PoolDefinition {
        name: pool.name.value.clone(),
        description: pool.description.clone(),
        gpu_types: pool.gpu_types.clone(),
        max_jobs: pool.quota.max_jobs,
        max_gpu_per_job: pool.quota.max_gpu_per_job,
        exclusive: pool.exclusive,
        labels: BTreeMap::new(),
    }
}

/// Changes that create or update a pool.
pub(crate) struct PoolPlan {
    pub desired: PoolDefinition,
    /// The stored definition, if the pool exists.
    pub stored: Option<PoolDefinition>,
    /// Labels that must change.
    pub steps: Vec<LabelChange>,
    /// Taints that must change.
    pub taints: Vec<TaintChange>,
    /// Names of nodes that do not exist.
    pub missing: Vec<String>,
    pub inventory: Inventory,
}

impl PoolPlan {
    /// Returns the definition to write.
    pub(crate) fn new_definition(&self) -> PoolDefinition {
        let stored = self.stored.clone().unwrap_or_default();
        stored.updated_to(&self.desired)
    }

    /// Returns true if the pool already matches the file.
    pub(crate) fn is_done(&self) -> bool {
        self.stored.as_ref() == Some(&self.new_definition())
            && self.steps.is_empty()
            && self.taints.is_empty()
    }

    /// Plans from the file alone, with only the names of the nodes.
    pub(crate) fn without_nodes(pool: &Pool, stored: Option<PoolDefinition>) -> Self {
        let labels = pool
            .nodes
            .iter()
            .map(|node| (node.name.value.clone(), BTreeMap::new()))
            .collect();
        let desired = PoolDefinition {
            labels,
            ..definition(pool)
        };
        Self {
            desired,
            stored,
            steps: Vec::new(),
            taints: Vec::new(),
            missing: Vec::new(),
            inventory: Inventory::default(),
        }
    }
}

/// A label to set on a node.
pub(crate) struct LabelChange {
    pub node: String,
    pub key: String,
    pub value: String,
    /// Current value, or `None` if the node does not have the label.
    pub current: Option<String>,
}

/// Compares a pool's definition and nodes with the file.
pub(crate) async fn plan(
    connection: &Connection,
    pool: &Pool,
    force: bool,
) -> Result<PoolPlan, Error> {
    let name = &pool.name.value;
    let (snapshot, stored) = futures::future::try_join(
        connection.inventory().snapshot(),
        connection.pools().get(name),
    )
    .await?;
    // A file without nodes must also work for users who cannot list nodes.
    let snapshot = if pool.nodes.is_empty() {
        snapshot
    } else {
        snapshot.listed()?
    };
    let inventory = snapshot.inventory;
    let stored = stored.map(|stored| stored.pool);
    let mut desired = definition(pool);
    let (mut missing, mut steps) = (Vec::new(), Vec::new());
    for node in &pool.nodes {
        let Some(host) = find_node(&inventory, &node.name.value) else {
            missing.push(node.name.value.clone());
            continue;
        };
        let gpu_type = node.gpu_type.as_ref();
        check_node(host, &desired, gpu_type, force)?;
        let mut labels = labels_for_pool(connection, host, name).await?;
        if let Some(gpu_type) = gpu_type {
            note_type(&gpu_type.to_string(), host, stored.as_ref(), &mut labels);
        }
        steps.extend(label_changes(&node.name.value, host, &labels));
        desired.labels.insert(node.name.value.clone(), labels);
    }
    let after = stored.clone().unwrap_or_default().updated_to(&desired);
    let taints = pool_taints::changes(
        &after,
        &desired,
        stored.as_ref().is_some_and(|stored| stored.exclusive),
        &inventory,
    );
    Ok(PoolPlan {
        desired,
        stored,
        steps,
        taints,
        missing,
        inventory,
    })
}

/// Adds the label for the GPU type, unless the node already has it. In that case gpuctl did not set
/// the label, and must not remove it with the pool.
fn note_type(
    gpu_type: &str,
    host: &NodeUsage,
    stored: Option<&PoolDefinition>,
    labels: &mut LabelNotes,
) {
    let key = TYPE_LABELS[0];
    let current = host.details.node.labels.get(key);
    if current.is_some_and(|current| current == gpu_type) {
        return;
    }
    let recorded = || stored?.labels.get(host.name())?.get(key).cloned();
    let previous = labels.get(key).cloned().or_else(recorded);
    let note = LabelNote {
        value: gpu_type.to_owned(),
        before: previous.map_or_else(|| current.cloned(), |previous| previous.before),
    };
    labels.insert(key.to_owned(), note);
}

/// Lists the labels that the node does not have yet.
fn label_changes(node: &str, host: &NodeUsage, labels: &LabelNotes) -> Vec<LabelChange> {
    let current = &host.details.node.labels;
    labels
        .iter()
        .filter(|(key, note)| current.get(*key) != Some(&note.value))
        .map(|(key, note)| LabelChange {
            node: node.to_owned(),
            key: key.clone(),
            value: note.value.clone(),
            current: current.get(key).cloned(),
        })
        .collect()
}
