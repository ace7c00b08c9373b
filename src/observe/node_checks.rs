//! `doctor` checks of nodes: permissions, the GPU software stack, and nodes that differ from
//! similar nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::observe::sharing::check_sharing;
use gpuctl_cluster::InventorySnapshot;
use gpuctl_core::model::contract::check::{CheckStatus, DoctorCheck, GPU_STACK};
use gpuctl_core::model::facts::gpu_stack::{DraOffer, NodeMetrics, StackPod, broken, has_gpus};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Inventory, NodeDetails, Reading, Readings};
use gpuctl_core::stats::score::node_health::health_checks;

/// Age in seconds above which a device's newest sample is stale.
const STALE_SECONDS: f64 = 300.0;
/// Maximum number of node names in a message.
const MAX_NAMES: usize = 4;
/// Node labels with the driver version, set by NVIDIA's GPU feature discovery and AMD's node
/// labeller.
const DRIVER_LABELS: [&str; 2] = [
    "nvidia.com/cuda.driver-version.full",
    "amd.com/gpu.driver-version",
];

/// Checks all nodes. `stack` holds the pods of the GPU software, or `None` if the user may not list
/// pods. `unread` holds names of GPU metrics in the store that gpuctl does not read.
pub(super) fn check_nodes(
    snapshot: &InventorySnapshot,
    readings: Option<&Readings>,
    stack: Option<&[StackPod]>,
    unread: &[String],
) -> Vec<DoctorCheck> {
    let mut checks: Vec<DoctorCheck> = check_rights(snapshot).into_iter().collect();
    checks.extend(check_stacks(snapshot, readings, stack, unread));
    let devices = readings.map_or(&[][..], |readings| readings.devices.as_slice());
    checks.extend(health_checks(&snapshot.inventory, devices));
    checks.extend(readings.and_then(check_unmatched));
    checks.extend(readings.into_iter().flat_map(check_quantities));
    checks.extend(check_siblings(&snapshot.inventory));
    checks.extend(check_sharing(&snapshot.inventory, &snapshot.devices));
    checks
}

/// Checks the GPU software stack of each GPU node.
fn check_stacks(
    snapshot: &InventorySnapshot,
    readings: Option<&Readings>,
    stack: Option<&[StackPod]>,
    unread: &[String],
) -> Vec<DoctorCheck> {
    let mut offers: BTreeMap<&str, DraOffer> = BTreeMap::new();
    for device in &snapshot.devices {
        let offer = offers.entry(&device.node).or_default();
        offer.devices += 1;
        offer.has_product |= device.product.is_some();
    }
    let offer = |host: &NodeDetails| {
        let offer = offers.get(host.node.name.as_str());
        offer.copied().unwrap_or_default()
    };
    let hosts: Vec<&NodeDetails> = snapshot
        .inventory
        .hosts
        .iter()
        .map(|host| &host.details)
        .filter(|host| has_gpus(host, offer(host)))
        .collect();
    let mut checks = Vec::new();
    for host in &hosts {
        // Without permission to list pods, it is unknown whether an exporter runs on the node.
        let metrics = match stack {
            Some(_) => node_metrics(&host.node.name, readings, unread),
            None => NodeMetrics::Unknown,
        };
        let Some(broken_link) = broken(host, offer(host), stack.unwrap_or_default(), metrics)
        else {
            continue;
        };
        let message = format!("{}: {}", broken_link.link.word(), broken_link.message);
        checks.push(
            DoctorCheck::new(CheckStatus::Fail, GPU_STACK, message)
                .on(&host.node.name)
                .fix(&broken_link.fix),
        );
    }
    let metrics = if readings.is_some() {
        ""
    } else {
        "; metrics were not checked"
    };
    let complete = hosts.len() - checks.len();
    let status = if complete == 0 && !hosts.is_empty() {
        CheckStatus::Fail
    } else {
        CheckStatus::Ok
    };
    checks.push(DoctorCheck::new(
        status,
        GPU_STACK,
        format!(
            "the GPU software is complete on {complete} of {} nodes with GPUs{metrics}",
            hosts.len()
        ),
    ));
    checks
}

fn check_rights(snapshot: &InventorySnapshot) -> Option<DoctorCheck> {
    if snapshot.unreadable.is_empty() {
        return Some(DoctorCheck::new(
            CheckStatus::Ok,
            "rights",
            "you may list nodes, and pods in all namespaces".to_owned(),
        ));
    }
    let message = format!(
        "you are not allowed to list {}, so free capacity is unknown",
        snapshot.unreadable.join(", ")
    );
    Some(
        DoctorCheck::new(CheckStatus::Warn, "rights", message)
            .fix("gpuctl auth check get nodes --emit-role"),
    )
}

/// Reports series whose labels name no node of this cluster.
fn check_unmatched(readings: &Readings) -> Option<DoctorCheck> {
    let message = format!(
        "GPU series with {} match no node of this cluster",
        readings.unmatched_list()
    );
    let check = DoctorCheck::new(CheckStatus::Warn, "metrics", message);
    (!readings.unmatched.is_empty()).then(|| {
        check.fix("let the scrape add the label `node` with the name of the exporter's node")
    })
}

fn node_metrics(node: &str, readings: Option<&Readings>, unread: &[String]) -> NodeMetrics {
    let Some(readings) = readings else {
        return NodeMetrics::Unknown;
    };
    let mut devices = readings
        .devices
        .iter()
        .filter(|device| device.node == node)
        .peekable();
    if devices.peek().is_none() {
        return match (readings.unmatched.is_empty(), unread.is_empty()) {
            (false, _) => NodeMetrics::Unmatched(readings.unmatched_list()),
            (true, false) => NodeMetrics::Unread(unread.join(", ")),
            (true, true) => NodeMetrics::Missing,
        };
    }
    let mut newest: Option<f64> = None;
    for device in devices {
        match device.sample_age_seconds {
            Some(age) => newest = Some(newest.map_or(age, |newest| newest.min(age))),
            // Only stale samples have an age.
            None if device.utilization.is_some() => return NodeMetrics::Fresh,
            None => {}
        }
    }
    match newest {
        Some(age) if age > STALE_SECONDS => NodeMetrics::Stale(age),
        _ => NodeMetrics::Fresh,
    }
}

/// Reports metrics that are missing on some nodes although exporters on other nodes export them.
fn check_quantities(readings: &Readings) -> Vec<DoctorCheck> {
    type Family = (&'static str, fn(&Reading) -> bool);
    const FAMILIES: [Family; 4] = [
        ("utilization", |device| device.utilization.is_some()),
        ("memory", |device| device.memory_used.is_some()),
        // The power of an instance is only known for its board.
        ("power", |device| {
            device.power.or(device.board_power).is_some()
        }),
        ("temperature", |device| device.temperature.is_some()),
    ];
    let nodes: BTreeSet<&str> = readings
        .devices
        .iter()
        .map(|device| device.node.as_str())
        .collect();
    let check_quantity = |(name, is_measured): Family| {
        let measured: BTreeSet<&str> = readings
            .devices
            .iter()
            .filter(|device| is_measured(device))
            .map(|device| device.node.as_str())
            .collect();
        let nodes_without: Vec<&str> = nodes.difference(&measured).copied().collect();
        let shown = nodes_without
            .iter()
            .take(MAX_NAMES)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let ellipsis = if nodes_without.len() > MAX_NAMES {
            ", …"
        } else {
            ""
        };
        let message = format!(
            "{name}: missing on {} of {} ({shown}{ellipsis})",
            nodes_without.len(),
            count(nodes.len() as u64, "node")
        );
        (!nodes_without.is_empty()).then(|| {
            DoctorCheck::new(CheckStatus::Warn, "metrics", message)
                .fix("add it to the metrics that the GPU exporter exports")
        })
    };
    FAMILIES.into_iter().filter_map(check_quantity).collect()
}

/// Reports nodes whose driver or kernel differs from the majority of nodes with the same GPUs.
fn check_siblings(inventory: &Inventory) -> Vec<DoctorCheck> {
    let mut by_product: BTreeMap<String, Vec<&NodeDetails>> = BTreeMap::new();
    for host in inventory.hosts.iter().filter(|host| host.has_gpus()) {
        by_product
            .entry(host.details.node.product().to_owned())
            .or_default()
            .push(&host.details);
    }
    let driver = |host: &NodeDetails| {
        DRIVER_LABELS
            .iter()
            .find_map(|label| host.node.labels.get(*label).cloned())
    };
    let kernel = |host: &NodeDetails| Some(host.kernel.clone()).filter(|kernel| !kernel.is_empty());
    let mut checks = Vec::new();
    for hosts in by_product.values() {
        checks.extend(find_outliers(hosts, "driver", driver));
        checks.extend(find_outliers(hosts, "kernel", kernel));
    }
    checks
}

fn find_outliers(
    hosts: &[&NodeDetails],
    property: &str,
    read: impl Fn(&NodeDetails) -> Option<String>,
) -> Vec<DoctorCheck> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    hosts
        .iter()
        .filter_map(|host| read(host))
        .for_each(|value| *counts.entry(value).or_default() += 1);
    let Some((common, common_count)) = counts.iter().max_by_key(|(_, count)| **count) else {
        return Vec::new();
    };
    // Without a majority, no node is an exception.
    if common_count * 2 <= hosts.len() || counts.len() < 2 {
        return Vec::new();
    }
    let is_outlier = |host: &&&NodeDetails| read(host).is_some_and(|value| value != *common);
    let check = |host: &&NodeDetails| {
        let message = format!(
            "{property} {}, but {common_count} of {} nodes with the same GPUs have {common}",
            read(host).unwrap_or_default(),
            hosts.len()
        );
        DoctorCheck::new(CheckStatus::Warn, "siblings", message)
            .on(&host.node.name)
            .fix(&format!("gpuctl describe node {}", host.node.name))
    };
    hosts.iter().filter(is_outlier).map(check).collect()
}
