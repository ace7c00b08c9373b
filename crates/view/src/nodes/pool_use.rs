//! Combines a pool with its nodes and jobs, and sums their use.

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
    /// `None` if the pool exists only as node labels, or if the user cannot read definitions.
    pub definition: Option<PoolDefinition>,
    /// Whether the user can read definitions.
    pub defined: bool,
    /// Visible unfinished jobs that name the pool or run on its nodes.
    pub jobs: Vec<Job>,
    /// Whether `jobs` contains all jobs of the pool.
    pub all_jobs: bool,
}

impl PoolUse {
    pub fn gpus(&self) -> Count {
        inventory::total(self.hosts.iter().map(|host| host.gpus))
    }

    /// Returns the number of jobs, or `None` if some may be hidden from the user.
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

    /// Lists the pods that hold devices in the pool but belong to none of its jobs, with their
    /// nodes.
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

    /// Lists the types of devices and slices that labels show.
    pub(super) fn kinds(&self) -> Vec<GpuType> {
        self.hosts
            .iter()
            .flat_map(NodeUsage::kinds)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns the pool's state, which is `active` if all nodes accept jobs, and `degraded` if only
    /// some do. If none does, the state is that of the healthiest node, where a tainted node counts
    /// as `maintaining`. Returns `None` if the nodes are hidden from the user.
    pub(crate) fn status(&self) -> Option<&'static str> {
        let any = |health: NodeHealth| self.hosts.iter().any(|host| host.health == health);
        let (usable, nodes) = (self.nodes_usable(), self.hosts.len());
        if nodes == 0 {
            return Some("empty");
        }
        // A copy of nodes without their health does not show whether they are ready.
        let is_readable = self
            .hosts
            .iter()
            .any(|host| host.health != NodeHealth::Unknown);
        if is_readable && 0 < usable && usable < nodes {
            return Some("degraded");
        }
        let best = [
            NodeHealth::Active,
            NodeHealth::Unknown,
            NodeHealth::Maintaining,
            NodeHealth::Faulty,
        ]
        .into_iter()
        .find(|health| any(*health))?;
        match best {
            NodeHealth::Active if usable == 0 => NodeHealth::Maintaining,
            best => best,
        }
        .known_word()
    }
}
