//! Reads pools: their nodes by label, their definitions from ConfigMaps, and their jobs.

use std::collections::BTreeSet;

use futures::future::join3;

use crate::context::Context;
use crate::observe::nodes;
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::{Connection, Failure, InventorySnapshot, Wanted, unless_forbidden};
use gpuctl_core::model::{GpuCount, Inventory, Job, NodeUsage, Pod, PoolDefinition, State};
use gpuctl_core::stats::exporters::devices::ExporterReading;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::pool_use::PoolUse;

/// Pools, and which data about them was not readable.
#[derive(Clone)]
pub(crate) struct PoolsFound {
    pub pools: Vec<PoolUse>,
    pub stock: InventorySnapshot,
    pub definitions: bool,
    /// Describes the jobs that the user may not list.
    pub unseen_jobs: Option<String>,
}

impl PoolsFound {
    /// Adds the live metrics of devices to the nodes.
    pub(crate) fn measure(
        &mut self,
        cells: &OptionalMetrics<'_>,
        moment: Option<&ExporterReading>,
    ) -> Option<Coverage> {
        let readings = cells.measure(&mut self.stock, moment);
        for pool in &mut self.pools {
            pool.hosts = self.stock.inventory.pool(&pool.name).cloned().collect();
        }
        readings.as_ref().map(Coverage::from)
    }
}

/// Warns once about each missing right.
pub(crate) fn warn_of(seen: &PoolsFound, context: &Context) {
    nodes::warn_of(&seen.stock, context);
    if !seen.definitions {
        context.terminal.warn_missing_permission(
            "you may not read the definitions of pools: descriptions and quotas are unknown",
        );
    }
    if let Some(missing) = &seen.unseen_jobs {
        context.terminal.warn_missing_permission(&format!(
            "{missing}: the number of jobs in a pool is unknown"
        ));
    }
}

/// Reads all pools, or only the one called `only`.
pub(crate) async fn look(
    connection: &Connection,
    only: Option<&str>,
) -> Result<PoolsFound, Failure> {
    // List all jobs: a job that names no pool may have pods on the pool's nodes.
    let wanted = Wanted::default();
    let (stock, definitions, jobs) = join3(
        connection.inventory().stock(),
        connection.pools().list(),
        connection.jobs().list(&wanted),
    )
    .await;
    let stock = stock?;
    let definitions: Option<Vec<PoolDefinition>> = unless_forbidden(definitions)?;
    let jobs = unless_forbidden(jobs)?;
    let unseen_jobs = match &jobs {
        None => Some("you may not list jobs".to_owned()),
        Some(jobs) => jobs.unseen(),
    };
    let of_any: Vec<&PoolDefinition> = definitions.iter().flatten().collect();
    let mut names: BTreeSet<&str> = stock.inventory.pools();
    names.extend(of_any.iter().map(|pool| pool.name.as_str()));
    // Finished jobs use nothing of a pool.
    let living: Vec<&Job> = jobs
        .iter()
        .flat_map(|found| &found.jobs)
        .filter(|job| !State::of(job).status.is_final())
        .collect();
    let pool = |name: &str| PoolUse {
        hosts: stock.inventory.pool(name).cloned().collect(),
        defined: definitions.is_some(),
        definition: of_any
            .iter()
            .find(|pool| pool.name == name)
            .copied()
            .cloned(),
        jobs: jobs_in(name, &stock.inventory, &living),
        all_jobs: unseen_jobs.is_none(),
        name: name.to_owned(),
    };
    let pools = names
        .into_iter()
        .filter(|name| only.is_none_or(|only| only == *name))
        .map(pool)
        .collect();
    Ok(PoolsFound {
        pools,
        definitions: definitions.is_some(),
        unseen_jobs,
        stock,
    })
}

/// Selects the jobs that name the pool or have pods with GPUs on its nodes.
fn jobs_in(pool: &str, inventory: &Inventory, living: &[&Job]) -> Vec<Job> {
    let hosts: BTreeSet<&str> = inventory.pool(pool).map(NodeUsage::name).collect();
    let on =
        |pod: &Pod| !pod.ended() && pod.node.as_deref().is_some_and(|node| hosts.contains(node));
    let sits = |job: &Job| {
        job.pods
            .iter()
            .any(|pod| pod.gpus > GpuCount::ZERO && on(pod))
    };
    living
        .iter()
        .filter(|job| job.pool.as_deref() == Some(pool) || sits(job))
        .map(|job| (*job).clone())
        .collect()
}
