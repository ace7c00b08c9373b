//! Shows the capacity of a report's groups: allocated, idle and unseen GPU-hours, which add up to
//! it.

use schemars::JsonSchema;
use serde::Serialize;

use super::report::{GpuHourReport, Group};
use crate::format::coverage::rounded;
use crate::format::table::{Column, right};
use gpuctl_core::model::values::units::without_negative_zero;
use gpuctl_core::stats::history::capacity_hours::{StateHours, allocated};

/// Columns of groups of nodes, which follow the name of the group.
pub(crate) const OF_CAPACITY: [Column; 6] = [
    right("CAPACITY"),
    right("ALLOCATED"),
    right("IDLE"),
    right("CORDONED"),
    right("LOST"),
    right("UNSEEN"),
];

/// The GPU-hours of nodes: `capacity_gpu_hours` is the sum of the allocated, idle and unseen ones.
/// Parts of devices count by their fraction.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CapacityItem {
    /// `null` when the capacity of a node is unknown.
    capacity_gpu_hours: Option<f64>,
    /// GPU-hours that pods held. `null` when the fraction of a part is unknown.
    allocated_gpu_hours: Option<f64>,
    idle_gpu_hours: Option<f64>,
    /// Part of the idle hours, on nodes that were cordoned. `null` when kube-state-metrics does not
    /// report it.
    cordoned_gpu_hours: Option<f64>,
    /// Part of the idle hours, of GPUs that the kubelet did not offer or whose node was not ready.
    lost_gpu_hours: Option<f64>,
    /// GPU-hours during gaps of kube-state-metrics.
    unseen_gpu_hours: Option<f64>,
    cordoned_nodes: Vec<String>,
    lost_nodes: Vec<String>,
    /// Nodes whose capacity is unknown, each with the reason.
    unknown_nodes: Vec<UnknownCapacityItem>,
}

#[derive(JsonSchema, Serialize)]
struct UnknownCapacityItem {
    node: String,
    reason: String,
}

impl CapacityItem {
    /// Returns `None` for groups without nodes.
    pub(crate) fn new(group: &Group) -> Option<Self> {
        let [capacity, allocated, idle, cordoned, lost, unseen] =
            numbers(group)?.map(|number| number.map(rounded));
        let unheld = group.unheld.as_ref()?;
        let nodes = |hours: &StateHours| hours.by_node.keys().cloned().collect();
        let unknown = unheld.unknown.iter();
        Some(Self {
            capacity_gpu_hours: capacity,
            allocated_gpu_hours: allocated,
            idle_gpu_hours: idle,
            cordoned_gpu_hours: cordoned,
            lost_gpu_hours: lost,
            unseen_gpu_hours: unseen,
            cordoned_nodes: nodes(&unheld.cordoned),
            lost_nodes: nodes(&unheld.lost),
            unknown_nodes: unknown
                .map(|(node, reason)| UnknownCapacityItem {
                    node: node.clone(),
                    reason: reason.clone(),
                })
                .collect(),
        })
    }
}

/// Returns the values of the columns. `None` for groups without nodes.
pub(crate) fn numbers(group: &Group) -> Option<[Option<f64>; 6]> {
    let unheld = group.unheld.as_ref()?;
    let of_idle = |hours: &StateHours| unheld.idle().and(hours.sum()).map(without_negative_zero);
    Some([
        unheld.capacity(&group.account),
        allocated(&group.account),
        unheld.idle(),
        of_idle(&unheld.cordoned),
        of_idle(&unheld.lost),
        unheld.unseen(),
    ])
}

/// Describes the capacity of all nodes, or why it is unknown. Returns `None` if the report does not
/// cover all pods, or if no node had GPUs.
pub fn capacity_note(report: &GpuHourReport<'_>) -> Option<String> {
    let [capacity, allocated, idle, cordoned, lost, unseen] = numbers(&report.total)?;
    let unheld = report.total.unheld.as_ref()?;
    if !unheld.unknown.is_empty() {
        let reason = |(node, reason): (&String, &String)| format!("{node}: {reason}");
        let reasons: Vec<String> = unheld.unknown.iter().map(reason).collect();
        return Some(format!("the capacity is unknown: {}", limited(&reasons)));
    }
    let capacity = capacity?;
    if capacity <= 0.0 {
        return None;
    }
    let mut note = format!(
        "the capacity was {capacity:.1} GPU-hours: {:.1} allocated ({:.0}%), {:.1} idle",
        allocated?,
        allocated? / capacity * 100.0,
        idle?
    );
    if let Some(unseen) = unseen.filter(|unseen| *unseen >= SHOWN) {
        note.push_str(&format!(
            ", {unseen:.1} unseen in gaps of kube-state-metrics"
        ));
    }
    for (hours, nodes, state) in [
        (cordoned, &unheld.cordoned, "on cordoned nodes"),
        (lost, &unheld.lost, "of lost GPUs"),
    ] {
        if let Some(hours) = hours.filter(|hours| *hours >= SHOWN) {
            let nodes: Vec<String> = nodes.by_node.keys().cloned().collect();
            note.push_str(&format!("; {hours:.1} idle {state} ({})", limited(&nodes)));
        }
    }
    Some(note)
}

/// The least hours that are not shown as 0.0.
const SHOWN: f64 = 0.05;

/// Joins at most five names.
fn limited(names: &[String]) -> String {
    const MOST: usize = 5;
    let mut text = names
        .iter()
        .take(MOST)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST {
        text.push_str(&format!(" and {} more", names.len() - MOST));
    }
    text
}
