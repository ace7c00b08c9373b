//! Deletes pools: first the node labels that the definition records, then the definition.

use std::collections::BTreeSet;

use crate::deploy::events::Reporter;
use crate::deploy::pools::{pool_not_found, publish};
use crate::deploy::{pool_labels, pool_taints};
use gpuctl_cluster::{Connection, JobFilter};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::State;
use gpuctl_core::model::values::text::count;

/// Options for deleting a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolDeletion {
    /// Whether to delete a pool that has jobs.
    pub force: bool,
    pub keep_labels: bool,
    pub ignore_not_found: bool,
}

/// Deletes the labels of a pool, then its definition. Fails if the pool has jobs, unless `force` is
/// set.
pub(crate) async fn delete(
    connection: &Connection,
    name: &str,
    options: PoolDeletion,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    let Some(stored) = connection.pools().get(name).await? else {
        if options.ignore_not_found {
            return Ok(None);
        }
        let snapshot = connection.inventory().snapshot().await?;
        if snapshot.inventory.pools().contains(name) {
            let error = Error::new(
                ErrorName::NoDefinition,
                format!(
                    "pool `{name}` has no definition, only node labels that gpuctl did not set"
                ),
            );
            return Err(error.hint(format!("gpuctl remove node NODE --pool {name}")));
        }
        return Err(pool_not_found(name, &snapshot.inventory, connection).await);
    };
    if !options.force {
        forbid_if_used(connection, name).await?;
    }
    let mut stored = stored;
    let (mut cleared_nodes, mut reported_warnings) = (BTreeSet::new(), BTreeSet::new());
    loop {
        for (node, notes) in stored.pool.labels.iter().filter(|_| !options.keep_labels) {
            if stored.pool.exclusive {
                pool_taints::leave(connection, node, name).await?;
            }
            let Some((node_usage, _)) = connection.inventory().host(node).await? else {
                continue;
            };
            pool_labels::leave(
                connection,
                reporter,
                name,
                &node_usage.node,
                notes,
                &mut reported_warnings,
            )
            .await?;
            cleared_nodes.insert(node.clone());
        }
        // The definition may have changed since it was read, and may record more labels.
        match connection
            .pools()
            .remove(name, Some(&stored.version))
            .await?
        {
            true => break,
            false => match connection.pools().get(name).await? {
                Some(changed) => stored = changed,
                None => break,
            },
        }
    }
    if !connection.is_dry_run() {
        publish(connection, true, reporter).await;
    }
    let cleared_nodes = count(cleared_nodes.len() as u64, "node");
    Ok(Some(if options.keep_labels {
        "its labels stay".to_owned()
    } else {
        format!("labels removed from {cleared_nodes}")
    }))
}

/// Fails if the pool has jobs, or if its jobs cannot be counted.
async fn forbid_if_used(connection: &Connection, name: &str) -> Result<(), Error> {
    let selector = JobFilter {
        pool: Some(name.to_owned()),
        ..JobFilter::default()
    };
    let selection = connection.jobs().list(&selector).await?;
    let active_jobs: Vec<String> = selection
        .jobs
        .iter()
        .filter(|job| !job.deleting && !State::from_job(job).status.is_final())
        .map(|job| format!("{}/{}", job.namespace, job.name))
        .collect();
    if !active_jobs.is_empty() {
        let error = Error::new(
            ErrorName::PoolInUse,
            format!("pool `{name}` has jobs: {}", active_jobs.join(", ")),
        );
        return Err(error.hint("use `--force` to delete the pool anyway; the jobs keep running"));
    }
    match selection.unseen() {
        None => Ok(()),
        Some(unseen) => {
            let message = format!("{unseen}, so it is unknown whether pool `{name}` has jobs");
            Err(Error::new(ErrorName::Forbidden, message)
                .hint("use `--force` to delete the pool anyway"))
        }
    }
}
