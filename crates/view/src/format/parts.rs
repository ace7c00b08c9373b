//! Renders parts of devices: MIG instances, partitions and shares. They are listed with whole GPUs,
//! but not added to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::coverage::{fine, rounded};
use gpuctl_core::model::Percent;
use gpuctl_core::stats::history::part_hours::{PartHours, PartSum};

/// The hours of all parts with the same name.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PartHoursItem {
    part: String,
    /// Mean fraction of a GPU that one part makes up, from 0 to 1; `null` when it is unknown.
    fraction: Option<f64>,
    held_part_hours: f64,
    waited_part_hours: f64,
    /// The held part-hours converted to GPU-hours by their fraction.
    gpu_equivalent_hours: Option<f64>,
    measured_part_hours: f64,
    /// `null` for shares, because nothing measures how much of a shared device each pod used.
    used_part_hours: Option<f64>,
    utilization: Option<Percent>,
}

impl From<(&String, &PartHours)> for PartHoursItem {
    fn from((name, hours): (&String, &PartHours)) -> Self {
        Self {
            part: name.clone(),
            fraction: hours.fraction().map(fine),
            held_part_hours: rounded(hours.held),
            waited_part_hours: rounded(hours.waited),
            gpu_equivalent_hours: hours.equivalent.map(rounded),
            measured_part_hours: rounded(hours.measured),
            used_part_hours: hours.used().map(rounded),
            utilization: hours.utilization().map(rounded),
        }
    }
}

/// All parts with the same name during one hour.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub(crate) struct PartItem {
    part: String,
    /// Mean fraction of a GPU that one part makes up, from 0 to 1; `null` when it is unknown.
    fraction: Option<f64>,
    /// Number of these parts in the cluster; `null` in rows that cover only a part of the cluster.
    capacity: Option<u64>,
    /// Number of held parts, weighted by time.
    allocated_count: f64,
    requested_count: f64,
    /// `null` for shares, because nothing measures how much of a shared device each pod used.
    avg_utilization: Option<Percent>,
    sample_count: usize,
}

impl PartItem {
    pub(crate) fn from_sums(sums: &[PartSum]) -> Vec<Self> {
        sums.iter().map(Self::from).collect()
    }

    /// Lists the parts that pods held and nodes offered.
    pub(crate) fn of_cluster(sums: &[PartSum], capacities: &[(String, u64)]) -> Vec<Self> {
        let mut items = Self::from_sums(sums);
        for (name, capacity) in capacities {
            match items.iter_mut().find(|item| item.part == *name) {
                Some(item) => item.capacity = Some(*capacity),
                None => items.push(Self {
                    capacity: Some(*capacity),
                    ..Self::from(&PartSum::nothing(name))
                }),
            }
        }
        items.sort_by(|a, b| a.part.cmp(&b.part));
        items
    }
}

impl From<&PartSum> for PartItem {
    fn from(sum: &PartSum) -> Self {
        Self {
            part: sum.name.clone(),
            fraction: sum.fraction.map(fine),
            capacity: None,
            allocated_count: rounded(sum.allocated),
            requested_count: rounded(sum.requested),
            avg_utilization: sum.utilization.map(rounded),
            sample_count: sum.samples,
        }
    }
}

/// All parts with the same name at a point in time.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PartAt {
    pub part: String,
    /// Number of these parts; `null` when it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    #[serde(rename = "allocated_count")]
    pub allocated: u64,
}

/// Formats parts for a cell, such as `2 mig-1g.10gb`.
pub(crate) fn cell(parts: &[PartAt]) -> String {
    parts
        .iter()
        .filter(|part| part.allocated > 0)
        .map(|part| format!("{} {}", part.allocated, part.part))
        .collect::<Vec<_>>()
        .join(", ")
}
