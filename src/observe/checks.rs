//! The checks of `doctor` beyond whether the cluster answers: rights, the chain of GPU programs on
//! each node, nodes that differ from their siblings, and what Prometheus is scraped for.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join3};
use jiff::Timestamp;

use crate::context::Context;
use crate::observe::live::OF_DEVICES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::sharing::of_sharing;
use crate::observe::store_identity::{StoreClusters, which};
use gpuctl_cluster::{Connection, InventorySnapshot};
use gpuctl_core::model::facts::gpu_stack::{NodeMetrics, broken, has_gpus};
use gpuctl_core::model::{Inventory, NodeDetails, Reading, Readings, UnixSeconds};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::{query, recorded};
use gpuctl_prometheus::Prometheus;
use gpuctl_view::format::text::count;
use gpuctl_view::program::health::{Check, CheckStatus};

/// Seconds without a sample after which a device's metrics are gone.
const STALE: f64 = 300.0;
/// Samples of five minutes below which short jobs are hardly seen.
const FEW_SAMPLES: f64 = 5.0;
/// Seconds by which clocks may differ: one is told to a second, and requests take time.
const CLOCKS_DIFFER: i64 = 5;
/// Days of history that commands look at without being asked for more.
const DAYS_NEEDED: f64 = 7.0;
/// Seconds in which GPUs of other clusters are looked for.
const CLUSTERS_WITHIN: i64 = 86_400;
/// Names of nodes that a line shows.
const SHOWN: usize = 4;
/// Labels that tell a node's driver.
const DRIVERS: [&str; 2] = [
    "nvidia.com/cuda.driver-version.full",
    "amd.com/gpu.driver-version",
];

/// Runs all of them.
pub(crate) async fn checks(context: &Context, connection: &Connection) -> Vec<Check> {
    let cells = OptionalMetrics::new(context, connection);
    let stock = cells.stock(&OF_DEVICES);
    let store = cells
        .optional(async |prometheus| Ok(of_store(prometheus, connection, context.now()).await));
    let served = join(connection.served_queueing(), connection.served());
    let (stock, stack, (store, (queueing, served))) =
        join3(stock, connection.gpu_stack(), join(store, served)).await;
    let mut found = Vec::new();
    match stock {
        Err(error) => found.push(
            Check::new(
                CheckStatus::Warn,
                "nodes",
                format!("nodes were not checked: {error}"),
            )
            .fix("gpuctl auth check"),
        ),
        Ok((stock, readings)) => {
            found.extend(of_rights(&stock));
            let (pods, seen) = stack.map_or((Vec::new(), false), |pods| (pods, true));
            let hosts: Vec<&NodeDetails> = stock
                .inventory
                .hosts
                .iter()
                .map(|host| &host.details)
                .filter(|host| has_gpus(host))
                .collect();
            let mut well = 0;
            for host in &hosts {
                // Where pods may not be listed nobody knows whether an exporter runs.
                let metrics = if seen {
                    metrics_of(&host.node.name, readings.as_ref())
                } else {
                    NodeMetrics::Unknown
                };
                match broken(host, &pods, metrics) {
                    None => well += 1,
                    Some(link) => {
                        let told = format!("{}: {}", link.link.word(), link.message);
                        found.push(
                            Check::new(CheckStatus::Fail, "gpu-stack", told)
                                .on(&host.node.name)
                                .fix(&link.fix),
                        );
                    }
                }
            }
            let metrics = if readings.is_some() {
                ""
            } else {
                "; metrics were not looked at"
            };
            found.push(Check::new(
                CheckStatus::Ok,
                "gpu-stack",
                format!(
                    "{well} of {} nodes with GPUs are complete{metrics}",
                    hosts.len()
                ),
            ));
            found.extend(readings.iter().flat_map(of_families));
            found.extend(of_siblings(&stock.inventory));
            found.extend(of_sharing(&stock.inventory, &stock.devices));
        }
    }
    found.extend(store.ok().flatten().unwrap_or_default());
    if let Ok(served) = queueing {
        let names: Vec<&str> = served
            .systems()
            .map(gpuctl_core::model::QueueSystem::name)
            .collect();
        let told = if names.is_empty() {
            "none is served".to_owned()
        } else {
            names.join(", ")
        };
        found.push(Check::new(CheckStatus::Ok, "queues", told));
    }
    if let Ok(served) = served {
        found.push(match served.custom_metrics {
            Some(metrics) => Check::new(
                CheckStatus::Ok,
                "autoscaling",
                format!(
                    "{} of pods are served",
                    count(metrics.len() as u64, "metric")
                ),
            ),
            None => Check::new(
                CheckStatus::Ok,
                "autoscaling",
                "no metrics of pods are served: services cannot scale by GPU use".to_owned(),
            )
            .fix("gpuctl doctor --adapter-rules"),
        });
    }
    found
}

/// Compares this machine's clock with another one, whose time is known to a second.
pub(crate) fn of_clock(whose: &str, theirs: Option<Timestamp>, now: Timestamp) -> Option<Check> {
    let differs = now.duration_since(theirs?).as_secs();
    if differs.abs() <= CLOCKS_DIFFER {
        return None;
    }
    let side = if differs < 0 { "behind" } else { "ahead of" };
    let told = format!(
        "this machine's clock is {} s {side} that of {whose}: ages and windows of time are wrong",
        differs.abs()
    );
    Some(Check::new(CheckStatus::Warn, "clock", told).fix("synchronize the clock, such as by NTP"))
}

/// Names what exporters of some nodes do not tell although those of others do.
fn of_families(readings: &Readings) -> Vec<Check> {
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
        let told: BTreeSet<&str> = readings
            .devices
            .iter()
            .filter(|device| has(device))
            .map(|device| device.node.as_str())
            .collect();
        let silent: Vec<&str> = nodes.difference(&told).copied().collect();
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
            Check::new(CheckStatus::Warn, "metrics", message)
                .fix("add it to the metrics that the GPU exporter exports")
        })
    };
    FAMILIES.into_iter().filter_map(without).collect()
}

fn of_rights(stock: &InventorySnapshot) -> Option<Check> {
    if stock.unreadable.is_empty() {
        return Some(Check::new(
            CheckStatus::Ok,
            "rights",
            "nodes and pods of all namespaces may be listed".to_owned(),
        ));
    }
    let told = format!(
        "you may not list {}: what is free is not known",
        stock.unreadable.join(", ")
    );
    Some(
        Check::new(CheckStatus::Warn, "rights", told)
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
            // Of a sample that is not old its age is not told.
            None if device.utilization.is_some() => return NodeMetrics::Fresh,
            None => {}
        }
    }
    match newest {
        Some(age) if age > STALE => NodeMetrics::Stale(age),
        _ => NodeMetrics::Fresh,
    }
}

/// Names nodes whose driver or kernel differs from that of most nodes with the same GPUs.
fn of_siblings(inventory: &Inventory) -> Vec<Check> {
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
) -> Vec<Check> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    hosts
        .iter()
        .filter_map(|host| read(host))
        .for_each(|value| *counts.entry(value).or_default() += 1);
    let Some((usual, most)) = counts.iter().max_by_key(|(_, count)| **count) else {
        return Vec::new();
    };
    // Of two halves nobody knows which is the odd one.
    if most * 2 <= hosts.len() || counts.len() < 2 {
        return Vec::new();
    }
    let differs = |host: &&&NodeDetails| read(host).is_some_and(|value| value != *usual);
    let check = |host: &&NodeDetails| {
        let told = format!(
            "{what} {}, and {most} of its {} siblings have {usual}",
            read(host).unwrap_or_default(),
            hosts.len()
        );
        Check::new(CheckStatus::Warn, "siblings", told)
            .on(&host.node.name)
            .fix(&format!("gpuctl describe node {}", host.node.name))
    };
    hosts.iter().filter(differs).map(check).collect()
}

/// Asks the store how often it scrapes, whether it knows pods, and of how many clusters it is.
async fn of_store(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    now: Timestamp,
) -> Vec<Check> {
    let own = join(
        prometheus.now("vector(time())"),
        prometheus.relay("api/v1/status/runtimeinfo"),
    );
    let (sampled, marked) = (
        query::samples_counted(&query::names(&[Quantity::Utilization])),
        recorded::is_recorded(),
    );
    let ((counted, recorded), pods, (clusters, (time, about))) = join3(
        join(prometheus.now(&sampled), prometheus.now(&marked)),
        prometheus.now("count(kube_pod_info) or vector(0)"),
        join(of_clusters(prometheus, connection, now), own),
    )
    .await;
    let mut found = Vec::new();
    let time = time
        .ok()
        .and_then(|series| series.first()?.last())
        .map(|point| point.value);
    let time = time.and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
    found.extend(of_clock("Prometheus", time, now));
    found.extend(about.ok().and_then(|reply| of_retention(&reply.body)));
    let newest =
        |series: &gpuctl_core::model::Series| series.points.last().map(|point| point.value);
    if let Some(count) = counted
        .ok()
        .and_then(|series| series.iter().filter_map(newest).max_by(f64::total_cmp))
    {
        let told = format!("GPUs were sampled {count:.0} times in the last five minutes");
        found.push(if count < FEW_SAMPLES {
            Check::new(CheckStatus::Warn, "scrapes", told)
                .fix("scrape GPU exporters every 15 to 30 s")
        } else {
            Check::new(CheckStatus::Ok, "scrapes", told)
        });
    }
    if recorded.is_ok_and(|marks| !marks.is_empty()) {
        found.push(Check::new(
            CheckStatus::Ok,
            "recording-rules",
            "fatal errors of the last hour are recorded".to_owned(),
        ));
    }
    let known = pods.ok().and_then(|series| series.first().and_then(newest));
    found.push(match known {
        Some(pods) if pods > 0.0 => Check::new(
            CheckStatus::Ok,
            "kube-state-metrics",
            format!("{pods:.0} pods are known to Prometheus"),
        ),
        _ => Check::new(
            CheckStatus::Warn,
            "kube-state-metrics",
            "Prometheus knows no pods: nothing is known of the past".to_owned(),
        )
        .fix("install kube-state-metrics and let Prometheus scrape it"),
    });
    found.extend(clusters);
    found
}

/// Tells whose GPUs the store has.
async fn of_clusters(
    prometheus: &Prometheus<'_>,
    connection: &Connection,
    now: Timestamp,
) -> Option<Check> {
    let matchers = prometheus.matchers();
    if !matchers.is_empty() {
        return Some(Check::new(
            CheckStatus::Ok,
            "clusters",
            format!("series with {matchers} are this cluster's"),
        ));
    }
    let until = UnixSeconds::from(now);
    match which(prometheus, connection, (until - CLUSTERS_WITHIN, until))
        .await
        .ok()?
    {
        StoreClusters::One => None,
        StoreClusters::Proven(matchers) => Some(Check::new(
            CheckStatus::Ok,
            "clusters",
            format!("of several clusters in it, {matchers} is this one"),
        )),
        StoreClusters::Unclear { label, values } => {
            let told = format!(
                "Prometheus has GPUs of {} clusters ({label}: {}), and sums are refused",
                values.len(),
                values.join(", ")
            );
            let fix = format!(
                "name it by `--match {label}=NAME` or `contexts.NAME.prometheus.matchers` of the config file"
            );
            Some(Check::new(CheckStatus::Fail, "clusters", told).fix(&fix))
        }
    }
}

/// Tells how long Prometheus keeps its samples; other stores do not say it.
fn of_retention(body: &[u8]) -> Option<Check> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let kept = answer
        .pointer("/data/storageRetention")?
        .as_str()
        .filter(|text| !text.is_empty())?;
    let told = format!("samples are kept for {kept}");
    let days = kept.split(' ').next().and_then(days);
    Some(match days {
        Some(days) if days < DAYS_NEEDED => {
            let told =
                format!("{told}; `eff` and the forecast of starts look back {DAYS_NEEDED:.0} days");
            Check::new(CheckStatus::Warn, "retention", told)
                .fix("start Prometheus with --storage.tsdb.retention.time=15d or more")
        }
        _ => Check::new(CheckStatus::Ok, "retention", told),
    })
}

/// Reads a duration of Prometheus, such as `15d` or `1w2d`, in days.
fn days(text: &str) -> Option<f64> {
    let (mut days, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .filter(|digits| *digits > 0)?;
        let (number, unit) = rest.split_at(digits);
        let end = unit
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(unit.len());
        let of_day = match &unit[..end] {
            "y" => 365.0,
            "w" => 7.0,
            "d" => 1.0,
            "h" => 1.0 / 24.0,
            "m" => 1.0 / 1440.0,
            "s" => 1.0 / 86_400.0,
            _ => return None,
        };
        days += number.parse::<f64>().ok()? * of_day;
        rest = &unit[end..];
    }
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_is_read_as_prometheus_writes_it() {
        assert_eq!(
            (days("15d"), days("1w2d"), days("36h")),
            (Some(15.0), Some(9.0), Some(1.5))
        );
        assert_eq!((days("d"), days("15"), days("x5d")), (None, None, None));
        let of = |text: &str| {
            of_retention(format!("{{\"data\":{{\"storageRetention\":\"{text}\"}}}}").as_bytes())
        };
        assert_eq!(of("15d or 10GiB").unwrap().status, CheckStatus::Ok);
        assert_eq!(of("6h").unwrap().status, CheckStatus::Warn);
        assert!(of("").is_none() && of_retention(b"{}").is_none());
    }

    #[test]
    fn clocks_may_differ_by_a_request() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(
            of_clock("X", None, at(0)).is_none() && of_clock("X", Some(at(100)), at(105)).is_none()
        );
        assert!(
            of_clock("X", Some(at(100)), at(40))
                .unwrap()
                .message
                .contains("60 s behind that of X")
        );
        assert!(
            of_clock("X", Some(at(40)), at(100))
                .unwrap()
                .message
                .contains("60 s ahead of that of X")
        );
    }
}
