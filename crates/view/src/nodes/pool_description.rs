//! Renders `describe pool`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{GpuType, NodeUsage, Percent, PoolDefinition, State};

use super::document::{SliceItem, slices};
use super::node_description::RunningJob;
use super::numbers::{GpuNumbers, numbers_text};
use super::pool_use::PoolUse;
use crate::format::coverage;
use crate::format::coverage::rounded;
use crate::format::named_lines::NamedLines;
use crate::format::table::{Table, left, right};
use crate::format::text::{clean, count, plain_name};
use crate::{Format, TextStyle};

/// The JSON output of `describe pool`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolDocument {
    name: String,
    description: Option<String>,
    /// `null` when the nodes are not visible.
    status: Option<&'static str>,
    nodes: Vec<String>,
    gpu_total: u64,
    gpu_used: Option<u64>,
    /// Usable whole devices that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    #[serde(flatten)]
    numbers: GpuNumbers,
    gpu_type: BTreeMap<String, u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    /// Mean utilization in percent of the whole devices that pods hold, or of the slices if pods
    /// hold no whole device. Devices without a sample do not count.
    gpu_utilization: Option<Percent>,
    gpu_sampled: u64,
    memory_usage: Option<String>,
    /// Empty when all types are allowed; `null` when the user is not allowed to read pool
    /// definitions.
    allowed_gpu_type: Option<Vec<GpuType>>,
    /// `null` when the user is not allowed to read pool definitions.
    quota: Option<PoolLimitsDocument>,
    /// `null` when the user is not allowed to read pool definitions.
    exclusive: Option<bool>,
    jobs: Vec<RunningJob>,
}

/// Limits of a pool; `null` means no limit.
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
        numbers: gpus.into(),
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

/// Renders a pool as text.
pub fn text(pool: &PoolUse, style: TextStyle) -> String {
    let heading = format!(
        "{}   {}   {}\n",
        plain_name(&pool.name),
        pool.status().unwrap_or("-"),
        count(pool.hosts.len() as u64, "node")
    );
    let mut lines = NamedLines::below(heading, style);
    let definition = pool.definition.clone().unwrap_or_default();
    lines.add_known("about", definition.description.as_deref().map(clean));
    add_devices(&mut lines, pool);
    add_limits(&mut lines, pool, &definition);
    let nodes: Vec<&str> = pool.hosts.iter().map(NodeUsage::name).collect();
    lines.add("nodes", nodes.join(", "));
    lines.into_text() + &job_table(pool, style) + &guest_table(pool, style)
}

/// Adds the GPUs and slices with their use.
fn add_devices(lines: &mut NamedLines, pool: &PoolUse) {
    let gpus = pool.gpus();
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
    lines.add("GPUs", format!("{types}: {}", numbers_text(gpus)));
    lines.add_known("GPU use", coverage::usage_of_nodes(pool.hosts.iter()));
    for (name, count) in pool.slices() {
        lines.add(
            "slices",
            format!(
                "{} × {}: {}",
                count.total,
                clean(&name),
                numbers_text(count)
            ),
        );
    }
}

/// Adds the limits from the pool's definition.
fn add_limits(lines: &mut NamedLines, pool: &PoolUse, definition: &PoolDefinition) {
    if !definition.gpu_types.is_empty() {
        lines.add("allowed", definition.type_names().join(", "));
    }
    let limit = |value: Option<u32>, unit: &str| value.map(|value| format!("{value} {unit}"));
    let limits: Vec<String> = [
        limit(definition.max_jobs, "jobs"),
        limit(definition.max_gpu_per_job, "GPUs per job"),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.add(
        "quota",
        match (pool.defined, limits.is_empty()) {
            (false, _) => "-".to_owned(),
            (_, true) => "none".to_owned(),
            _ => limits.join(", "),
        },
    );
    if definition.exclusive {
        lines.add(
            "exclusive",
            "a taint keeps jobs of other pools and jobs without a pool off its nodes",
        );
    }
}

fn job_table(pool: &PoolUse, style: TextStyle) -> String {
    if pool.jobs.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        left("JOBS"),
        left("KIND"),
        left("STATUS"),
        right("GPUS"),
        left("USER"),
        left("POOL"),
    ]);
    for job in &pool.jobs {
        table.row(vec![
            format!("{}/{}", job.namespace, job.name).into(),
            job.kind.word().into(),
            State::from_job(job).to_string().into(),
            job.gpus().to_string().into(),
            job.user.clone().unwrap_or_default().into(),
            job.pool.clone().unwrap_or_default().into(),
        ]);
    }
    table.show(Format::Table, true, style)
}

fn guest_table(pool: &PoolUse, style: TextStyle) -> String {
    let guests = pool.guests();
    if guests.is_empty() {
        return String::new();
    }
    let mut table = Table::new([left("OTHERS ON ITS NODES"), left("NODE"), right("GPUS")]);
    for (node, holder) in guests {
        table.row(vec![
            format!("{}/{}", holder.namespace, holder.pod).into(),
            node.into(),
            holder.gpus.to_string().into(),
        ]);
    }
    table.show(Format::Table, true, style)
}
