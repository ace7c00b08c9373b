//! Combines a pool with its nodes and jobs, and sums up their use.

use std::collections::{BTreeMap, BTreeSet};

use gpuctl_core::model::counting::held_use::held_figures;
use gpuctl_core::model::counting::inventory;
use gpuctl_core::model::{
    Count, Figures, GpuType, Holder, Job, NodeHealth, NodeUsage, PoolDefinition,
};

/// A pool with its nodes, its definition and its jobs.
#[derive(Clone, Debug)]
pub struct PoolUse {
    pub name: String,
    pub hosts: Vec<NodeUsage>,
    /// `None` when the pool exists only as node labels, or when the user is not allowed to read
    /// definitions.
    pub definition: Option<PoolDefinition>,
    /// False when the user is not allowed to read definitions.
    pub defined: bool,
    /// Visible jobs that have not ended and that name the pool or run on its nodes.
    pub jobs: Vec<Job>,
    /// Whether these are all jobs of the pool.
    pub all_jobs: bool,
}

impl PoolUse {
    pub fn gpus(&self) -> Count {
        inventory::total(self.hosts.iter().map(|host| host.gpus))
    }

    /// Counts the jobs that name the pool, as `create` does for the pool's limit. Jobs that merely
    /// run on its nodes do not count. `None` when some jobs are not visible.
    pub fn job_count(&self) -> Option<u64> {
        let named = |job: &&Job| job.pool.as_deref() == Some(&*self.name);
        self.all_jobs
            .then(|| self.jobs.iter().filter(named).count() as u64)
    }

    /// Counts the nodes that accept new pods.
    pub(super) fn nodes_usable(&self) -> usize {
        let hosts = self.hosts.iter();
        hosts.filter(|host| host.accepts_pods()).count()
    }

    /// Lists the pods that hold devices of its nodes but belong to no listed job, with their nodes.
    pub(super) fn guests(&self) -> Vec<(&str, &Holder)> {
        let is_listed = |holder: &Holder| {
            let is_holder = |job: &Job| {
                *job.namespace == *holder.namespace
                    && Some(job.name.as_str()) == holder.job.as_deref()
            };
            self.jobs.iter().any(is_holder)
        };
        let holders = self
            .hosts
            .iter()
            .flat_map(|host| host.holders.iter().map(|holder| (host.name(), holder)));
        holders.filter(|(_, holder)| !is_listed(holder)).collect()
    }

    pub(super) fn figures(&self) -> Figures {
        held_figures(self.hosts.iter())
    }

    pub(super) fn slices(&self) -> BTreeMap<String, Count> {
        let mut by_name: BTreeMap<String, Vec<Count>> = BTreeMap::new();
        for (name, count) in self.hosts.iter().flat_map(|host| &host.slices) {
            by_name.entry(name.clone()).or_default().push(*count);
        }
        by_name
            .into_iter()
            .map(|(name, counts)| (name, inventory::total(counts.into_iter())))
            .collect()
    }

    pub(super) fn types(&self) -> BTreeMap<String, u64> {
        let mut types = BTreeMap::new();
        for (kind, count) in self.hosts.iter().flat_map(|host| &host.types) {
            *types.entry(kind.clone()).or_default() += count;
        }
        types
    }

    /// Lists the types of devices and slices, as far as labels show them.
    pub(super) fn kinds(&self) -> Vec<GpuType> {
        self.hosts
            .iter()
            .flat_map(NodeUsage::kinds)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Determines the state of the pool: `active` if any node accepts jobs; `None` when the nodes
    /// are not visible.
    pub(super) fn status(&self) -> Option<&'static str> {
        let any = |health: NodeHealth| self.hosts.iter().any(|host| host.health == health);
        if self.hosts.is_empty() {
            return Some("empty");
        }
        [
            NodeHealth::Active,
            NodeHealth::Unknown,
            NodeHealth::Maintaining,
            NodeHealth::Faulty,
        ]
        .into_iter()
        .find(|health| any(*health))?
        .known_word()
    }
}
