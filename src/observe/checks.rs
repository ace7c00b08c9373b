//! The checks of `doctor` beyond whether the cluster answers: rights, the chain of GPU programs on each node, nodes that differ from their
//! siblings, and what Prometheus is scraped for.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join3};

use crate::cluster::{Connection, InventorySnapshot};
use crate::context::Context;
use crate::model::gpu_stack::{NodeMetrics, broken, has_gpus};
use crate::model::{Inventory, NodeDetails, Readings};
use crate::observe::metrics::{OF_DEVICES, OptionalMetrics};
use crate::prometheus::Prometheus;
use crate::stats::query;
use crate::view::health::{Check, CheckStatus};

/// Seconds without a sample after which a device's metrics are gone.
const STALE: f64 = 300.0;
/// Samples of five minutes below which short jobs are hardly seen.
const FEW_SAMPLES: f64 = 5.0;
/// Labels that tell a node's driver.
const DRIVERS: [&str; 2] = ["nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version"];

/// Runs all of them.
pub(crate) async fn checks(context: &Context, connection: &Connection) -> Vec<Check> {
    let cells = OptionalMetrics::new(context, connection);
    let stock = cells.stock(&OF_DEVICES);
    let store = cells.optional(async |prometheus| Ok(of_store(prometheus).await));
    let (stock, stack, (store, queueing)) = join3(stock, connection.gpu_stack(), join(store, connection.served_queueing())).await;
    let mut found = Vec::new();
    match stock {
        Err(error) => found
            .push(Check::new(CheckStatus::Warn, "nodes", format!("nodes were not checked: {error}")).fix("gpuctl auth check")),
        Ok((stock, readings)) => {
            found.extend(of_rights(&stock));
            let (pods, seen) = stack.map_or((Vec::new(), false), |pods| (pods, true));
            let hosts: Vec<&NodeDetails> =
                stock.inventory.hosts.iter().map(|host| &host.details).filter(|host| has_gpus(host)).collect();
            let mut well = 0;
            for host in &hosts {
                // Where pods may not be listed nobody knows whether an exporter runs.
                let metrics = if seen { metrics_of(&host.node.name, readings.as_ref()) } else { NodeMetrics::Unknown };
                match broken(host, &pods, metrics) {
                    None => well += 1,
                    Some(link) => {
                        let told = format!("{}: {}", link.link.word(), link.message);
                        found.push(Check::new(CheckStatus::Fail, "gpu-stack", told).on(&host.node.name).fix(&link.fix));
                    }
                }
            }
            let metrics = if readings.is_some() { "" } else { "; metrics were not looked at" };
            found.push(Check::new(
                CheckStatus::Ok,
                "gpu-stack",
                format!("{well} of {} nodes with GPUs are complete{metrics}", hosts.len()),
            ));
            found.extend(of_siblings(&stock.inventory));
        }
    }
    found.extend(store.ok().flatten().unwrap_or_default());
    if let Ok(served) = queueing {
        let names: Vec<&str> = served.systems().map(crate::model::QueueSystem::name).collect();
        let told = if names.is_empty() { "none is served".to_owned() } else { names.join(", ") };
        found.push(Check::new(CheckStatus::Ok, "queues", told));
    }
    found
}

fn of_rights(stock: &InventorySnapshot) -> Option<Check> {
    if stock.unreadable.is_empty() {
        return Some(Check::new(CheckStatus::Ok, "rights", "nodes and pods of all namespaces may be listed".to_owned()));
    }
    let told = format!("you may not list {}: what is free is not known", stock.unreadable.join(", "));
    Some(Check::new(CheckStatus::Warn, "rights", told).fix("gpuctl auth check get nodes --emit-role"))
}

fn metrics_of(node: &str, readings: Option<&Readings>) -> NodeMetrics {
    let Some(readings) = readings else { return NodeMetrics::Unknown };
    let mut devices = readings.devices.iter().filter(|device| device.node == node).peekable();
    if devices.peek().is_none() {
        return NodeMetrics::Missing;
    }
    let newest = devices.filter_map(|device| device.sample_age_seconds).min_by(f64::total_cmp);
    match newest {
        Some(age) if age > STALE => NodeMetrics::Stale(age),
        _ => NodeMetrics::Fresh,
    }
}

/// Names nodes whose driver or kernel differs from that of most nodes with the same GPUs.
fn of_siblings(inventory: &Inventory) -> Vec<Check> {
    let mut kinds: BTreeMap<String, Vec<&NodeDetails>> = BTreeMap::new();
    for host in inventory.hosts.iter().filter(|host| host.has_gpus()) {
        kinds.entry(host.details.node.product().to_owned()).or_default().push(&host.details);
    }
    let driver = |host: &NodeDetails| DRIVERS.iter().find_map(|label| host.node.labels.get(*label).cloned());
    let kernel = |host: &NodeDetails| Some(host.kernel.clone()).filter(|kernel| !kernel.is_empty());
    let mut found = Vec::new();
    for hosts in kinds.values() {
        found.extend(odd(hosts, "driver", driver));
        found.extend(odd(hosts, "kernel", kernel));
    }
    found
}

fn odd(hosts: &[&NodeDetails], what: &str, read: impl Fn(&NodeDetails) -> Option<String>) -> Vec<Check> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    hosts.iter().filter_map(|host| read(host)).for_each(|value| *counts.entry(value).or_default() += 1);
    let Some((usual, most)) = counts.iter().max_by_key(|(_, count)| **count) else { return Vec::new() };
    // Of two halves nobody knows which is the odd one.
    if most * 2 <= hosts.len() || counts.len() < 2 {
        return Vec::new();
    }
    let differs = |host: &&&NodeDetails| read(host).is_some_and(|value| value != *usual);
    let check = |host: &&NodeDetails| {
        let told = format!("{what} {}, and {most} of its {} siblings have {usual}", read(host).unwrap_or_default(), hosts.len());
        Check::new(CheckStatus::Warn, "siblings", told)
            .on(&host.node.name)
            .fix(&format!("gpuctl describe node {}", host.node.name))
    };
    hosts.iter().filter(differs).map(check).collect()
}

/// Asks the store how often it scrapes, whether it knows pods, and of how many clusters it is.
async fn of_store(prometheus: &Prometheus<'_>) -> Vec<Check> {
    let (counted, pods, clusters) = join3(
        prometheus.now(&query::samples_counted()),
        prometheus.now("count(kube_pod_info) or vector(0)"),
        prometheus.now("count by (cluster) (kube_node_info)"),
    )
    .await;
    let mut found = Vec::new();
    let newest = |series: &crate::model::Series| series.points.last().map(|point| point.value);
    if let Some(count) = counted.ok().and_then(|series| series.iter().filter_map(newest).max_by(f64::total_cmp)) {
        let told = format!("GPUs were sampled {count:.0} times in the last five minutes");
        found.push(if count < FEW_SAMPLES {
            Check::new(CheckStatus::Warn, "scrapes", told).fix("scrape GPU exporters every 15 to 30 s")
        } else {
            Check::new(CheckStatus::Ok, "scrapes", told)
        });
    }
    let known = pods.ok().and_then(|series| series.first().and_then(newest));
    found.push(match known {
        Some(pods) if pods > 0.0 => {
            Check::new(CheckStatus::Ok, "kube-state-metrics", format!("{pods:.0} pods are known to Prometheus"))
        }
        _ => Check::new(
            CheckStatus::Warn,
            "kube-state-metrics",
            "Prometheus knows no pods: nothing is known of the past".to_owned(),
        )
        .fix("install kube-state-metrics and let Prometheus scrape it"),
    });
    let clusters: BTreeSet<String> =
        clusters.unwrap_or_default().iter().filter_map(|series| series.label("cluster").map(ToOwned::to_owned)).collect();
    if clusters.len() > 1 {
        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
        let told = format!("Prometheus has {} clusters ({}), and sums are of all of them", clusters.len(), names.join(", "));
        found.push(Check::new(CheckStatus::Warn, "clusters", told).fix("use a Prometheus of this cluster alone"));
    }
    found
}
