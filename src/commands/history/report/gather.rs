//! Sums the usage of a report's groups, hour by hour.

use std::collections::BTreeMap;

use futures::future::try_join;

use crate::cli::history::report::{GroupBy, Report, ReportFormat};
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::observe::history::ClusterHistory;
use crate::observe::past_queries::HistoryScope;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::contract::labels::USER;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::allocations::{Allocation, AllocationGroup, AllocationHistory};
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::job_time::{GroupValues, JobSum, JobTimes};
use gpuctl_core::stats::history::serving_hours::ServingHours;
use gpuctl_core::stats::history::workload_use::WorkloadUses;
use gpuctl_manifest::render::label_value;
use gpuctl_view::history::report::HourPoint;

/// Number of hours to read concurrently.
const MAX_CONCURRENT: usize = 3;

impl Report {
    /// Whether the largest wasters and the trend are shown. They need more queries than the table.
    pub(super) fn has_page(&self) -> bool {
        self.output == ReportFormat::Html
    }
}

impl GroupBy {
    /// The key as kube-state-metrics spells it in label names.
    pub(super) fn exported_key(&self) -> String {
        match self {
            Self::Namespace => String::new(),
            Self::Label(_, key) | Self::Annotation(_, key) => kube_state::label_key(key),
        }
    }

    /// Returns the group of an allocation, or `None` if the allocation lacks the label or the
    /// cluster exports no labels.
    fn group_of(&self, allocation: &Allocation, key: &str) -> Option<String> {
        match self {
            Self::Namespace => Some(allocation.pod.0.clone()),
            Self::Label(..) => allocation.labels.as_ref()?.get(key).cloned(),
            Self::Annotation(..) => allocation.annotations.as_ref()?.get(key).cloned(),
        }
    }
}

/// Selects the allocations of a report and assigns them to groups.
struct Grouping<'a> {
    /// Grouping dimensions, with the keys as kube-state-metrics spells them.
    dimensions: Vec<(&'a GroupBy, String)>,
    /// Only this namespace is included, if set.
    namespace: Option<&'a str>,
    /// Only this value of the user label is included, if set.
    user: Option<String>,
}

impl<'a> Grouping<'a> {
    fn new(args: &'a Report, user: Option<&str>, context: &'a Context) -> Self {
        Self {
            dimensions: args
                .by
                .iter()
                .map(|dimension| (dimension, dimension.exported_key()))
                .collect(),
            namespace: context.access.namespace.as_deref(),
            user: user.map(label_value),
        }
    }

    fn includes(&self, allocation: &Allocation) -> bool {
        let is_user = |user: &String| {
            let labels = allocation.labels.as_ref();
            labels.and_then(|labels| labels.get(&kube_state::label_key(USER))) == Some(user)
        };
        self.namespace
            .is_none_or(|namespace| namespace == allocation.pod.0)
            && self.user.as_ref().is_none_or(is_user)
    }

    fn values(&self, allocation: &Allocation) -> GroupValues {
        self.dimensions
            .iter()
            .map(|(dimension, key)| dimension.group_of(allocation, key))
            .collect()
    }

    fn groups(&self, history: &AllocationHistory) -> BTreeMap<GroupValues, AllocationGroup> {
        let mut groups: BTreeMap<GroupValues, AllocationGroup> = BTreeMap::new();
        for (index, allocation) in history
            .allocations
            .iter()
            .enumerate()
            .filter(|(_, allocation)| self.includes(allocation))
        {
            groups
                .entry(self.values(allocation))
                .or_default()
                .add(index, allocation);
        }
        groups
    }
}

#[derive(Default)]
pub(super) struct GroupTotals {
    pub account: GpuHours,
    pub jobs: JobSum,
    pub serving: Option<ServingHours>,
}

/// Usage of a group in one hour.
struct HourUsage {
    group: GroupValues,
    account: GpuHours,
    serving: Option<ServingHours>,
}

/// Totals of all groups, and the number of hours read.
#[derive(Default)]
pub(super) struct ReportTotals {
    pub groups: BTreeMap<GroupValues, GroupTotals>,
    /// The use of each workload. Empty unless the report has a page.
    pub workloads: WorkloadUses,
    pub over_time: Vec<HourPoint>,
    pub hours: u64,
    pub without_data: u64,
    /// Hours of the report.
    pub length: f64,
    /// Hours for which kube-state-metrics has no samples.
    pub unobserved: f64,
}

impl ReportTotals {
    fn add_hour(&mut self, accounts: Vec<HourUsage>, history: &AllocationHistory) {
        let mut point = HourPoint {
            hour: u32::try_from(self.hours).unwrap_or(u32::MAX),
            ..HourPoint::default()
        };
        self.hours += 1;
        self.without_data += u64::from(history.observed_slots() == 0);
        self.length += history.span.hours();
        self.unobserved += history.unobserved_hours();
        for HourUsage {
            group,
            account,
            serving,
        } in accounts
        {
            point.held += account.held;
            point.used += account.used().unwrap_or(0.0);
            point.unknown += account.unknown();
            let totals = self.groups.entry(group).or_default();
            totals.account.add(account);
            if let Some(serving) = serving {
                totals.serving.get_or_insert_default().add(serving);
            }
        }
        self.over_time.push(point);
    }
}

/// Reads the hours concurrently and adds up their groups. With `user`, includes only this user's
/// jobs.
pub(super) async fn gather(
    args: &Report,
    cluster_history: &ClusterHistory<'_>,
    pieces: Vec<(UnixSeconds, UnixSeconds)>,
    user: Option<&str>,
    context: &Context,
) -> Result<ReportTotals, Error> {
    let scope = HistoryScope {
        power: true,
        names: user.is_some()
            || args.has_page()
            || args
                .by
                .iter()
                .any(|dimension| *dimension != GroupBy::Namespace),
        ..HistoryScope::default()
    };
    let grouping = Grouping::new(args, user, context);
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let read_hour = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let ((history, usage), servers) = try_join(
            cluster_history.read(from, to, scope),
            cluster_history.servers(from, to),
        )
        .await?;
        bar.inc(1);
        let usage_of_group = |(group, members): (GroupValues, AllocationGroup)| HourUsage {
            group,
            account: GpuHours::for_group(&history, &usage, &members),
            serving: servers.hours_of(&history, &members),
        };
        let usages: Vec<HourUsage> = grouping
            .groups(&history)
            .into_iter()
            .map(usage_of_group)
            .collect();
        let workloads = match args.has_page() {
            true => WorkloadUses::of_hour(&history, &usage, |item| grouping.includes(item)),
            false => WorkloadUses::default(),
        };
        Ok::<_, Error>((usages, workloads, history))
    };
    let mut results = OrderedConcurrent::new(pieces.into_iter().map(read_hour), MAX_CONCURRENT);
    let mut totals = ReportTotals::default();
    let mut jobs = JobTimes::new(args.checkpoint.map_or(0.0, |span| span.as_secs_f64()));
    while let Some(result) = results.next().await {
        let (usages, workloads, history) = result?;
        totals.workloads.add(workloads);
        totals.add_hour(usages, &history);
        jobs.add(&history, |allocation| {
            grouping
                .includes(allocation)
                .then(|| grouping.values(allocation))
        });
    }
    drop(results);
    bar.finish_and_clear();
    // A job can span several hours, so its times are complete only after the last hour.
    for (group, sum) in jobs.sums() {
        totals.groups.entry(group).or_default().jobs = sum;
    }
    Ok(totals)
}
