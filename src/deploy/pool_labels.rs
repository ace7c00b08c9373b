//! Sets and removes the labels that assign a node to a pool, and checks whether the node may be in
//! it. A node is in at most one pool.

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

/// Returns the labels of a node that is added to `pool`: the pool's own label, and the labels that
/// its previous pool set on it.
pub(crate) async fn taken_over(
    connection: &Connection,
    host: &NodeUsage,
    pool: &str,
) -> Result<LabelNotes, Error> {
    let mut set = match host.details.node.pool().filter(|other| *other != pool) {
        None => LabelNotes::new(),
        Some(other) => {
            let noted = connection
                .pools()
                .get(other)
                .await?
                .and_then(|mut known| known.pool.labels.remove(host.name()));
            node_removal(other, &host.details.node, &noted.unwrap_or_default()).restored
        }
    };
    // Do not write a label that the node lacks now only because a note mentions it.
    set.retain(|key, note| host.details.node.labels.get(key) == Some(&note.value));
    set.insert(
        POOL_LABEL.to_owned(),
        LabelNote {
            value: pool.to_owned(),
            before: None,
        },
    );
    Ok(set)
}

/// Removes a node from the definition of its previous pool.
pub(crate) async fn leave_other(
    connection: &Connection,
    host: &NodeUsage,
    pool: &str,
) -> Result<(), Error> {
    if let Some(other) = host.details.node.pool().filter(|other| *other != pool) {
        connection
            .pools()
            .change(other, |pool| drop(pool.labels.remove(host.name())))
            .await?;
    }
    Ok(())
}

pub(crate) async fn set_label(
    connection: &Connection,
    node: &str,
    key: &str,
    value: &str,
    over: LabelOverwrite<'_>,
) -> Result<(), Error> {
    match connection
        .nodes()
        .set_label(node, key, Some(value), over)
        .await?
    {
        Labelling::NoNode => Err(lookup::missing_node(node, &[])),
        Labelling::Conflict(there) => {
            let there = there.map_or_else(
                || "now missing".to_owned(),
                |there| format!("now `{there}`"),
            );
            let error = Error::new(
                ErrorName::LabelConflict,
                format!("label {key} of node `{node}` is {there}"),
            );
            Err(error.hint("it was changed in the meantime; check the node, or use --force"))
        }
        _ => Ok(()),
    }
}

/// Removes a pool's labels from a node. Warns about labels that its definition names and gpuctl
/// does not set, unless `warned` contains the same warning.
pub(crate) async fn leave(
    connection: &Connection,
    reporter: &dyn Reporter,
    pool: &str,
    node: &Node,
    notes: &LabelNotes,
    warned: &mut BTreeSet<String>,
) -> Result<(), Error> {
    let leaving = node_removal(pool, node, notes);
    if !leaving.foreign.is_empty() {
        let keys = leaving.foreign.join(", ");
        let message = format!(
            "the definition of pool `{pool}` names labels of node `{}` that gpuctl does not set; \
             they stay: {keys}",
            node.name
        );
        if warned.insert(message.clone()) {
            reporter.warn(&message);
        }
    }
    // Remove the pool's label last, so that a repeated command still finds the node in the pool.
    for (key, note) in leaving.restored.iter().rev() {
        unset(connection, &node.name, key, note).await?;
    }
    Ok(())
}

/// Restores the previous value of a label, or removes it, unless it has been changed since.
async fn unset(
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

pub(crate) fn find<'i>(inventory: &'i Inventory, node: &str) -> Option<&'i NodeUsage> {
    inventory.hosts.iter().find(|host| host.name() == node)
}

/// Checks that a node is in no other pool and has devices of an allowed type. `written` is the type
/// in the file, which must not contradict the node's labels.
pub(crate) fn fits(
    host: &NodeUsage,
    pool: &PoolDefinition,
    written: Option<&GpuType>,
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
        return Err(error.hint("--force moves it"));
    }
    let there = host.kinds();
    if let Some(written) = written.filter(|_| !force)
        && let Some(other) = there.iter().find(|kind| !kind.matches(written))
    {
        let message =
            format!("node `{node}` has {other} by its labels, but the file says {written}");
        return Err(Error::new(ErrorName::LabelConflict, message)
            .hint("--force writes the value of the file"));
    }
    let kinds = written.map_or(there, |kind| vec![kind.clone()]);
    if let Some(kind) = kinds.iter().find(|kind| !pool.allows(kind)) {
        let error = Error::new(
            ErrorName::GpuTypeNotAllowed,
            format!(
                "node `{node}` has {kind}, which pool `{}` does not allow",
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
