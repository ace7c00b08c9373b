//! Manages the taint of an exclusive pool, which keeps other jobs off its nodes. The taint does not
//! evict running pods. Deleting the pool removes it.

use crate::lookup;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::{Inventory, Node, NodeUsage, PoolDefinition};

/// A taint to set on a node, or to remove from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaintChange {
    pub node: String,
    /// The pool that may use the node from now on; `None` if every job may.
    pub wanted: Option<String>,
    /// The pool that may use it now.
    pub before: Option<String>,
}

/// Returns the pool that has exclusive use of a node.
pub(crate) fn taken_by(node: &Node) -> Option<&str> {
    let taint = node
        .taints
        .iter()
        .find(|taint| taint.key == POOL_LABEL && taint.effect == "NoSchedule");
    taint.and_then(|taint| taint.value.as_deref())
}

/// Compares the taints of a pool's nodes with its definition. `named` holds the nodes that the file
/// lists; other nodes count only if they have its label. `was` is true if the pool was exclusive
/// before; otherwise someone else set its taint, which stays.
pub(crate) fn missing(
    pool: &PoolDefinition,
    named: &PoolDefinition,
    was: bool,
    inventory: &Inventory,
) -> Vec<TaintChange> {
    let wanted = pool.exclusive.then(|| pool.name.clone());
    let is_named = |host: &NodeUsage| named.labels.contains_key(host.name());
    let is_in = |host: &NodeUsage| is_named(host) || host.details.node.pool() == Some(&pool.name);
    let hosts = inventory
        .hosts
        .iter()
        .filter(|host| pool.labels.contains_key(host.name()) && is_in(host));
    hosts
        .filter_map(|host| {
            let before = taken_by(&host.details.node).map(ToOwned::to_owned);
            let ours = before.as_ref().is_none_or(|there| {
                if *there == pool.name {
                    was
                } else {
                    is_named(host)
                }
            });
            let change = TaintChange {
                node: host.name().to_owned(),
                wanted: wanted.clone(),
                before,
            };
            (change.wanted != change.before && (wanted.is_some() || ours)).then_some(change)
        })
        .collect()
}

/// Writes one change, or reverts it.
pub(crate) async fn write(
    connection: &Connection,
    change: &TaintChange,
    back: bool,
) -> Result<(), Error> {
    let (from, to) = if back {
        (&change.wanted, &change.before)
    } else {
        (&change.before, &change.wanted)
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
