//! Renders pools: lists, one in full, and what was created.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{
    Count, Figures, GpuType, Holder, Job, NodeHealth, NodeUsage, Percent, PoolDefinition, Reading,
    State,
};

use super::describe::RunningJob;
use super::document::{SliceItem, slices};
use crate::format::coverage;
use crate::format::coverage::{Coverage, percent, rounded};
use crate::format::table::{Table, left, percentages, right};
use crate::format::text::{clean, count, joined, or_dash, plain_name, state, status_line, wrapped};
use crate::{Format, TextStyle};

/// A pool with its nodes, its definition and its jobs.
#[derive(Clone, Debug)]
pub struct PoolUse {
    pub name: String,
    pub hosts: Vec<NodeUsage>,
    /// `None` for a pool of labels alone, or when definitions may not be read.
    pub definition: Option<PoolDefinition>,
    /// False when definitions may not be read.
    pub defined: bool,
    /// Jobs that have not ended and name the pool or run on its nodes, as far as they may be seen.
    pub jobs: Vec<Job>,
    /// True when there are no others.
    pub all_jobs: bool,
}

impl PoolUse {
    pub fn gpus(&self) -> Count {
        gpuctl_core::model::counting::inventory::total(self.hosts.iter().map(|host| host.gpus))
    }

    /// Returns how many jobs are in it; `None` when some may not be seen.
    pub fn job_count(&self) -> Option<u64> {
        self.all_jobs.then_some(self.jobs.len() as u64)
    }

    /// Returns pods that hold devices of its nodes and belong to no job of ours that is listed,
    /// with their nodes.
    fn guests(&self) -> Vec<(&str, &Holder)> {
        let listed = |holder: &Holder| {
            let is = |job: &Job| {
                *job.namespace == *holder.namespace
                    && Some(job.name.as_str()) == holder.job.as_deref()
            };
            self.jobs.iter().any(is)
        };
        let holders = self
            .hosts
            .iter()
            .flat_map(|host| host.holders.iter().map(|holder| (host.name(), holder)));
        holders.filter(|(_, holder)| !listed(holder)).collect()
    }

    fn figures(&self) -> Figures {
        let held: Vec<&Reading> = self
            .hosts
            .iter()
            .flat_map(NodeUsage::held_devices)
            .collect();
        Figures::of(held.into_iter())
    }

    fn slices(&self) -> BTreeMap<String, Count> {
        let mut found: BTreeMap<String, Vec<Count>> = BTreeMap::new();
        for (name, count) in self.hosts.iter().flat_map(|host| &host.slices) {
            found.entry(name.clone()).or_default().push(*count);
        }
        found
            .into_iter()
            .map(|(name, counts)| {
                (
                    name,
                    gpuctl_core::model::counting::inventory::total(counts.into_iter()),
                )
            })
            .collect()
    }

    fn types(&self) -> BTreeMap<String, u64> {
        let mut types = BTreeMap::new();
        for (kind, count) in self.hosts.iter().flat_map(|host| &host.types) {
            *types.entry(kind.clone()).or_default() += count;
        }
        types
    }

    /// Types of devices and slices, as far as labels tell.
    fn kinds(&self) -> Vec<GpuType> {
        self.hosts
            .iter()
            .flat_map(NodeUsage::kinds)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns `active` while a node takes jobs; `None` when the nodes may not be seen.
    fn status(&self) -> Option<&'static str> {
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
        .known()
    }
}

/// The answer of `get pools`.
#[derive(JsonSchema, Serialize)]
pub struct PoolList {
    total: usize,
    items: Vec<PoolItem>,
    /// `null` without metrics.
    coverage: Option<Coverage>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolItem {
    name: String,
    description: Option<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    gpu_free: Option<u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    gpu_type: Vec<GpuType>,
    /// Mean in percent over the devices that a pod holds and that were sampled.
    gpu_utilization: Option<Percent>,
    gpu_sampled: u64,
    memory_usage: Option<String>,
    nodes: usize,
    /// `null` when some may not be seen.
    jobs: Option<u64>,
    /// `null` when the nodes may not be seen.
    status: Option<&'static str>,
}

/// Returns a page of `total` pools.
pub fn list(pools: &[PoolUse], total: usize, coverage: Option<Coverage>) -> PoolList {
    PoolList {
        total,
        items: pools.iter().map(PoolItem::from).collect(),
        coverage,
    }
}

impl From<&PoolUse> for PoolItem {
    fn from(pool: &PoolUse) -> Self {
        Self {
            name: pool.name.clone(),
            description: pool
                .definition
                .as_ref()
                .and_then(|definition| definition.description.clone()),
            gpu_total: pool.gpus().total,
            gpu_used: pool.gpus().used,
            gpu_free: pool.gpus().free(),
            gpu_slices: slices(&pool.slices()),
            gpu_type: pool.kinds(),
            gpu_utilization: pool.figures().utilization.map(rounded),
            gpu_sampled: pool.figures().sampled,
            memory_usage: coverage::memory_of(&pool.figures()),
            nodes: pool.hosts.len(),
            jobs: pool.job_count(),
            status: pool.status(),
        }
    }
}

pub fn names(pools: &[PoolUse]) -> Vec<String> {
    pools
        .iter()
        .map(|pool| plain_name(&pool.name).into_owned())
        .collect()
}

pub fn table(pools: &[PoolUse], format: Format, headers: bool, look: TextStyle) -> String {
    let mut table = Table::new([
        left("NAME"),
        left("STATUS"),
        right("NODES"),
        left("TYPE"),
        right("GPUS"),
        right("USED"),
        right("FREE"),
        percentages("UTIL"),
        right("JOBS"),
        left("DESCRIPTION").yielding(),
    ])
    .with_wide();
    for pool in pools {
        let gpus = pool.gpus();
        let description = pool
            .definition
            .as_ref()
            .and_then(|definition| definition.description.clone());
        table.row(vec![
            plain_name(&pool.name).into_owned().into(),
            pool.status().unwrap_or("-").into(),
            pool.hosts.len().to_string().into(),
            joined(&pool.kinds()).into(),
            gpus.total.to_string().into(),
            or_dash(gpus.used).into(),
            or_dash(gpus.free()).into(),
            percent(pool.figures().utilization).into(),
            or_dash(pool.job_count()).into(),
            description.unwrap_or_default().into(),
        ]);
    }
    table.show(format, headers, look)
}

/// `describe pool -o json`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolDocument {
    name: String,
    description: Option<String>,
    /// `null` when the nodes may not be seen.
    status: Option<&'static str>,
    nodes: Vec<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    gpu_free: Option<u64>,
    gpu_type: BTreeMap<String, u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    /// Mean in percent over the devices that a pod holds and that were sampled.
    gpu_utilization: Option<Percent>,
    gpu_sampled: u64,
    memory_usage: Option<String>,
    /// Empty allows all; `null` when definitions may not be read.
    allowed_gpu_type: Option<Vec<GpuType>>,
    /// `null` when definitions may not be read.
    quota: Option<PoolLimitsDocument>,
    /// `null` when definitions may not be read.
    exclusive: Option<bool>,
    jobs: Vec<RunningJob>,
}

/// `null` is no limit.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolLimitsDocument {
    max_jobs: Option<u32>,
    max_gpu_per_job: Option<u32>,
}

pub fn document(pool: &PoolUse) -> PoolDocument {
    let definition = pool.definition.clone().unwrap_or_default();
    let gpus = pool.gpus();
    PoolDocument {
        name: pool.name.clone(),
        description: definition.description,
        status: pool.status(),
        nodes: pool
            .hosts
            .iter()
            .map(|host| host.name().to_owned())
            .collect(),
        gpu_total: gpus.total,
        gpu_used: gpus.used,
        gpu_free: gpus.free(),
        gpu_type: pool.types(),
        gpu_slices: slices(&pool.slices()),
        gpu_utilization: pool.figures().utilization.map(rounded),
        gpu_sampled: pool.figures().sampled,
        memory_usage: coverage::memory_of(&pool.figures()),
        exclusive: pool.defined.then_some(definition.exclusive),
        allowed_gpu_type: pool.defined.then_some(definition.gpu_types),
        quota: pool.defined.then_some(PoolLimitsDocument {
            max_jobs: definition.max_jobs,
            max_gpu_per_job: definition.max_gpu_per_job,
        }),
        jobs: pool
            .jobs
            .iter()
            .map(|job| RunningJob {
                job_id: job.name.clone(),
                name: job.display_name.clone(),
                namespace: job.namespace.clone(),
                gpu: job.gpus(),
            })
            .collect(),
    }
}

/// Returns one pool for people.
pub fn text(pool: &PoolUse, look: TextStyle) -> String {
    let gpus = pool.gpus();
    let mut text = format!(
        "{}   {}   {}\n",
        plain_name(&pool.name),
        pool.status().unwrap_or("-"),
        count(pool.hosts.len() as u64, "node")
    );
    let mut line =
        |name: &str, value: String| text.push_str(&status_line(name, &wrapped(&value, 15, look)));
    let definition = pool.definition.clone().unwrap_or_default();
    if let Some(description) = &definition.description {
        line("about", clean(description).into_owned());
    }
    let types: Vec<String> = pool
        .types()
        .iter()
        .map(|(kind, count)| format!("{count} × {}", clean(kind)))
        .collect();
    let types = if types.is_empty() {
        "no whole GPUs".to_owned()
    } else {
        types.join(", ")
    };
    line(
        "GPUs",
        format!(
            "{types}: {} held, {} free",
            or_dash(gpus.used),
            or_dash(gpus.free())
        ),
    );
    if let Some(use_of) = coverage::use_of(&pool.figures(), pool.gpus().used.unwrap_or(0)) {
        line("GPU use", use_of);
    }
    for (name, count) in pool.slices() {
        line(
            "slices",
            format!(
                "{} × {}: {} held",
                count.total,
                clean(&name),
                or_dash(count.used)
            ),
        );
    }
    if !definition.gpu_types.is_empty() {
        line("allowed", definition.type_names().join(", "));
    }
    let most = |value: Option<u32>, what: &str| value.map(|value| format!("{value} {what}"));
    let limits: Vec<String> = [
        most(definition.max_jobs, "jobs"),
        most(definition.max_gpu_per_job, "GPUs per job"),
    ]
    .into_iter()
    .flatten()
    .collect();
    line(
        "quota",
        match (pool.defined, limits.is_empty()) {
            (false, _) => "-".to_owned(),
            (_, true) => "none".to_owned(),
            _ => limits.join(", "),
        },
    );
    if definition.exclusive {
        line(
            "exclusive",
            "a taint keeps jobs of other pools, and of none, off its nodes".to_owned(),
        );
    }
    line(
        "nodes",
        pool.hosts
            .iter()
            .map(NodeUsage::name)
            .collect::<Vec<_>>()
            .join(", "),
    );
    if !pool.jobs.is_empty() {
        let mut table = Table::new([
            left("JOBS"),
            left("KIND"),
            left("STATUS"),
            right("GPUS"),
            left("USER"),
        ]);
        for job in &pool.jobs {
            table.row(vec![
                format!("{}/{}", job.namespace, job.name).into(),
                job.kind.word().into(),
                state(&State::of(job)).into(),
                job.gpus().to_string().into(),
                job.user.clone().unwrap_or_default().into(),
            ]);
        }
        text.push_str(&table.show(Format::Table, true, look));
    }
    let guests = pool.guests();
    if !guests.is_empty() {
        let mut table = Table::new([left("OTHERS ON ITS NODES"), left("NODE"), right("GPUS")]);
        for (node, holder) in guests {
            table.row(vec![
                format!("{}/{}", holder.namespace, holder.pod).into(),
                node.into(),
                holder.gpus.to_string().into(),
            ]);
        }
        text.push_str(&table.show(Format::Table, true, look));
    }
    text
}
