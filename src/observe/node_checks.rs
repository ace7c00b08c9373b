//! Checks of `doctor` about nodes: rights, the GPU software stack of each node, and nodes that
//! differ from their siblings.

use std::collections::{BTreeMap, BTreeSet};

use crate::observe::sharing::of_sharing;
use gpuctl_cluster::InventorySnapshot;
use gpuctl_core::model::contract::check::{CheckStatus, DoctorCheck};
use gpuctl_core::model::facts::gpu_stack::{NodeMetrics, StackPod, broken, has_gpus};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Inventory, NodeDetails, Reading, Readings};

/// Age in seconds above which a device's newest sample is stale.
const STALE: f64 = 300.0;
/// Maximum number of node names in a message.
const SHOWN: usize = 4;
/// Node labels with the driver version, set by NVIDIA's GPU feature discovery and AMD's node
/// labeller.
const DRIVERS: [&str; 2] = [
    "nvidia.com/cuda.driver-version.full",
    "amd.com/gpu.driver-version",
];

/// Checks all nodes. `stack` contains the pods of the GPU software; `None` if the user may not list
/// pods.
pub(super) fn of_nodes(
    stock: &InventorySnapshot,
    readings: Option<&Readings>,
    stack: Option<&[StackPod]>,
) -> Vec<DoctorCheck> {
    let mut found: Vec<DoctorCheck> = of_rights(stock).into_iter().collect();
    found.extend(of_stacks(&stock.inventory, readings, stack));
    found.extend(readings.into_iter().flat_map(of_families));
    found.extend(of_siblings(&stock.inventory));
    found.extend(of_sharing(&stock.inventory, &stock.devices));
    found
}

/// Checks the GPU software stack of each node with GPUs.
fn of_stacks(
    inventory: &Inventory,
    readings: Option<&Readings>,
    stack: Option<&[StackPod]>,
) -> Vec<DoctorCheck> {
    let hosts: Vec<&NodeDetails> = inventory
        .hosts
        .iter()
        .map(|host| &host.details)
        .filter(|host| has_gpus(host))
        .collect();
    let mut found = Vec::new();
    for host in &hosts {
        // Without the right to list pods, it is unknown whether an exporter runs.
        let metrics = match stack {
            Some(_) => metrics_of(&host.node.name, readings),
            None => NodeMetrics::Unknown,
        };
        let Some(link) = broken(host, stack.unwrap_or_default(), metrics) else {
            continue;
        };
        let message = format!("{}: {}", link.link.word(), link.message);
        found.push(
            DoctorCheck::new(CheckStatus::Fail, "gpu-stack", message)
                .on(&host.node.name)
                .fix(&link.fix),
        );
    }
    let metrics = if readings.is_some() {
        ""
    } else {
        "; metrics were not checked"
    };
    found.push(DoctorCheck::new(
        CheckStatus::Ok,
        "gpu-stack",
        format!(
            "the GPU software is complete on {} of {} nodes with GPUs{metrics}",
            hosts.len() - found.len(),
            hosts.len()
        ),
    ));
    found
}

fn of_rights(stock: &InventorySnapshot) -> Option<DoctorCheck> {
    if stock.unreadable.is_empty() {
        return Some(DoctorCheck::new(
            CheckStatus::Ok,
            "rights",
            "you may list nodes, and pods of all namespaces".to_owned(),
        ));
    }
    let message = format!(
        "you may not list {}, so free capacity is unknown",
        stock.unreadable.join(", ")
    );
    Some(
        DoctorCheck::new(CheckStatus::Warn, "rights", message)
            .fix("gpuctl auth check get nodes --emit-role"),
    )
}

fn metrics_of(node: &str, readings: Option<&Readings>) -> NodeMetrics {
    let Some(readings) = readings else {
        return NodeMetrics::Unknown;
    };
    let mut devices = readings
        .devices
        .iter()
        .filter(|device| device.node == node)
        .peekable();
    if devices.peek().is_none() {
        return NodeMetrics::Missing;
    }
    let mut newest: Option<f64> = None;
    for device in devices {
        match device.sample_age_seconds {
            Some(age) => newest = Some(newest.map_or(age, |known| known.min(age))),
            // The age of a fresh sample is not reported.
            None if device.utilization.is_some() => return NodeMetrics::Fresh,
            None => {}
        }
    }
    match newest {
        Some(age) if age > STALE => NodeMetrics::Stale(age),
        _ => NodeMetrics::Fresh,
    }
}

/// Lists quantities that the exporters of some nodes do not export although others do.
fn of_families(readings: &Readings) -> Vec<DoctorCheck> {
    type Family = (&'static str, fn(&Reading) -> bool);
    const FAMILIES: [Family; 4] = [
        ("utilization", |device| device.utilization.is_some()),
        ("memory", |device| device.memory_used.is_some()),
        ("power", |device| device.power.is_some()),
        ("temperature", |device| device.temperature.is_some()),
    ];
    let nodes: BTreeSet<&str> = readings
        .devices
        .iter()
        .map(|device| device.node.as_str())
        .collect();
    let without = |(name, has): Family| {
        let measured: BTreeSet<&str> = readings
            .devices
            .iter()
            .filter(|device| has(device))
            .map(|device| device.node.as_str())
            .collect();
        let silent: Vec<&str> = nodes.difference(&measured).copied().collect();
        let shown = silent
            .iter()
            .take(SHOWN)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let more = if silent.len() > SHOWN { ", …" } else { "" };
        let message = format!(
            "{name}: {} of {} have none ({shown}{more})",
            silent.len(),
            count(nodes.len() as u64, "node")
        );
        (!silent.is_empty()).then(|| {
            DoctorCheck::new(CheckStatus::Warn, "metrics", message)
                .fix("add it to the metrics that the GPU exporter exports")
        })
    };
    FAMILIES.into_iter().filter_map(without).collect()
}

/// Lists nodes whose driver or kernel differs from most nodes with the same GPUs.
fn of_siblings(inventory: &Inventory) -> Vec<DoctorCheck> {
    let mut kinds: BTreeMap<String, Vec<&NodeDetails>> = BTreeMap::new();
    for host in inventory.hosts.iter().filter(|host| host.has_gpus()) {
        kinds
            .entry(host.details.node.product().to_owned())
            .or_default()
            .push(&host.details);
    }
    let driver = |host: &NodeDetails| {
        DRIVERS
            .iter()
            .find_map(|label| host.node.labels.get(*label).cloned())
    };
    let kernel = |host: &NodeDetails| Some(host.kernel.clone()).filter(|kernel| !kernel.is_empty());
    let mut found = Vec::new();
    for hosts in kinds.values() {
        found.extend(odd(hosts, "driver", driver));
        found.extend(odd(hosts, "kernel", kernel));
    }
    found
}

fn odd(
    hosts: &[&NodeDetails],
    what: &str,
    read: impl Fn(&NodeDetails) -> Option<String>,
) -> Vec<DoctorCheck> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    hosts
        .iter()
        .filter_map(|host| read(host))
        .for_each(|value| *counts.entry(value).or_default() += 1);
    let Some((usual, most)) = counts.iter().max_by_key(|(_, count)| **count) else {
        return Vec::new();
    };
    // Without a majority, no node is an outlier.
    if most * 2 <= hosts.len() || counts.len() < 2 {
        return Vec::new();
    }
    let differs = |host: &&&NodeDetails| read(host).is_some_and(|value| value != *usual);
    let check = |host: &&NodeDetails| {
        let message = format!(
            "{what} {}, but {most} of {} nodes with the same GPUs have {usual}",
            read(host).unwrap_or_default(),
            hosts.len()
        );
        DoctorCheck::new(CheckStatus::Warn, "siblings", message)
            .on(&host.node.name)
            .fix(&format!("gpuctl describe node {}", host.node.name))
    };
    hosts.iter().filter(differs).map(check).collect()
}
