//! Manages the taint of an exclusive pool, which keeps other jobs off its nodes. The taint does not
//! evict running pods, and is removed with the pool.

use crate::lookup;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::{Inventory, Node, NodeUsage, PoolDefinition};

/// A taint to set on a node or to remove from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaintChange {
    pub node: String,
    /// Pool whose taint the node should have, or `None` for no taint.
    pub desired: Option<String>,
    /// Pool whose taint the node has now.
    pub current: Option<String>,
}

/// Returns the pool that a node is reserved for.
pub(crate) fn exclusive_pool(node: &Node) -> Option<&str> {
    let taint = node
        .taints
        .iter()
        .find(|taint| taint.key == POOL_LABEL && taint.effect == "NoSchedule");
    taint.and_then(|taint| taint.value.as_deref())
}

/// Compares the taints of a pool's nodes with its definition. `file_pool` contains the nodes in the
/// file; other nodes must have the pool's label. If the pool was not exclusive before
/// (`was_exclusive`), gpuctl did not set its taint, and keeps it.
pub(crate) fn changes(
    pool: &PoolDefinition,
    file_pool: &PoolDefinition,
    was_exclusive: bool,
    inventory: &Inventory,
) -> Vec<TaintChange> {
    let desired = pool.exclusive.then(|| pool.name.clone());
    let is_in_file = |host: &NodeUsage| file_pool.labels.contains_key(host.name());
    let is_member =
        |host: &NodeUsage| is_in_file(host) || host.details.node.pool() == Some(&pool.name);
    let hosts = inventory
        .hosts
        .iter()
        .filter(|host| pool.labels.contains_key(host.name()) && is_member(host));
    hosts
        .filter_map(|host| {
            let current = exclusive_pool(&host.details.node).map(ToOwned::to_owned);
            let is_managed = current.as_ref().is_none_or(|current| {
                if *current == pool.name {
                    was_exclusive
                } else {
                    is_in_file(host)
                }
            });
            let change = TaintChange {
                node: host.name().to_owned(),
                desired: desired.clone(),
                current,
            };
            (change.desired != change.current && (desired.is_some() || is_managed))
                .then_some(change)
        })
        .collect()
}

/// Writes one change, or reverts it.
pub(crate) async fn write(
    connection: &Connection,
    change: &TaintChange,
    revert: bool,
) -> Result<(), Error> {
    let (from, to) = if revert {
        (&change.desired, &change.current)
    } else {
        (&change.current, &change.desired)
    };
    match connection
        .nodes()
        .set_pool_taint(&change.node, from.as_deref(), to.as_deref())
        .await?
    {
        true => Ok(()),
        false => Err(lookup::missing_node(&change.node, &[])),
    }
}

/// Removes the taint of `pool` from a node that leaves it.
pub(crate) async fn leave(connection: &Connection, node: &str, pool: &str) -> Result<(), Error> {
    connection
        .nodes()
        .set_pool_taint(node, Some(pool), None)
        .await?;
    Ok(())
}
