//! The content of a report: GPU-hours of groups, and how their jobs spent their time.

use jiff::Timestamp;

use gpuctl_core::model::values::prices::Allowance;
use gpuctl_core::stats::history::capacity_hours::CapacityHours;
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::job_time::JobSum;
use gpuctl_core::stats::history::serving_hours::ServingHours;

/// The name of the pods that belong to no group.
pub(crate) const UNNAMED: &str = "(none)";

/// A group of workloads with its GPU-hours.
#[derive(Default)]
pub struct Group {
    /// The kubeconfig context of its cluster, if the report covers several.
    pub context: Option<String>,
    /// `None` for the pods that belong to no group.
    pub name: Option<String>,
    /// The keys that the report groups by, with this group's values.
    pub keys: Vec<(String, Option<String>)>,
    /// Number of devices that the group's quota allows.
    pub quota: Option<f64>,
    pub cost: Option<f64>,
    /// The group's budget for the period of the report.
    pub allowance: Option<Allowance>,
    pub account: GpuHours,
    /// GPU-hours that no pod held. `None` if the group does not consist of nodes, or if the report
    /// does not cover all pods.
    pub unheld: Option<CapacityHours>,
    pub jobs: JobSum,
    /// `None` if no server of the group exports request metrics.
    pub serving: Option<ServingHours>,
}

impl Group {
    /// Adds the sums of another group. The quota, cost, budget and capacity remain.
    pub fn add(&mut self, other: &Self) {
        self.account.add(other.account.clone());
        self.jobs.add(&other.jobs);
        if let Some(serving) = other.serving {
            self.serving.get_or_insert_default().add(serving);
        }
    }

    /// Returns the remaining budget in GPU-hours and in cost, or `None` where the budget or use is
    /// unknown. Parts of devices count with their fraction.
    pub fn remaining_budget(&self) -> (Option<f64>, Option<f64>) {
        let used = self
            .account
            .part_equivalent()
            .map(|parts| self.account.held + parts);
        let remainder = |allowed: Option<f64>, used: Option<f64>| Some(allowed? - used?);
        let allowance = self.allowance.unwrap_or_default();
        (
            remainder(allowance.gpu_hours, used),
            remainder(allowance.cost, self.cost),
        )
    }

    /// Returns the cost of `gpu_hours` GPU-hours per thing, such as a job or a token. Returns
    /// `None` if a number is unknown or zero.
    pub(crate) fn cost_of(&self, gpu_hours: f64, things: f64) -> Option<f64> {
        let total_hours = self.account.held + self.account.part_equivalent()?;
        (total_hours > 0.0 && things > 0.0)
            .then_some(self.cost? * (gpu_hours / total_hours).min(1.0) / things)
    }
}

/// Joins the values of a group to a name. Returns `None` if all values are missing.
pub fn joined(values: &[Option<String>]) -> Option<String> {
    let name = |value: &Option<String>| value.clone().unwrap_or_else(|| UNNAMED.to_owned());
    values
        .iter()
        .any(Option::is_some)
        .then(|| values.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// Returns the names of the groups as shown in the table.
pub fn names(report: &GpuHourReport<'_>) -> Vec<String> {
    let name = |group: &Group| {
        let name = group.name.as_deref().unwrap_or(UNNAMED);
        match &group.context {
            Some(context) => format!("{context}/{name}"),
            None => name.to_owned(),
        }
    };
    report.groups.iter().map(name).collect()
}

/// The GPU-hours of one hour of the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct HourPoint {
    /// Hours since the start of the report.
    pub hour: u32,
    pub held: f64,
    pub used: f64,
    /// GPU-hours on held devices that were not measured.
    pub unknown: f64,
}

/// Hours of the window, and for how many of them kube-state-metrics has no samples. The hours of
/// several clusters are added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowGaps {
    /// Clock hours that the window touches.
    pub hours: u64,
    /// Clock hours without any sample.
    pub without_data: u64,
    /// Hours of the window.
    pub length: f64,
    /// Hours without samples, of any length.
    pub unobserved: f64,
}

impl WindowGaps {
    pub fn add(&mut self, other: Self) {
        self.hours += other.hours;
        self.without_data += other.without_data;
        self.length += other.length;
        self.unobserved += other.unobserved;
    }
}

/// The content of a report.
pub struct GpuHourReport<'a> {
    pub by: &'a str,
    pub from: Timestamp,
    pub to: Timestamp,
    pub currency: Option<String>,
    pub groups: Vec<Group>,
    pub total: Group,
    /// Seconds between two checkpoints.
    pub checkpoint: Option<f64>,
    /// Whether a group has a budget, so that budgets are shown.
    pub budgeted: bool,
    /// Whether to show how jobs spent their time instead of GPU-hours.
    pub of_jobs: bool,
    /// GPU-hours by hour, sorted by time.
    pub over_time: Vec<HourPoint>,
    pub gaps: WindowGaps,
}

impl GpuHourReport<'_> {
    /// Creates a report with only groups, for tests.
    #[cfg(test)]
    pub fn new(time: Timestamp, groups: Vec<Group>, total: Group) -> Self {
        Self {
            by: "team",
            from: time,
            to: time,
            currency: None,
            groups,
            total,
            checkpoint: None,
            budgeted: false,
            of_jobs: false,
            over_time: Vec::new(),
            gaps: WindowGaps::default(),
        }
    }

    /// Whether the groups consist of nodes, so that their capacity is shown.
    pub(crate) fn has_capacity(&self) -> bool {
        self.groups.iter().any(|group| group.unheld.is_some())
    }
}
