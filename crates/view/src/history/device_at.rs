//! Renders the holders of a device at a time in the past.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::{DeviceId, Percent};

use super::at_time::HolderAt;
use super::snapshot::PointInTime;
use crate::format::coverage::rounded;

/// A device and its holders.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceAt {
    node: String,
    index: u32,
    /// Profile and number of the instance, such as `1g.10gb-7`; `null` for a whole device.
    slice: Option<String>,
    at: Timestamp,
    /// In percent; `null` for a partitioned device, whose instances have their own values.
    utilization: Option<Percent>,
    holders: Vec<HolderAt>,
    /// Pods of the node that may have held it, when the exporter names no pod.
    possible_holders: Vec<HolderAt>,
}

/// Finds the holders of a device at that time; `None` when the node had no such device. The holders
/// of a partitioned device are those of all its instances.
pub fn device(then: &PointInTime<'_>, node: &str, id: &DeviceId) -> Option<DeviceAt> {
    let held = then.held()?;
    let total = then.ledger.node_capacities.get(node).copied();
    let has_parts = then.ledger.node_part_capacities.contains_key(node);
    let devices = then.usage.devices.iter().enumerate();
    let places: BTreeSet<usize> = devices
        .filter(|(_, device)| device.node == node && device.index == Some(id.index))
        .filter(|(_, device)| id.slice.is_none() || device.slice == id.slice)
        .map(|(place, _)| place)
        .collect();
    // A device without samples exists if the node had that many devices. The number of partitioned
    // devices is not recorded.
    let is_counted = total.is_some_and(|total| u64::from(id.index) < total) || has_parts;
    if places.is_empty() && (id.slice.is_some() || !is_counted) {
        return None;
    }
    // The newest sample of each device or instance names its holders.
    let last_runs: Vec<_> = places
        .iter()
        .filter_map(|place| {
            let runs = then.usage.runs().iter().filter(|run| run.device == *place);
            runs.filter_map(|run| Some((run, run.values.last()?)))
                .max_by_key(|(_, point)| point.at)
        })
        .collect();
    let on_this_node: Vec<usize> = held
        .into_iter()
        .filter(|index| then.tenure(*index).node == node)
        .collect();
    let named: BTreeSet<usize> = last_runs
        .iter()
        .flat_map(|(run, _)| run.holders.iter().copied())
        .filter(|holder| on_this_node.contains(holder))
        .collect();
    let named: Vec<usize> = named.into_iter().collect();
    // A pod that holds all GPUs of the node holds this one too, even if the exporter names no pod.
    let holds_all = |holder: usize| total.is_some_and(|total| then.tenure(holder).gpus.0 >= total);
    let sure = match on_this_node.as_slice() {
        [holder] if named.is_empty() && !has_parts && holds_all(*holder) => vec![*holder],
        _ => named,
    };
    let holders = |indexes: &[usize]| {
        indexes
            .iter()
            .map(|index| then.tenure(*index).into())
            .collect()
    };
    // Any pod of the node may hold a device whose holder the exporter does not name.
    let possible: &[usize] = if sure.is_empty() { &on_this_node } else { &[] };
    let only_value = match last_runs.as_slice() {
        [(run, _)] => then
            .device_utilization(run.device, &run.holders)
            .map(rounded),
        _ => None,
    };
    Some(DeviceAt {
        node: node.to_owned(),
        index: id.index,
        slice: slice_name(id),
        at: then.time,
        utilization: only_value,
        holders: holders(&sure),
        possible_holders: holders(possible),
    })
}

fn slice_name(id: &DeviceId) -> Option<String> {
    let (profile, number) = id.slice.as_ref()?;
    Some(format!("{profile}-{number}"))
}

/// Describes the holders and the utilization of a device in one sentence.
pub fn sentence(device: &DeviceAt) -> String {
    let names = |holders: &[HolderAt]| {
        let holder_text = |holder: &HolderAt| {
            format!(
                "{}/{} ({} {})",
                holder.namespace, holder.pod, holder.workload_type, holder.workload
            )
        };
        holders
            .iter()
            .map(holder_text)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let holder_names = match (names(&device.holders), names(&device.possible_holders)) {
        (held, _) if !held.is_empty() => held,
        (_, possible) if possible.is_empty() => "no pod".to_owned(),
        (_, possible) => format!("no pod, or one of {possible} (the exporter names no pod)"),
    };
    let busy = device
        .utilization
        .map_or(String::new(), |busy| format!(", {busy:.0}% busy"));
    let slice = device
        .slice
        .as_ref()
        .map_or(String::new(), |slice| format!("/{slice}"));
    format!(
        "{}/{}{slice} at {}: {holder_names}{busy}\n",
        device.node, device.index, device.at
    )
}
