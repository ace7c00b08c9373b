//! Builds the hourly rows of `stats`, with the field names of the aggregation document.
//!
//! Percentages are from 0 to 100, hours are in UTC, memory is in GiB, and unknown values are
//! `null`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::utilization::{GroupUtilization, Utilization};
use crate::format::coverage::rounded;
use crate::format::parts::PartItem;
use gpuctl_core::model::{Mebibytes, Percent};
use gpuctl_core::stats::history::hourly::{Sum, WorkloadSum};

/// The hour that a row describes.
#[derive(Clone, Debug)]
pub struct Hour<'a> {
    pub cluster: &'a str,
    pub start: Timestamp,
    /// End of the hour, or the time of the query if the hour is not over.
    pub end: Timestamp,
    pub partial: bool,
}

/// Hashes the identity of a row with FNV-1a, so that the same row always gets the same id. Ids are
/// below 2^53, which JSON readers can store in a double.
pub fn id(parts: &[&str]) -> u64 {
    // Offset basis and prime of 64-bit FNV-1a.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    // Join with a separator, so that `["a", "bc"]` and `["ab", "c"]` differ.
    for byte in parts.join("\u{0}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash & ((1 << 53) - 1)
}

/// The last fields of every row. A complete hour is stamped with its end instead of the current
/// time, so that equal input gives equal bytes.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// True for the current hour, which is not complete.
    pub partial: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Hour<'_>> for Stamp {
    fn from(hour: &Hour<'_>) -> Self {
        Self {
            partial: hour.partial,
            created_at: hour.end,
            updated_at: hour.end,
        }
    }
}

/// The figures of a cluster for one hour.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct ClusterRow {
    id: u64,
    cluster_name: String,
    stat_hour: Timestamp,
    pub(crate) total_gpu_capacity: Option<u64>,
    pub(crate) allocated_gpu_count: Option<f64>,
    /// Percentage of the capacity that was held.
    pub(crate) allocation_rate: Option<Percent>,
    #[serde(flatten)]
    pub(crate) group: GroupUtilization,
    dropped_sample_count: u64,
    gpu_parts: Vec<PartItem>,
    #[serde(flatten)]
    stamp: Stamp,
}

/// The figures of a namespace for one hour.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct NamespaceRow {
    id: u64,
    cluster_name: String,
    pub(crate) namespace: String,
    stat_hour: Timestamp,
    pub(crate) total_gpu_capacity: Option<u64>,
    pub(crate) allocated_gpu_count: f64,
    #[serde(flatten)]
    pub(crate) group: GroupUtilization,
    pub(crate) active_workload_count: usize,
    gpu_parts: Vec<PartItem>,
    #[serde(flatten)]
    stamp: Stamp,
}

/// The figures for one hour of all pods with the same value of a label or annotation.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct DimensionRow {
    id: u64,
    cluster_name: String,
    dimension_type: String,
    dimension_key: String,
    pub(crate) dimension_value: String,
    stat_hour: Timestamp,
    pub(crate) allocated_gpu_count: f64,
    #[serde(flatten)]
    pub(crate) group: GroupUtilization,
    pub(crate) active_workload_count: usize,
    gpu_parts: Vec<PartItem>,
    #[serde(flatten)]
    stamp: Stamp,
}

/// The figures of a workload for one hour. Memory is in GiB.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct WorkloadRow {
    id: u64,
    cluster_name: String,
    pub namespace: String,
    pub workload_name: String,
    pub workload_type: String,
    stat_hour: Timestamp,
    pub(crate) allocated_gpu_count: f64,
    /// Number of requested GPUs, weighted by time.
    requested_gpu_count: f64,
    #[serde(flatten)]
    utilization: Utilization,
    /// In GiB per device.
    pub(crate) avg_gpu_memory_used: Option<f64>,
    /// In GiB per device.
    max_gpu_memory_used: Option<f64>,
    /// In GiB per device.
    avg_gpu_memory_total: Option<f64>,
    /// Mean number of pods.
    pub(crate) avg_replica_count: Option<f64>,
    max_replica_count: Option<i64>,
    min_replica_count: Option<i64>,
    pub(crate) workload_status: Option<String>,
    /// Number of samples that the utilization is based on.
    sample_count: usize,
    /// Not part of the history. It is filled in from the cluster if the object still exists.
    pub owner_uid: Option<String>,
    owner_name: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    gpu_parts: Vec<PartItem>,
    #[serde(flatten)]
    stamp: Stamp,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum HourlyRow {
    Cluster(ClusterRow),
    Namespace(NamespaceRow),
    Dimension(DimensionRow),
    Workload(Box<WorkloadRow>),
}

impl HourlyRow {
    /// Parses cached rows of one kind, or returns `None` if they have another format.
    pub fn read(kind: RowKind, stored: Value) -> Option<Vec<Self>> {
        fn parse_rows<T: DeserializeOwned>(
            stored: Value,
            row: fn(T) -> HourlyRow,
        ) -> Option<Vec<HourlyRow>> {
            Some(
                serde_json::from_value::<Vec<T>>(stored)
                    .ok()?
                    .into_iter()
                    .map(row)
                    .collect(),
            )
        }
        match kind {
            RowKind::Cluster => parse_rows(stored, Self::Cluster),
            RowKind::Namespaces => parse_rows(stored, Self::Namespace),
            RowKind::Labels => parse_rows(stored, Self::Dimension),
            RowKind::Workloads => parse_rows(stored, |row| Self::Workload(Box::new(row))),
        }
    }

    pub fn cluster(&self) -> &str {
        match self {
            Self::Cluster(row) => &row.cluster_name,
            Self::Namespace(row) => &row.cluster_name,
            Self::Dimension(row) => &row.cluster_name,
            Self::Workload(row) => &row.cluster_name,
        }
    }

    pub fn hour(&self) -> Timestamp {
        match self {
            Self::Cluster(row) => row.stat_hour,
            Self::Namespace(row) => row.stat_hour,
            Self::Dimension(row) => row.stat_hour,
            Self::Workload(row) => row.stat_hour,
        }
    }

    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(row) => Some(&row.namespace),
            Self::Workload(row) => Some(&row.namespace),
            Self::Cluster(_) | Self::Dimension(_) => None,
        }
    }

    pub fn dimension_value(&self) -> Option<&str> {
        if let Self::Dimension(row) = self {
            Some(&row.dimension_value)
        } else {
            None
        }
    }

    pub fn avg_utilization(&self) -> Option<Percent> {
        self.utilization().avg_utilization
    }

    /// Returns the mean number of held GPUs.
    pub fn allocated(&self) -> Option<f64> {
        match self {
            Self::Cluster(row) => row.allocated_gpu_count,
            Self::Namespace(row) => Some(row.allocated_gpu_count),
            Self::Dimension(row) => Some(row.allocated_gpu_count),
            Self::Workload(row) => Some(row.allocated_gpu_count),
        }
    }

    /// Returns the name that identifies the row within its hour.
    pub fn name(&self) -> &str {
        match self {
            Self::Cluster(row) => &row.cluster_name,
            Self::Namespace(row) => &row.namespace,
            Self::Dimension(row) => &row.dimension_value,
            Self::Workload(row) => &row.workload_name,
        }
    }

    pub(crate) fn utilization(&self) -> &Utilization {
        match self {
            Self::Cluster(row) => &row.group.windows,
            Self::Namespace(row) => &row.group.windows,
            Self::Dimension(row) => &row.group.windows,
            Self::Workload(row) => &row.utilization,
        }
    }

    pub(crate) fn is_partial(&self) -> bool {
        match self {
            Self::Cluster(row) => row.stamp.partial,
            Self::Namespace(row) => row.stamp.partial,
            Self::Dimension(row) => row.stamp.partial,
            Self::Workload(row) => row.stamp.partial,
        }
    }
}

/// Returns the id of a row with this kind, cluster, hour and names.
fn row_id(hour: &Hour<'_>, kind: &str, names: &[&str]) -> u64 {
    let start = hour.start.to_string();
    let parts: Vec<&str> = [kind, hour.cluster, &start]
        .into_iter()
        .chain(names.iter().copied())
        .collect();
    id(&parts)
}

pub fn cluster_row(
    hour: &Hour<'_>,
    capacity: Option<u64>,
    parts: &[(String, u64)],
    sum: Option<&Sum>,
    dropped: u64,
) -> HourlyRow {
    let allocated = sum.map(|sum| sum.allocated);
    let rate = allocated
        .zip(capacity.filter(|capacity| *capacity > 0))
        .map(|(held, capacity)| Percent((held / capacity as f64 * 100.0).min(100.0)));
    HourlyRow::Cluster(ClusterRow {
        id: row_id(hour, "cluster", &[]),
        cluster_name: hour.cluster.to_owned(),
        stat_hour: hour.start,
        total_gpu_capacity: capacity,
        allocated_gpu_count: allocated.map(rounded),
        allocation_rate: rate.map(rounded),
        group: sum.into(),
        dropped_sample_count: dropped,
        gpu_parts: PartItem::of_cluster(sum.map_or(&[], |sum| &sum.parts), parts),
        stamp: hour.into(),
    })
}

pub fn namespace_row(
    hour: &Hour<'_>,
    capacity: Option<u64>,
    namespace: &str,
    sum: &Sum,
) -> HourlyRow {
    HourlyRow::Namespace(NamespaceRow {
        id: row_id(hour, "namespace", &[namespace]),
        cluster_name: hour.cluster.to_owned(),
        namespace: namespace.to_owned(),
        stat_hour: hour.start,
        total_gpu_capacity: capacity,
        allocated_gpu_count: rounded(sum.allocated),
        group: Some(sum).into(),
        active_workload_count: sum.workloads,
        gpu_parts: PartItem::from_sums(&sum.parts),
        stamp: hour.into(),
    })
}

/// Creates the row of one value. `dimension` is the type (`label` or `annotation`), key and value.
pub fn dimension_row(hour: &Hour<'_>, dimension: [&str; 3], sum: &Sum) -> HourlyRow {
    let [kind, key, value] = dimension.map(ToOwned::to_owned);
    HourlyRow::Dimension(DimensionRow {
        id: row_id(hour, "dimension", &dimension),
        cluster_name: hour.cluster.to_owned(),
        dimension_type: kind,
        dimension_key: key,
        dimension_value: value,
        stat_hour: hour.start,
        allocated_gpu_count: rounded(sum.allocated),
        group: Some(sum).into(),
        active_workload_count: sum.workloads,
        gpu_parts: PartItem::from_sums(&sum.parts),
        stamp: hour.into(),
    })
}

pub fn workload_row(hour: &Hour<'_>, workload: &WorkloadSum) -> HourlyRow {
    let WorkloadSum {
        top,
        sum,
        memory_used,
        memory_total,
        replicas,
        status,
        labels,
        annotations,
    } = workload;
    let gib = |memory: Option<Mebibytes>| memory.map(|used| rounded(used.gibibytes()));
    #[expect(clippy::cast_possible_truncation, reason = "a count of pods")]
    let count = |value: Option<f64>| value.map(|value| value as i64);
    HourlyRow::Workload(Box::new(WorkloadRow {
        id: row_id(hour, "workload", &[&top.namespace, &top.kind, &top.name]),
        cluster_name: hour.cluster.to_owned(),
        namespace: top.namespace.clone(),
        workload_name: top.name.clone(),
        workload_type: top.kind.clone(),
        stat_hour: hour.start,
        allocated_gpu_count: rounded(sum.allocated),
        requested_gpu_count: rounded(sum.requested),
        utilization: sum.samples.as_ref().into(),
        avg_gpu_memory_used: gib(memory_used.map(|summary| summary.mean)),
        max_gpu_memory_used: gib(memory_used.map(|summary| summary.max)),
        avg_gpu_memory_total: gib(memory_total.map(|summary| summary.mean)),
        avg_replica_count: replicas.map(|summary| rounded(summary.mean)),
        max_replica_count: count(replicas.map(|summary| summary.max)),
        min_replica_count: count(replicas.map(|summary| summary.min)),
        workload_status: status.map(ToOwned::to_owned),
        sample_count: sum.samples.map_or(0, |summary| summary.count),
        owner_uid: None,
        owner_name: top.name.clone(),
        labels: labels.clone(),
        annotations: annotations.clone(),
        gpu_parts: PartItem::from_sums(&sum.parts),
        stamp: hour.into(),
    }))
}

/// The kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Cluster,
    Namespaces,
    Labels,
    Workloads,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_their_rows() {
        let first = id(&["cluster", "lab", "2025-11-05T14:00:00Z"]);
        assert_eq!(first, id(&["cluster", "lab", "2025-11-05T14:00:00Z"]));
        assert_ne!(first, id(&["cluster", "la", "b2025-11-05T14:00:00Z"]));
        assert!(first < 1 << 53);
    }
}
