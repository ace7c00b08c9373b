//! Sets and removes the labels that assign a node to a pool, and checks that the node can join the
//! pool. A node is in at most one pool.

use std::collections::BTreeSet;

use crate::deploy::events::Reporter;
use crate::lookup;
use gpuctl_cluster::{Connection, LabelOverwrite, Labelling};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::facts::pool::node_removal;
use gpuctl_core::model::{
    GpuType, Inventory, LabelNote, LabelNotes, Node, NodeUsage, PoolDefinition,
};

/// Returns the labels of a node that joins `pool`: the pool's own label, and the labels that its
/// previous pool has set.
pub(crate) async fn labels_for_pool(
    connection: &Connection,
    host: &NodeUsage,
    pool: &str,
) -> Result<LabelNotes, Error> {
    let mut labels = match host
        .details
        .node
        .pool()
        .filter(|previous_pool| *previous_pool != pool)
    {
        None => LabelNotes::new(),
        Some(previous_pool) => {
            let previous_labels = connection
                .pools()
                .get(previous_pool)
                .await?
                .and_then(|mut stored| stored.pool.labels.remove(host.name()));
            node_removal(
                previous_pool,
                &host.details.node,
                &previous_labels.unwrap_or_default(),
            )
            .restored
        }
    };
    // Omit labels that the node no longer has, although the previous pool has recorded them.
    labels.retain(|key, note| host.details.node.labels.get(key) == Some(&note.value));
    labels.insert(
        POOL_LABEL.to_owned(),
        LabelNote {
            value: pool.to_owned(),
            before: None,
        },
    );
    Ok(labels)
}

/// Removes a node from the definition of its previous pool.
pub(crate) async fn leave_previous_pool(
    connection: &Connection,
    host: &NodeUsage,
    pool: &str,
) -> Result<(), Error> {
    if let Some(previous_pool) = host
        .details
        .node
        .pool()
        .filter(|previous_pool| *previous_pool != pool)
    {
        connection
            .pools()
            .change(previous_pool, |pool| drop(pool.labels.remove(host.name())))
            .await?;
    }
    Ok(())
}

pub(crate) async fn set_label(
    connection: &Connection,
    node: &str,
    key: &str,
    value: &str,
    overwrite: LabelOverwrite<'_>,
) -> Result<(), Error> {
    match connection
        .nodes()
        .set_label(node, key, Some(value), overwrite)
        .await?
    {
        Labelling::NoNode => Err(lookup::missing_node(node, &[])),
        Labelling::Conflict(current) => {
            let current = current.map_or_else(
                || "now missing".to_owned(),
                |current| format!("now `{current}`"),
            );
            let error = Error::new(
                ErrorName::LabelConflict,
                format!("label {key} of node `{node}` is {current}"),
            );
            Err(error.hint("it changed while gpuctl was running; check the node, or use `--force`"))
        }
        _ => Ok(()),
    }
}

/// Removes a pool's labels from a node. Warns about labels that the definition names but gpuctl
/// does not set, unless `reported_warnings` already contains the warning.
pub(crate) async fn leave(
    connection: &Connection,
    reporter: &dyn Reporter,
    pool: &str,
    node: &Node,
    notes: &LabelNotes,
    reported_warnings: &mut BTreeSet<String>,
) -> Result<(), Error> {
    let removal = node_removal(pool, node, notes);
    if !removal.foreign.is_empty() {
        let keys = removal.foreign.join(", ");
        let message = format!(
            "the definition of pool `{pool}` lists labels of node `{}` that gpuctl does not set; \
             they are kept: {keys}",
            node.name
        );
        if reported_warnings.insert(message.clone()) {
            reporter.warn(&message);
        }
    }
    // Remove the pool's own label last. If the command fails before that and is repeated, it still
    // finds the node in the pool.
    for (key, note) in removal.restored.iter().rev() {
        restore_label(connection, &node.name, key, note).await?;
    }
    Ok(())
}

/// Restores a label's value from before gpuctl set it, or removes the label if it had none. Keeps a
/// label that has changed since then.
async fn restore_label(
    connection: &Connection,
    node: &str,
    key: &str,
    note: &LabelNote,
) -> Result<(), Error> {
    connection
        .nodes()
        .set_label(
            node,
            key,
            note.before.as_deref(),
            LabelOverwrite::Only(Some(&note.value)),
        )
        .await?;
    Ok(())
}

pub(crate) fn find_node<'i>(inventory: &'i Inventory, node: &str) -> Option<&'i NodeUsage> {
    inventory.hosts.iter().find(|host| host.name() == node)
}

/// Checks that a node is not in another pool, and that the pool allows its GPU type. `declared` is
/// the type in the file, which must not contradict the node's labels.
pub(crate) fn check_node(
    host: &NodeUsage,
    pool: &PoolDefinition,
    declared: Option<&GpuType>,
    force: bool,
) -> Result<(), Error> {
    let node = host.name();
    if let Some(other) = host
        .details
        .node
        .pool()
        .filter(|other| *other != pool.name && !force)
    {
        let error = Error::new(
            ErrorName::NodeInOtherPool,
            format!("node `{node}` is in pool `{other}`"),
        );
        return Err(error.hint("use `--force` to move it"));
    }
    let current_types = host.kinds();
    if let Some(declared) = declared.filter(|_| !force)
        && let Some(other) = current_types
            .iter()
            .find(|gpu_type| !gpu_type.matches(declared))
    {
        let message = format!(
            "node `{node}` has {other} according to its labels, but the file says {declared}"
        );
        return Err(Error::new(ErrorName::LabelConflict, message)
            .hint("use `--force` to set the value from the file"));
    }
    let types = declared.map_or(current_types, |gpu_type| vec![gpu_type.clone()]);
    if let Some(gpu_type) = types.iter().find(|gpu_type| !pool.allows(gpu_type)) {
        let error = Error::new(
            ErrorName::GpuTypeNotAllowed,
            format!(
                "node `{node}` has {gpu_type}, which pool `{}` does not allow",
                pool.name
            ),
        );
        return Err(error.hint(format!(
            "this pool allows: {}",
            pool.type_names().join(", ")
        )));
    }
    Ok(())
}
