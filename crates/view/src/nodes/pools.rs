//! Renders `get pools`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{GpuType, Percent};

use super::document::{SliceItem, slices};
use super::pool_use::PoolUse;
use crate::format::coverage;
use crate::format::coverage::{Coverage, percent, rounded};
use crate::format::table::{Table, left, percentages, right};
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
    gpu_free: Option<u64>,
    gpu_slices: BTreeMap<String, SliceItem>,
    gpu_type: Vec<GpuType>,
    /// Mean utilization in percent of the devices that pods hold. Devices without a sample do not
    /// count.
    gpu_utilization: Option<Percent>,
    gpu_sampled: u64,
    memory_usage: Option<String>,
    nodes: usize,
    /// `null` when some jobs are not visible.
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

pub fn table(pools: &[PoolUse], format: Format, headers: bool, style: TextStyle) -> String {
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
    table.show(format, headers, style)
}
