//! Reads pools: nodes by label, definitions from ConfigMaps, and jobs.

use std::collections::BTreeSet;

use futures::future::join3;

use crate::context::Context;
use crate::observe::nodes;
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::{Connection, Failure, InventorySnapshot, JobFilter, unless_forbidden};
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{GpuCount, Inventory, Job, NodeUsage, Pod, PoolDefinition, State};
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::pool_use::PoolUse;

/// Pools and the names of data that the user may not read.
#[derive(Clone)]
pub(crate) struct PoolSnapshot {
    pub pools: Vec<PoolUse>,
    pub snapshot: InventorySnapshot,
    pub definitions: bool,
    /// Message about jobs that the user may not list.
    pub unseen_jobs: Option<String>,
}

impl PoolSnapshot {
    /// Adds live metrics to the nodes' devices.
    pub(crate) fn measure(
        &mut self,
        metrics: &OptionalMetrics<'_>,
        reading: Option<&ExporterReading>,
    ) -> Option<Coverage> {
        let readings = metrics.measure(&mut self.snapshot, reading);
        for pool in &mut self.pools {
            pool.hosts = self.snapshot.inventory.pool(&pool.name).cloned().collect();
        }
        readings.as_ref().map(Coverage::from)
    }
}

/// Warns about each missing permission.
pub(crate) fn warn_of_missing_rights(pools: &PoolSnapshot, context: &Context) {
    nodes::warn_of_missing_rights(&pools.snapshot, context);
    if !pools.definitions {
        context.terminal.warn_missing_permission(
            "you are not allowed to read pool definitions: descriptions and quotas are unknown",
        );
    }
    if let Some(unseen) = &pools.unseen_jobs {
        context.terminal.warn_missing_permission(&format!(
            "{unseen}: the number of jobs in a pool is unknown"
        ));
    }
}

/// Reads all pools, or only the pool `only_name`.
pub(crate) async fn read_pools(
    connection: &Connection,
    only_name: Option<&str>,
) -> Result<PoolSnapshot, Failure> {
    // List all jobs: a job without a pool may still have pods on the pool's nodes.
    let selector = JobFilter::default();
    let (snapshot, definitions, jobs) = join3(
        connection.inventory().snapshot(),
        connection.pools().list(),
        connection.jobs().list(&selector),
    )
    .await;
    let snapshot = snapshot?;
    let definitions: Option<Vec<PoolDefinition>> = unless_forbidden(definitions)?;
    let jobs = unless_forbidden(jobs)?;
    let unseen_jobs = match &jobs {
        None => Some("you are not allowed to list jobs".to_owned()),
        Some(jobs) => jobs.unseen(),
    };
    let defined: Vec<&PoolDefinition> = definitions.iter().flatten().collect();
    let mut names: BTreeSet<&str> = snapshot.inventory.pools();
    names.extend(defined.iter().map(|pool| pool.name.as_str()));
    // Finished jobs hold no resources of a pool.
    let active_jobs: Vec<&Job> = jobs
        .iter()
        .flat_map(|selection| &selection.jobs)
        .filter(|job| !State::from_job(job).status.is_final())
        .collect();
    let pool = |name: &str| PoolUse {
        hosts: snapshot.inventory.pool(name).cloned().collect(),
        defined: definitions.is_some(),
        definition: defined
            .iter()
            .find(|pool| pool.name == name)
            .copied()
            .cloned(),
        jobs: jobs_in(name, &snapshot.inventory, &active_jobs),
        all_jobs: unseen_jobs.is_none(),
        name: name.to_owned(),
    };
    let pools = natural::sorted(names)
        .into_iter()
        .filter(|name| only_name.is_none_or(|only_name| only_name == *name))
        .map(pool)
        .collect();
    Ok(PoolSnapshot {
        pools,
        definitions: definitions.is_some(),
        unseen_jobs,
        snapshot,
    })
}

/// Selects jobs that name the pool or have pods with GPUs on its nodes.
fn jobs_in(pool: &str, inventory: &Inventory, active_jobs: &[&Job]) -> Vec<Job> {
    let hosts: BTreeSet<&str> = inventory.pool(pool).map(NodeUsage::name).collect();
    let is_on_pool =
        |pod: &Pod| !pod.ended() && pod.node.as_deref().is_some_and(|node| hosts.contains(node));
    let has_pods_on_pool = |job: &Job| {
        job.pods
            .iter()
            .any(|pod| pod.gpus > GpuCount::ZERO && is_on_pool(pod))
    };
    active_jobs
        .iter()
        .filter(|job| job.pool.as_deref() == Some(pool) || has_pods_on_pool(job))
        .map(|job| (*job).clone())
        .collect()
}
