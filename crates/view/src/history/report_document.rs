//! The answer of `report -o json`. Hours have two decimals; unknown is null.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::report::{GpuHourReport, Group};
use super::serving_hours::ServingHoursItem;
use crate::format::coverage::{fine, rounded};
use crate::format::parts::PartHoursItem;
use gpuctl_core::model::Percent;
use gpuctl_core::model::values::prices::Allowance;
use gpuctl_core::stats::history::job_time::JobSum;

/// The answer of `report -o json`.
#[derive(JsonSchema, Serialize)]
pub struct ReportDocument<'a> {
    by: &'a str,
    from: Timestamp,
    to: Timestamp,
    currency: Option<&'a str>,
    /// Time between two checkpoints; `null` where none was named, and then nothing counts as lost.
    checkpoint_seconds: Option<f64>,
    groups: Vec<GroupItem<'a>>,
    total: GroupItem<'a>,
}

/// An account in JSON.
#[derive(JsonSchema, Serialize)]
struct GroupItem<'a> {
    group: Option<&'a str>,
    /// The same by what is grouped by.
    keys: BTreeMap<&'a str, Option<&'a str>>,
    quota_gpus: Option<f64>,
    waited_gpu_hours: f64,
    held_gpu_hours: f64,
    requested_gpu_hours: f64,
    used_gpu_hours: Option<f64>,
    wasted_gpu_hours: Option<f64>,
    unknown_gpu_hours: f64,
    utilization: Option<Percent>,
    energy_kwh: Option<f64>,
    cost: Option<f64>,
    workload_count: usize,
    /// Parts of devices, which are in none of the hours above.
    gpu_parts: Vec<PartHoursItem>,
    /// What they are worth in GPU-hours; `null` where the fraction of one is not known.
    part_gpu_equivalent_hours: Option<f64>,
    /// How much of all that was held was measured, parts by their fraction.
    coverage_percent: Option<Percent>,
    /// What jobs did with their time; `null` where there were none.
    jobs: Option<JobsItem>,
    /// What inference servers did; `null` where none told of its requests.
    serving: Option<ServingItem>,
    /// `null` where the group has none.
    budget: Option<BudgetItem>,
}

/// Hours are GPU-hours of what jobs requested.
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
    /// 0 to 1.
    effective_training_time_ratio: Option<f64>,
    goodput: Option<f64>,
    queue_wait_p50_seconds: Option<f64>,
    queue_wait_p90_seconds: Option<f64>,
    /// By the share of the group's cost that jobs have of its GPU-hours.
    cost_per_succeeded_job: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct ServingItem {
    #[serde(flatten)]
    hours: ServingHoursItem,
    /// By the share of the group's cost that servers have of its GPU-hours.
    cost_per_million_generated_tokens: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct BudgetItem {
    gpu_hours: Option<f64>,
    /// Negative where more was used.
    gpu_hours_left: Option<f64>,
    cost: Option<f64>,
    cost_left: Option<f64>,
}

impl BudgetItem {
    fn of(group: &Group, allowance: Allowance) -> Self {
        let (hours, cost) = group.left();
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
            utilization: account.utilization().map(rounded),
            energy_kwh: account.energy.map(rounded),
            cost: group.cost.map(rounded),
            workload_count: account.workloads.len(),
            gpu_parts: account.parts.iter().map(PartHoursItem::from).collect(),
            part_gpu_equivalent_hours: account.part_equivalent().map(rounded),
            coverage_percent: account.covered().map(rounded),
            jobs: Some(&group.jobs).filter(|sum| sum.jobs > 0).map(jobs),
            serving,
            budget: group
                .allowance
                .map(|allowance| BudgetItem::of(group, allowance)),
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
            groups: report.groups.iter().map(GroupItem::from).collect(),
            total: (&report.total).into(),
        }
    }
}
