//! Renders `get pools`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{GpuType, Percent};

use super::document::{SliceItem, slices};
use super::numbers::{GpuNumbers, WITHHELD, withheld};
use super::pool_use::PoolUse;
use crate::format::coverage;
use crate::format::coverage::{Coverage, percent, rounded};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{joined, or_dash, plain_name};
use crate::{Format, TextStyle};

/// The JSON output of `get pools`.
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
    /// Usable whole devices that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    #[serde(flatten)]
    numbers: GpuNumbers,
    gpu_slices: BTreeMap<String, SliceItem>,
    gpu_type: Vec<GpuType>,
    /// Mean utilization in percent of the whole devices that pods hold, or of the slices if pods
    /// hold no whole device. Devices without a sample do not count.
    gpu_utilization: Option<Percent>,
    gpu_sampled: u64,
    memory_usage: Option<String>,
    nodes: usize,
    /// Nodes that accept new pods.
    nodes_usable: usize,
    /// Jobs that name the pool and have not ended, which its limit counts; `null` when some jobs
    /// are not visible.
    jobs: Option<u64>,
    /// `null` when the nodes are not visible.
    status: Option<&'static str>,
}

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
            numbers: pool.gpus().into(),
            gpu_slices: slices(&pool.slices()),
            gpu_type: pool.kinds(),
            gpu_utilization: pool.figures().utilization.map(rounded),
            gpu_sampled: pool.figures().sampled,
            memory_usage: coverage::memory_of(&pool.figures()),
            nodes: pool.hosts.len(),
            nodes_usable: pool.nodes_usable(),
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

pub fn table(pools: &[PoolUse], format: Format, headers: bool, style: TextStyle) -> String {
    let wide = matches!(format, Format::Wide | Format::Csv);
    let mut columns = vec![
        left("NAME"),
        left("STATUS"),
        right("NODES"),
        left("TYPE"),
        right("GPUS"),
        right("USED"),
        right("FREE"),
        percentages("UTIL"),
        right("JOBS"),
    ];
    columns.extend(wide.then_some(WITHHELD).into_iter().flatten());
    columns.push(left("DESCRIPTION").yielding());
    let mut table = Table::new(columns).with_wide();
    for pool in pools {
        let gpus = pool.gpus();
        let description = pool
            .definition
            .as_ref()
            .and_then(|definition| definition.description.clone());
        let (nodes, usable) = (pool.hosts.len(), pool.nodes_usable());
        let nodes_text = match usable == nodes {
            true => nodes.to_string(),
            false => format!("{usable}/{nodes}"),
        };
        let mut cells = vec![
            plain_name(&pool.name).into_owned().into(),
            pool.status().unwrap_or("-").into(),
            Cell::measured(nodes_text, Some(nodes)),
            joined(&pool.kinds()).into(),
            gpus.total.to_string().into(),
            or_dash(gpus.used).into(),
            or_dash(gpus.free()).into(),
            percent(pool.figures().utilization).into(),
            or_dash(pool.job_count()).into(),
        ];
        cells.extend(wide.then(|| withheld(gpus)).into_iter().flatten());
        cells.push(description.unwrap_or_default().into());
        table.row(cells);
    }
    table.show(format, headers, style)
}
