//! Renders `get overview`. In JSON, rates are from 0 to 1 and unknown values are `null`. In text,
//! unknown values are `-`.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::Percent;
use gpuctl_core::model::counting::inventory;
use gpuctl_core::model::{Consumer, Consumers, Count, HeldUse, Inventory, NodeHealth, NodeUsage};
use gpuctl_core::stats::exporters::node_exporter::{ClusterStorage, FabricPorts, Machines};

use super::numbers::{GpuNumbers, WITHHELD, withheld, withheld_text};
use crate::TextStyle;
use crate::format::coverage::{Coverage, basis, percent, rate};
use crate::format::table::{Cell, Column, percentages, right};
use crate::format::text::{bar, clean, count, or_dash, paint};

/// The data shown in an overview.
pub struct OverviewSource<'a> {
    pub inventory: &'a Inventory,
    /// `None` if the user cannot list pods.
    pub consumers: Option<&'a Consumers>,
    pub machines: Machines,
    pub coverage: Option<Coverage>,
}

/// The JSON output of `get overview`: the nodes with GPUs, and the use of their GPUs.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Number of nodes with GPUs.
    total_nodes: usize,
    healthy_nodes: usize,
    faulty_nodes: usize,
    fully_idle_nodes: Option<usize>,
    partially_idle_nodes: Option<usize>,
    busy_nodes: Option<usize>,
    /// Healthy nodes that accept no new pods.
    maintaining_nodes: usize,
    /// Nodes that are known from published data but are not visible, so that their state is
    /// unknown.
    unknown_nodes: usize,
    /// Held whole devices of all installed ones.
    allocation_rate: Option<f64>,
    /// Mean utilization of the whole devices that pods hold, or of the slices if pods hold no whole
    /// device. Devices without a sample do not count.
    utilization: Option<f64>,
    /// Installed whole devices.
    gpu_total: u64,
    gpu_allocated: Option<u64>,
    /// Usable whole devices that no pod holds, which a job can get now.
    gpu_free: Option<u64>,
    #[serde(flatten)]
    numbers: GpuNumbers,
    /// Held whole devices with a sample.
    gpu_sampled: Option<u64>,
    /// Mean utilization of the slices and shared devices that pods hold.
    slices_utilization: Option<f64>,
    /// Held slices and shared devices with a sample.
    slices_sampled: Option<u64>,
    waiting_pods: Option<usize>,
    waiting_gpus: Option<u64>,
    faults: Vec<Fault>,
    storage_stat: StorageStat,
    rdma_cluster_stat: RdmaStat,
    coverage: Option<Coverage>,
    /// What the text says about the mean utilization.
    #[serde(skip)]
    held: HeldUse,
    #[serde(skip)]
    gpus: Count,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Fault {
    node_name: String,
    reason: Option<String>,
}

/// Values are `null` when no metric provides them.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct StorageStat {
    total_capacity: Option<String>,
    used_capacity: Option<String>,
    available_capacity: Option<String>,
    utilization_rate: Option<f64>,
    /// One of `ceph`, `longhorn`, `volumes` and `disks`, or `several` in the sum of clusters with
    /// different sources.
    source: Option<&'static str>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct RdmaStat {
    total_ports: Option<u64>,
    active_ports: Option<u64>,
    /// Speed of the fastest active port.
    bandwidth: Option<String>,
}

/// The occupancy of a healthy node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    Idle,
    Partly,
    Full,
}

fn fill(host: &NodeUsage) -> Option<Fill> {
    // Count slices too, because a node with held slices is not idle even if its whole GPUs are
    // free.
    let units = inventory::total(host.slices.values().copied().chain([host.gpus]));
    Some(match units.used? {
        0 => Fill::Idle,
        used if used >= units.total => Fill::Full,
        _ => Fill::Partly,
    })
}

/// Formats bytes in decimal units, as storage is sold, such as `450TB` or `1.5GB`.
fn bytes(value: f64) -> String {
    let (unit, size) = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6)]
        .into_iter()
        .find(|(_, size)| value >= *size)
        .unwrap_or(("B", 1.0));
    let text = format!("{:.1}", value / size);
    format!("{}{unit}", text.trim_end_matches(".0"))
}

/// Builds the overview for both JSON and text.
pub fn document(cluster: &OverviewSource<'_>) -> Overview {
    let hosts: Vec<&NodeUsage> = cluster
        .inventory
        .hosts
        .iter()
        .filter(|host| host.has_gpus())
        .collect();
    let count_of = |health: NodeHealth| hosts.iter().filter(|host| host.health == health).count();
    let healthy: Vec<&&NodeUsage> = hosts
        .iter()
        .filter(|host| matches!(host.health, NodeHealth::Active | NodeHealth::Maintaining))
        .collect();
    let fills: Option<Vec<Fill>> = healthy.iter().map(|host| fill(host)).collect();
    let filled = |expected: Fill| {
        fills
            .as_ref()
            .map(|fills| fills.iter().filter(|fill| **fill == expected).count())
    };
    let gpus = cluster.inventory.gpus();
    let held = HeldUse::from_hosts(hosts.iter().copied());
    let waiting = cluster.consumers.map(waiting);
    Overview {
        total_nodes: hosts.len(),
        healthy_nodes: healthy.len(),
        faulty_nodes: count_of(NodeHealth::Faulty),
        fully_idle_nodes: filled(Fill::Idle),
        partially_idle_nodes: filled(Fill::Partly),
        busy_nodes: filled(Fill::Full),
        maintaining_nodes: count_of(NodeHealth::Maintaining),
        unknown_nodes: count_of(NodeHealth::Unknown),
        allocation_rate: gpus
            .used
            .filter(|_| gpus.total > 0)
            .map(|used| rate(Percent(used as f64 * 100.0 / gpus.total as f64))),
        utilization: held.utilization().map(rate),
        gpu_total: gpus.total,
        gpu_allocated: gpus.used,
        gpu_free: gpus.free(),
        numbers: gpus.into(),
        gpu_sampled: cluster.coverage.map(|_| held.whole.sampled),
        slices_utilization: held.parts.utilization.map(rate),
        slices_sampled: cluster.coverage.map(|_| held.parts.sampled),
        held,
        gpus,
        waiting_pods: waiting.as_ref().map(Vec::len),
        waiting_gpus: waiting
            .as_ref()
            .map(|waiting| waiting.iter().map(|consumer| devices(consumer)).sum()),
        faults: hosts
            .iter()
            .filter(|host| host.health == NodeHealth::Faulty)
            .map(|host| fault(host))
            .collect(),
        storage_stat: storage_stat(cluster.machines.storage),
        rdma_cluster_stat: rdma_stat(cluster.machines.rdma),
        coverage: cluster.coverage,
    }
}

fn fault(host: &NodeUsage) -> Fault {
    Fault {
        node_name: host.name().to_owned(),
        reason: host.reason.clone(),
    }
}

fn storage_stat(storage: Option<ClusterStorage>) -> StorageStat {
    StorageStat {
        total_capacity: storage.map(|storage| bytes(storage.total)),
        used_capacity: storage.map(|storage| bytes(storage.used)),
        available_capacity: storage.map(|storage| bytes(storage.total - storage.used)),
        utilization_rate: storage
            .and_then(|storage| Percent::from_ratio(storage.used, storage.total))
            .map(rate),
        source: storage.map(|storage| storage.source),
    }
}

fn rdma_stat(rdma: Option<FabricPorts>) -> RdmaStat {
    RdmaStat {
        total_ports: rdma.map(|rdma| rdma.ports),
        active_ports: rdma.map(|rdma| rdma.active),
        bandwidth: rdma
            .and_then(|rdma| rdma.gigabits)
            .map(|gigabits| format!("{gigabits:.0}Gbps")),
    }
}

/// Returns the pods that request devices and have no node.
fn waiting(consumers: &Consumers) -> Vec<&Consumer> {
    consumers
        .with_devices
        .iter()
        .filter(|consumer| consumer.node.is_none() && devices(consumer) > 0)
        .collect()
}

fn devices(consumer: &Consumer) -> u64 {
    let whole_devices = consumer
        .devices
        .iter()
        .filter(|(resource, _)| gpuctl_core::model::facts::resource::is_device(resource));
    whole_devices.map(|(_, amount)| amount).sum()
}

/// Renders the overview as text: bars with numbers, followed by problems.
pub fn text(overview: &Overview, style: TextStyle) -> String {
    let cells = style
        .width
        .map_or(20, |width| width.saturating_sub(50).clamp(10, 30));
    let gauge = |rate: Option<f64>| match rate {
        None => "-".to_owned(),
        Some(rate) if style.width.is_some() => bar(Percent(rate * 100.0), cells, style),
        Some(rate) => percent(Some(Percent(rate * 100.0))),
    };
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<8}{value}\n"));
    let allocated = format!(
        "{} of {} allocated, {} free{}",
        or_dash(overview.gpu_allocated),
        overview.gpu_total,
        or_dash(overview.gpu_free),
        withheld_text(overview.gpus)
    );
    line(
        "GPUs",
        format!("{}   {allocated}", gauge(overview.allocation_rate)),
    );
    let sampled = sampled_text(overview);
    line(
        "Used",
        format!("{}   {sampled}", gauge(overview.utilization)),
    );
    line("Nodes", node_text(overview, style));
    let storage = &overview.storage_stat;
    if let (Some(used), Some(total)) = (&storage.used_capacity, &storage.total_capacity) {
        let share = percent(storage.utilization_rate.map(|rate| Percent(rate * 100.0)));
        line(
            "Store",
            format!(
                "{used} of {total} used ({share}), according to {}",
                storage.source.unwrap_or("a metric")
            ),
        );
    }
    let rdma = &overview.rdma_cluster_stat;
    if let (Some(active), Some(ports)) = (rdma.active_ports, rdma.total_ports) {
        let speed = rdma.bandwidth.as_deref().unwrap_or("speed unknown");
        line("RDMA", format!("{active} of {ports} ports active, {speed}"));
    }
    if let (Some(pods @ 1..), Some(gpus)) = (overview.waiting_pods, overview.waiting_gpus) {
        let waiting = format!("{} for {}", count(pods as u64, "pod"), count(gpus, "GPU"));
        line(
            "Waiting",
            paint(&waiting, Some(colored::Color::Yellow), style),
        );
    }
    text
}

/// Describes how many devices the mean utilization covers.
fn sampled_text(overview: &Overview) -> String {
    match overview.gpu_sampled {
        Some(_) => basis(&overview.held),
        None => "not measured".to_owned(),
    }
}

/// Counts the nodes by occupancy, and names the faulty nodes.
fn node_text(overview: &Overview, style: TextStyle) -> String {
    let mut parts = vec![
        format!("{} idle", or_dash(overview.fully_idle_nodes)),
        format!("{} partly used", or_dash(overview.partially_idle_nodes)),
        format!("{} full", or_dash(overview.busy_nodes)),
    ];
    if overview.unknown_nodes > 0 {
        parts = vec![format!(
            "the state of {} is unknown",
            overview.unknown_nodes
        )];
    }
    // Cordoned nodes are idle, partly used or full, too: the other numbers add up to the total.
    if let (Some(last), 1..) = (parts.last_mut(), overview.maintaining_nodes) {
        last.push_str(&format!(
            " ({} of them cordoned)",
            overview.maintaining_nodes
        ));
    }
    let faults: Vec<String> = overview
        .faults
        .iter()
        .map(|fault| {
            let reason = clean(fault.reason.as_deref().unwrap_or_default());
            format!("{} {reason}", clean(&fault.node_name))
                .trim()
                .to_owned()
        })
        .collect();
    if !faults.is_empty() {
        let faulty_text = format!("{} faulty ({})", faults.len(), faults.join(", "));
        parts.push(paint(&faulty_text, Some(colored::Color::Red), style));
    }
    format!("{}: {}", overview.total_nodes, parts.join(", "))
}

/// Columns of [`Overview::row`].
pub(super) const ROW_COLUMNS: [Column; 9] = [
    right("NODES"),
    right("FAULTY").yielding(),
    right("GPUS"),
    right("ALLOCATED"),
    right("FREE"),
    WITHHELD[0].yielding(),
    WITHHELD[1].yielding(),
    percentages("UTIL"),
    right("WAITING"),
];

impl Overview {
    /// The cells of a cluster in a table of several clusters. GPUs are whole devices, and waiting
    /// ones are requested by pods without a node.
    pub(super) fn row(&self) -> Vec<Cell> {
        let utilization = self.utilization.map(|rate| Percent(rate * 100.0));
        let [lost, cordoned] = withheld(self.gpus);
        vec![
            self.total_nodes.to_string().into(),
            self.faulty_nodes.to_string().into(),
            self.gpu_total.to_string().into(),
            or_dash(self.gpu_allocated).into(),
            or_dash(self.gpu_free).into(),
            lost,
            cordoned,
            percent(utilization).into(),
            or_dash(self.waiting_gpus).into(),
        ]
    }
}
