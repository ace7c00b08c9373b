//! Plans what a pool of a file changes: its definition, and the labels and taints of its nodes.

use std::collections::BTreeMap;

use crate::deploy::pool_labels::{find, fits, taken_over};
use crate::deploy::pool_taints::{self, TaintChange};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;
use gpuctl_core::model::{Inventory, LabelNote, LabelNotes, NodeUsage, PoolDefinition};
use gpuctl_manifest::spec::Pool;

/// Builds the definition that a file describes, without its nodes.
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

/// The changes that create or update a pool.
pub(crate) struct PoolPlan {
    pub wanted: PoolDefinition,
    /// The stored definition.
    pub before: Option<PoolDefinition>,
    /// Labels that differ from the wanted ones.
    pub steps: Vec<LabelChange>,
    /// Taints that differ from the wanted ones.
    pub taints: Vec<TaintChange>,
    /// Nodes that do not exist.
    pub missing: Vec<String>,
    pub inventory: Inventory,
}

impl PoolPlan {
    /// The definition as it will be written.
    pub(crate) fn after(&self) -> PoolDefinition {
        let before = self.before.clone().unwrap_or_default();
        before.updated_to(&self.wanted)
    }

    /// Returns true if nothing has to change.
    pub(crate) fn is_done(&self) -> bool {
        self.before.as_ref() == Some(&self.after())
            && self.steps.is_empty()
            && self.taints.is_empty()
    }

    /// Plans from the file alone, using only the names of its nodes.
    pub(crate) fn without_nodes(pool: &Pool, before: Option<PoolDefinition>) -> Self {
        let labels = pool
            .nodes
            .iter()
            .map(|node| (node.name.value.clone(), BTreeMap::new()))
            .collect();
        let wanted = PoolDefinition {
            labels,
            ..definition(pool)
        };
        Self {
            wanted,
            before,
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
    /// The current value.
    pub before: Option<String>,
}

/// Reads the nodes of a pool and its definition, and compares both with the file.
pub(crate) async fn plan(
    connection: &Connection,
    pool: &Pool,
    force: bool,
) -> Result<PoolPlan, Error> {
    let name = &pool.name.value;
    let (stock, before) =
        futures::future::try_join(connection.inventory().stock(), connection.pools().get(name))
            .await?;
    // A pool without nodes in its file can be written without the right to list nodes.
    let stock = if pool.nodes.is_empty() {
        stock
    } else {
        stock.listed()?
    };
    let inventory = stock.inventory;
    let before = before.map(|known| known.pool);
    let mut wanted = definition(pool);
    let (mut missing, mut steps) = (Vec::new(), Vec::new());
    for node in &pool.nodes {
        let Some(host) = find(&inventory, &node.name.value) else {
            missing.push(node.name.value.clone());
            continue;
        };
        let kind = node.gpu_type.as_ref();
        fits(host, &wanted, kind, force)?;
        let mut labels = taken_over(connection, host, name).await?;
        if let Some(kind) = kind {
            note_type(&kind.to_string(), host, before.as_ref(), &mut labels);
        }
        steps.extend(label_changes(&node.name.value, host, &labels));
        wanted.labels.insert(node.name.value.clone(), labels);
    }
    let after = before.clone().unwrap_or_default().updated_to(&wanted);
    let taints = pool_taints::missing(
        &after,
        &wanted,
        before.as_ref().is_some_and(|before| before.exclusive),
        &inventory,
    );
    Ok(PoolPlan {
        wanted,
        before,
        steps,
        taints,
        missing,
        inventory,
    })
}

/// Adds the label of the GPU type, unless the node already has it: in that case others set it, and
/// it stays when the pool is deleted.
fn note_type(
    kind: &str,
    host: &NodeUsage,
    before: Option<&PoolDefinition>,
    labels: &mut LabelNotes,
) {
    let key = TYPE_LABELS[0];
    let current = host.details.node.labels.get(key);
    if current.is_some_and(|current| current == kind) {
        return;
    }
    let recorded = || before?.labels.get(host.name())?.get(key).cloned();
    let earlier = labels.get(key).cloned().or_else(recorded);
    let note = LabelNote {
        value: kind.to_owned(),
        before: earlier.map_or_else(|| current.cloned(), |noted| noted.before),
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
            before: current.get(key).cloned(),
        })
        .collect()
}
