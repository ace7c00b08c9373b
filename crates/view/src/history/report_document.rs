//! JSON output of `report`. Hours have two decimals, and unknown values are `null`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::report::{GpuHourReport, Group, WindowGaps};
use super::report_capacity::CapacityItem;
use super::serving_hours::ServingHoursItem;
use crate::format::coverage::{fine, rounded};
use crate::format::parts::PartHoursItem;
use gpuctl_core::model::Percent;
use gpuctl_core::model::values::prices::Allowance;
use gpuctl_core::stats::history::job_time::JobSum;

/// The JSON output of `report`.
#[derive(JsonSchema, Serialize)]
pub struct ReportDocument<'a> {
    by: &'a str,
    from: Timestamp,
    to: Timestamp,
    currency: Option<&'a str>,
    /// Time between two checkpoints in seconds; `null` when it is not given. Without it, no
    /// GPU-hours count as lost.
    checkpoint_seconds: Option<f64>,
    gaps: GapsItem,
    /// The number of groups.
    total: usize,
    items: Vec<GroupItem<'a>>,
    /// The sum of the groups.
    sum: GroupItem<'a>,
}

/// The time for which kube-state-metrics has no samples. Sums over the contexts with
/// `--all-contexts`.
#[derive(JsonSchema, Serialize)]
struct GapsItem {
    /// The length of the window.
    window_hours: f64,
    /// Part of the window without samples, in gaps of any length.
    unobserved_hours: f64,
    /// The number of clock hours that the window touches.
    clock_hour_count: u64,
    /// How many of them have no sample.
    clock_hours_without_data: u64,
}

impl From<WindowGaps> for GapsItem {
    fn from(gaps: WindowGaps) -> Self {
        Self {
            window_hours: rounded(gaps.length),
            unobserved_hours: rounded(gaps.unobserved),
            clock_hour_count: gaps.hours,
            clock_hours_without_data: gaps.without_data,
        }
    }
}

/// The GPU-hours of a group.
#[derive(JsonSchema, Serialize)]
struct GroupItem<'a> {
    /// The kubeconfig context of the cluster, with `--all-contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
    group: Option<&'a str>,
    /// The value of the group for each key of `--by`.
    keys: BTreeMap<&'a str, Option<&'a str>>,
    quota_gpus: Option<f64>,
    waited_gpu_hours: f64,
    held_gpu_hours: f64,
    requested_gpu_hours: f64,
    used_gpu_hours: Option<f64>,
    wasted_gpu_hours: Option<f64>,
    unknown_gpu_hours: f64,
    /// Part of the held time without samples from kube-state-metrics. The same pods existed before
    /// and after.
    bridged_gpu_hours: f64,
    /// GPU-hours that pods may have held while kube-state-metrics had no samples. Not part of the
    /// held time; lowers `coverage_percent`.
    unseen_gpu_hours: f64,
    utilization: Option<Percent>,
    energy_kwh: Option<f64>,
    /// Percentage of the held time, including parts, for which the energy was measured. The energy
    /// of parts is unknown.
    energy_coverage_percent: Option<Percent>,
    cost: Option<f64>,
    workload_count: usize,
    /// Parts of devices, which are not included in the hours above.
    gpu_parts: Vec<PartHoursItem>,
    /// The parts in GPU-hours; `null` when the fraction of a part is unknown.
    part_gpu_equivalent_hours: Option<f64>,
    /// Percentage of the held and the unseen time that was measured. Parts of devices are weighted
    /// by their fraction.
    coverage_percent: Option<Percent>,
    /// How jobs spent their time; `null` when there were no jobs.
    jobs: Option<JobsItem>,
    /// Sums over inference servers; `null` when no server exports request metrics.
    serving: Option<ServingItem>,
    /// `null` when the group has no budget.
    budget: Option<BudgetItem>,
    /// `null` when the groups do not consist of nodes, or when the report does not cover all pods.
    capacity: Option<CapacityItem>,
}

/// How the jobs of a group spent their time. Hours are GPU-hours of the requested GPUs.
#[derive(JsonSchema, Serialize)]
struct JobsItem {
    job_count: u64,
    succeeded_count: u64,
    still_waiting_count: u64,
    interruption_count: u64,
    waiting_gpu_hours: f64,
    starting_gpu_hours: f64,
    running_gpu_hours: f64,
    lost_gpu_hours: f64,
    /// From 0 to 1.
    effective_training_time_ratio: Option<f64>,
    goodput: Option<f64>,
    queue_wait_p50_seconds: Option<f64>,
    queue_wait_p90_seconds: Option<f64>,
    /// Based on the part of the group's cost that its jobs caused, in proportion to their
    /// GPU-hours.
    cost_per_succeeded_job: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct ServingItem {
    #[serde(flatten)]
    hours: ServingHoursItem,
    /// Based on the part of the group's cost that its servers caused, in proportion to their
    /// GPU-hours.
    cost_per_million_generated_tokens: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct BudgetItem {
    gpu_hours: Option<f64>,
    /// Negative when the budget is exceeded.
    gpu_hours_left: Option<f64>,
    cost: Option<f64>,
    cost_left: Option<f64>,
}

impl BudgetItem {
    fn new(group: &Group, allowance: Allowance) -> Self {
        let (hours, cost) = group.remaining_budget();
        Self {
            gpu_hours: allowance.gpu_hours,
            gpu_hours_left: hours.map(rounded),
            cost: allowance.cost,
            cost_left: cost.map(rounded),
        }
    }
}

impl<'a> From<&'a Group> for GroupItem<'a> {
    fn from(group: &'a Group) -> Self {
        let account = &group.account;
        let jobs = |sum: &JobSum| JobsItem {
            job_count: sum.jobs,
            succeeded_count: sum.succeeded,
            still_waiting_count: sum.still_waiting,
            interruption_count: sum.interruptions,
            waiting_gpu_hours: rounded(sum.waiting),
            starting_gpu_hours: rounded(sum.starting),
            running_gpu_hours: rounded(sum.running),
            lost_gpu_hours: rounded(sum.lost),
            effective_training_time_ratio: sum.effective_ratio().map(fine),
            goodput: sum.goodput().map(fine),
            queue_wait_p50_seconds: sum.wait(0.5),
            queue_wait_p90_seconds: sum.wait(0.9),
            cost_per_succeeded_job: group
                .cost_of(sum.starting + sum.running, sum.succeeded as f64)
                .map(rounded),
        };
        let serving = group.serving.map(|sum| ServingItem {
            hours: ServingHoursItem::from(&sum),
            cost_per_million_generated_tokens: group
                .cost_of(sum.held, sum.generated_tokens / 1e6)
                .map(rounded),
        });
        Self {
            context: group.context.as_deref(),
            group: group.name.as_deref(),
            keys: group
                .keys
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_deref()))
                .collect(),
            quota_gpus: group.quota,
            waited_gpu_hours: rounded(account.waited),
            held_gpu_hours: rounded(account.held),
            requested_gpu_hours: rounded(account.held + account.waited),
            used_gpu_hours: account.used().map(rounded),
            wasted_gpu_hours: account.wasted().map(rounded),
            unknown_gpu_hours: rounded(account.unknown()),
            bridged_gpu_hours: rounded(account.bridged),
            unseen_gpu_hours: rounded(account.unseen),
            utilization: account.utilization().map(rounded),
            energy_kwh: account.energy.map(rounded),
            energy_coverage_percent: account.energy_coverage().map(rounded),
            cost: group.cost.map(rounded),
            workload_count: account.workloads.len(),
            gpu_parts: account.parts.iter().map(PartHoursItem::from).collect(),
            part_gpu_equivalent_hours: account.part_equivalent().map(rounded),
            coverage_percent: account.covered().map(rounded),
            jobs: Some(&group.jobs).filter(|sum| sum.jobs > 0).map(jobs),
            serving,
            budget: group
                .allowance
                .map(|allowance| BudgetItem::new(group, allowance)),
            capacity: CapacityItem::new(group),
        }
    }
}

impl<'a> From<&'a GpuHourReport<'a>> for ReportDocument<'a> {
    fn from(report: &'a GpuHourReport<'a>) -> Self {
        Self {
            by: report.by,
            from: report.from,
            to: report.to,
            currency: report.currency.as_deref(),
            checkpoint_seconds: report.checkpoint,
            gaps: report.gaps.into(),
            total: report.groups.len(),
            items: report.groups.iter().map(GroupItem::from).collect(),
            sum: (&report.total).into(),
        }
    }
}
