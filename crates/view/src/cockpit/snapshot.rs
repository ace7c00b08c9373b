//! A snapshot of the cluster for the cockpit: jobs, nodes, GPUs and queues, with their totals.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use crate::format::coverage::Coverage;
use crate::format::text::joined;
use crate::workloads::top::TopSummary;
use gpuctl_core::model::facts::workload::{QUEUED, WorkloadState};
use gpuctl_core::model::{
    Consumers, Count, Figures, GpuCount, HeldUse, Inventory, NodeUsage, Percent, Point, Queue,
    Reading, Readings, UnixSeconds, Workload,
};

/// Length of the curves in milliseconds.
pub(crate) const PAST: i64 = 30 * 60 * 1000;
/// Minimum time between two points of a curve in milliseconds. Curves are only twelve characters
/// wide, so more points would not be visible.
const APART: i64 = 30 * 1000;

/// A workload that holds or waits for GPUs.
#[derive(Clone, Debug)]
pub struct JobLine {
    pub namespace: String,
    pub kind: String,
    pub name: String,
    pub standing: WorkloadState,
    /// Why the workload waits or fails, in Kubernetes' words.
    pub reason: Option<String>,
    /// Devices and slices that the workload holds.
    pub held: GpuCount,
    pub requested: GpuCount,
    /// Devices of its pods that have no node yet.
    pub unplaced: GpuCount,
    pub types: String,
    pub figures: Figures,
    /// When the workload was created, as in `get jobs`. Pausing and resuming do not change it.
    pub created_at: Option<Timestamp>,
    /// When the workload's current pods started.
    pub started_at: Option<Timestamp>,
    /// When the oldest pod without a node started to wait.
    pub waiting_since: Option<Timestamp>,
    /// Whether the workload is paused or scaled to zero, so that it does not wait for GPUs.
    pub is_paused: bool,
    /// Whether gpuctl created the workload, according to the labels of its pods with devices.
    /// `None` if no such pod exists or is visible.
    pub is_ours: Option<bool>,
    /// Pods of the workload that have not terminated.
    pub pods: BTreeSet<String>,
}

impl JobLine {
    /// Returns NAMESPACE/KIND/NAME, which `why` and `describe workload` accept.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.kind, self.name)
    }

    /// Returns true if the workload waits for GPUs. One that holds all of them may still be pulling
    /// its image.
    pub(crate) fn waits(&self) -> bool {
        self.lacking() > GpuCount::ZERO
    }

    /// Counts the GPUs that it waits for. A job that is placed in part runs and waits for the rest.
    /// Before its pods exist, a waiting job lacks what its object requests.
    pub(crate) fn lacking(&self) -> GpuCount {
        let without_pods = match self.standing {
            WorkloadState::Pending => GpuCount(self.requested.0.saturating_sub(self.held.0)),
            _ => GpuCount::ZERO,
        };
        if self.is_paused {
            GpuCount::ZERO
        } else {
            self.unplaced.max(without_pods)
        }
    }
}

/// Utilization by line in percent, with the oldest point first and times in Unix milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Curves(BTreeMap<String, Vec<Point>>);

impl Curves {
    /// Adds the points of older curves before the existing points.
    pub fn prepend_all(&mut self, older: Self) {
        older
            .0
            .into_iter()
            .for_each(|(line, points)| self.prepend(line, points));
    }

    /// Adds older points of a line before the existing points, except those that overlap them.
    pub(crate) fn prepend(&mut self, line: String, mut points: Vec<Point>) {
        let points_of_line = self.0.entry(line).or_default();
        points.retain(|point| {
            points_of_line
                .first()
                .is_none_or(|first| point.at < first.at)
        });
        points_of_line.splice(0..0, points);
    }

    /// Appends the current utilization of a line.
    fn extend(&mut self, line: String, time: i64, utilization: Option<Percent>) {
        let Some(Percent(value)) = utilization else {
            return;
        };
        let points = self.0.entry(line).or_default();
        // Replace the newest point until it is `APART` after its predecessor.
        if points.len() > 1 && time - points[points.len() - 2].at < APART {
            points.pop();
        }
        points.push(Point { at: time, value });
    }

    pub fn points(&self, line: &str) -> &[Point] {
        self.0.get(line).map_or(&[], Vec::as_slice)
    }
}

#[derive(Clone, Debug, Default)]
pub struct CockpitSnapshot {
    pub at: Timestamp,
    /// Total and held whole devices, or `None` if the user cannot list nodes.
    pub count: Option<Count>,
    /// Use of the held devices. Free devices do not reduce the mean.
    pub held_use: HeldUse,
    /// `None` without metrics.
    pub coverage: Option<Coverage>,
    pub jobs: Vec<JobLine>,
    pub nodes: Vec<NodeUsage>,
    pub gpus: Vec<Reading>,
    /// Queues, or `None` if the cluster has no queueing system or the user cannot list its queues.
    pub queues: Option<Vec<Queue>>,
    /// Set if the user asked for all namespaces but can list only the jobs of this one.
    pub narrowed_to: Option<String>,
}

impl CockpitSnapshot {
    pub fn new(
        inventory: Option<Inventory>,
        consumers: Option<&Consumers>,
        workloads: &[Workload],
        readings: Option<Readings>,
        queues: Option<Vec<Queue>>,
        at: Timestamp,
    ) -> Self {
        let coverage = readings.as_ref().map(Coverage::from);
        let readings = readings.unwrap_or_default();
        let count = inventory.as_ref().map(Inventory::gpus);
        let nodes: Vec<NodeUsage> = inventory
            .into_iter()
            .flat_map(|inventory| inventory.hosts)
            .filter(NodeUsage::has_gpus)
            .collect();
        let kinds: BTreeMap<&str, String> = nodes
            .iter()
            .map(|host| (host.name(), joined(&host.kinds())))
            .collect();
        let labels: Option<HashMap<(&str, &str), Option<&str>>> = consumers.map(|consumers| {
            consumers
                .with_devices
                .iter()
                .map(|consumer| {
                    (
                        (&*consumer.namespace, &*consumer.name),
                        consumer.job.as_deref(),
                    )
                })
                .collect()
        });
        let jobs = workloads
            .iter()
            .filter(|workload| !workload.has_ended() && workload.requested > GpuCount::ZERO)
            .map(|workload| line(workload, &readings, &kinds, labels.as_ref()))
            .collect();
        let mut gpus = readings.devices;
        if !gpus.is_empty() {
            gpus.extend(nodes.iter().flat_map(unmeasured));
        }
        Self {
            at,
            count,
            held_use: HeldUse::from_hosts(nodes.iter()),
            coverage,
            jobs,
            nodes,
            gpus,
            queues,
            narrowed_to: None,
        }
    }

    /// Returns the number of waiting jobs, and of the GPUs that they lack.
    pub fn waiting(&self) -> (u64, GpuCount) {
        let waiting = || self.jobs.iter().filter(|job| job.waits());
        (
            waiting().count() as u64,
            waiting().map(JobLine::lacking).sum(),
        )
    }

    /// Returns the totals for the summary line.
    pub fn summary(&self) -> TopSummary {
        let (jobs_waiting, gpus_waiting) = self.waiting();
        TopSummary {
            nodes: self.count.map(|_| self.nodes.len()),
            gpus: self.count,
            held_use: self.held_use,
            jobs_waiting,
            gpus_waiting,
            coverage: self.coverage,
        }
    }

    /// Appends the current utilization to the curves, and drops points older than `PAST`.
    pub fn record(&self, curves: &mut Curves) {
        let at = self.at.as_millisecond();
        self.jobs
            .iter()
            .for_each(|job| curves.extend(job.full_name(), at, job.figures.utilization));
        self.nodes
            .iter()
            .for_each(|node| curves.extend(node.name().to_owned(), at, node.figures().utilization));
        self.gpus
            .iter()
            .for_each(|gpu| curves.extend(gpu_name(gpu), at, gpu.utilization));
        curves
            .0
            .values_mut()
            .for_each(|points| points.retain(|point| point.at >= at - PAST));
        curves.0.retain(|_, points| !points.is_empty());
    }

    /// Returns the job of a pod.
    pub(crate) fn job_of(&self, namespace: &str, pod: &str) -> Option<&JobLine> {
        self.jobs
            .iter()
            .find(|job| job.namespace == namespace && job.pods.contains(pod))
    }

    pub(crate) fn nodes_by_name(&self) -> HashMap<&str, &NodeUsage> {
        let nodes = self.nodes.iter();
        nodes.map(|node| (node.name(), node)).collect()
    }

    /// Computes the time at which the curves begin.
    pub fn begin(&self) -> UnixSeconds {
        UnixSeconds::from(self.at) - PAST / 1000
    }
}

/// Lists the whole devices of a node that no exporter reports, with the numbers that are left.
fn unmeasured(node: &NodeUsage) -> impl Iterator<Item = Reading> {
    let whole = node.devices.iter().flatten();
    let known: BTreeSet<u32> = whole
        .filter(|reading| reading.slice.is_none())
        .map(|reading| reading.index)
        .collect();
    let missing = node.gpus.total.saturating_sub(known.len() as u64);
    let held = match node.gpus.used {
        Some(0) if node.gpus.lost == 0 => Some(false),
        Some(used) if used >= node.gpus.total => Some(true),
        _ => None,
    };
    let numbers = (0_u32..).filter(move |index| !known.contains(index));
    numbers
        .take(usize::try_from(missing).unwrap_or(0))
        .map(move |index| Reading {
            node: node.name().to_owned(),
            index,
            held,
            ..Reading::default()
        })
}

/// Formats the name of a GPU as NODE/DEVICE, which `who gpu` accepts.
pub(crate) fn gpu_name(gpu: &Reading) -> String {
    format!("{}/{}", gpu.node, gpu.id())
}

fn line(
    workload: &Workload,
    readings: &Readings,
    kinds: &BTreeMap<&str, String>,
    labels: Option<&HashMap<(&str, &str), Option<&str>>>,
) -> JobLine {
    let live_pods = || workload.pods.iter().filter(|pod| !pod.ended());
    let nodes = live_pods().filter_map(|pod| pod.node.as_deref());
    let types: BTreeSet<&str> = nodes
        .filter_map(|node| kinds.get(node))
        .map(String::as_str)
        .collect();
    let pods: Vec<&str> = live_pods().map(|pod| &*pod.name).collect();
    JobLine {
        namespace: workload.top.namespace.clone(),
        kind: workload.top.kind.clone(),
        name: workload.top.name.clone(),
        standing: workload.state,
        reason: workload
            .trouble()
            .or(workload.top.resting)
            .map(ToOwned::to_owned),
        held: workload.gpus_held() + GpuCount(workload.slices.values().sum()),
        requested: workload.requested,
        unplaced: live_pods()
            .filter(|pod| pod.node.is_none())
            .map(|pod| pod.gpus)
            .sum(),
        types: types.into_iter().collect::<Vec<_>>().join(","),
        figures: readings.figures_of(&workload.top.namespace, &pods),
        created_at: workload.created_at(),
        started_at: workload.started_at(),
        waiting_since: live_pods()
            .filter(|pod| pod.node.is_none())
            .filter_map(|pod| pod.created_at)
            .min()
            .or(workload.created_at()),
        is_paused: workload.top.resting.is_some_and(|reason| reason != QUEUED),
        pods: pods.into_iter().map(ToOwned::to_owned).collect(),
        is_ours: labels
            .filter(|_| live_pods().next().is_some())
            .map(|labels| {
                live_pods().any(|pod| {
                    // gpuctl labels the pods that it creates with their job's name.
                    labels.get(&(&*pod.namespace, &*pod.name))
                        == Some(&Some(workload.top.name.as_str()))
                })
            }),
    }
}
