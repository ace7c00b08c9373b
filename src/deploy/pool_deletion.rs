//! Deletes pools: first the labels that the definition records, then the definition.

use std::collections::BTreeSet;

use crate::deploy::events::Reporter;
use crate::deploy::pools::{missing, publish};
use crate::deploy::{pool_labels, pool_taints};
use gpuctl_cluster::{Connection, Wanted};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::State;
use gpuctl_core::model::values::text::count;

/// Options for deleting a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolDeletion {
    /// Deletes the pool even if it has jobs.
    pub force: bool,
    pub keep_labels: bool,
    pub ignore_not_found: bool,
}

/// Deletes the labels of a pool, then its definition. Fails if the pool has jobs, unless forced.
pub(crate) async fn delete(
    connection: &Connection,
    name: &str,
    how: PoolDeletion,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    let Some(known) = connection.pools().get(name).await? else {
        if how.ignore_not_found {
            return Ok(None);
        }
        let stock = connection.inventory().stock().await?;
        if stock.inventory.pools().contains(name) {
            let error = Error::new(
                ErrorName::NoDefinition,
                format!("pool `{name}` has no definition, only labels set by others"),
            );
            return Err(error.hint(format!("gpuctl remove node NODE --pool {name}")));
        }
        return Err(missing(name, &stock.inventory, connection).await);
    };
    if !how.force {
        forbid_if_used(connection, name).await?;
    }
    let mut known = known;
    let (mut taken, mut warned) = (BTreeSet::new(), BTreeSet::new());
    loop {
        for (node, notes) in known.pool.labels.iter().filter(|_| !how.keep_labels) {
            if known.pool.exclusive {
                pool_taints::leave(connection, node, name).await?;
            }
            let Some((host, _)) = connection.inventory().host(node).await? else {
                continue;
            };
            pool_labels::leave(connection, reporter, name, &host.node, notes, &mut warned).await?;
            taken.insert(node.clone());
        }
        // The definition may have changed since it was read, with more labels.
        match connection
            .pools()
            .remove(name, Some(&known.version))
            .await?
        {
            true => break,
            false => match connection.pools().get(name).await? {
                Some(changed) => known = changed,
                None => break,
            },
        }
    }
    publish(connection, true, reporter).await;
    let taken = count(taken.len() as u64, "node");
    Ok(Some(if how.keep_labels {
        "its labels stay".to_owned()
    } else {
        format!("labels removed from {taken}")
    }))
}

/// Refuses to delete a pool that has jobs, or whose jobs cannot be counted.
async fn forbid_if_used(connection: &Connection, name: &str) -> Result<(), Error> {
    let wanted = Wanted {
        pool: Some(name.to_owned()),
        ..Wanted::default()
    };
    let found = connection.jobs().list(&wanted).await?;
    let alive: Vec<String> = found
        .jobs
        .iter()
        .filter(|job| !job.deleting && !State::from_job(job).status.is_final())
        .map(|job| format!("{}/{}", job.namespace, job.name))
        .collect();
    if !alive.is_empty() {
        let error = Error::new(
            ErrorName::PoolInUse,
            format!("pool `{name}` has jobs: {}", alive.join(", ")),
        );
        return Err(error.hint("--force deletes the pool; the jobs continue"));
    }
    match found.unseen() {
        None => Ok(()),
        Some(unseen) => {
            let message = format!("{unseen}, so it is not known whether jobs are in pool `{name}`");
            Err(Error::new(ErrorName::Forbidden, message).hint("--force deletes the pool anyway"))
        }
    }
}
