//! Sums the usage of a report's groups, hour by hour.

use std::collections::BTreeMap;

use futures::future::try_join;

use super::grouping::{Grouping, MembersByTraits};
use crate::cli::history::report::{GroupBy, Report, ReportFormat};
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::observe::history::{ClusterHistory, PastHour};
use crate::observe::past_queries::HistoryScope;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::node_traits::NodeCatalog;
use gpuctl_core::stats::history::allocations::{AllocationGroup, AllocationHistory};
use gpuctl_core::stats::history::capacity_hours::{CapacityHours, CapacityTracker};
use gpuctl_core::stats::history::costs::{self, HoursByTraits};
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::job_time::{GroupValues, JobSum, JobTimes};
use gpuctl_core::stats::history::serving_hours::{Servers, ServingHours};
use gpuctl_core::stats::history::workload_use::WorkloadUses;
use gpuctl_view::history::report::{HourPoint, WindowGaps};

/// Number of hours to read concurrently.
const MAX_CONCURRENT: usize = 3;

impl Report {
    /// Whether the largest wasters and the trend are shown. They need more queries than the table.
    pub(super) fn has_page(&self) -> bool {
        self.output == ReportFormat::Html
    }
}

#[derive(Default)]
pub(super) struct GroupTotals {
    pub hours: HoursByTraits,
    pub jobs: JobSum,
    pub serving: Option<ServingHours>,
}

/// Usage of a group in one hour.
struct HourUsage {
    group: GroupValues,
    hours: HoursByTraits,
    serving: Option<ServingHours>,
}

/// Totals of all groups, and the hours read.
#[derive(Default)]
pub(super) struct ReportTotals {
    pub groups: BTreeMap<GroupValues, GroupTotals>,
    /// GPU-hours that no pod held, by group. If nodes belong to no group, the only key has no values.
    /// `None` if the report does not cover all pods.
    pub capacity: Option<BTreeMap<GroupValues, CapacityHours>>,
    /// The use of each workload. Empty unless the report has a page.
    pub workloads: WorkloadUses,
    pub over_time: Vec<HourPoint>,
    pub gaps: WindowGaps,
}

impl ReportTotals {
    fn add_hour(&mut self, accounts: Vec<HourUsage>, history: &AllocationHistory) {
        let mut point = HourPoint {
            hour: u32::try_from(self.gaps.hours).unwrap_or(u32::MAX),
            ..HourPoint::default()
        };
        self.gaps.add(WindowGaps {
            hours: 1,
            without_data: u64::from(history.observed_slots() == 0),
            length: history.span.hours(),
            unobserved: history.unobserved_hours(),
        });
        for HourUsage {
            group,
            hours,
            serving,
        } in accounts
        {
            let totals = self.groups.entry(group).or_default();
            for (traits, account) in hours {
                point.held += account.held;
                point.used += account.used().unwrap_or(0.0);
                point.unknown += account.unknown();
                totals.hours.entry(traits).or_default().add(account);
            }
            if let Some(serving) = serving {
                totals.serving.get_or_insert_default().add(serving);
            }
        }
        self.over_time.push(point);
    }

    /// Returns the GPU-hours of each group.
    pub(super) fn hours_of_groups(&self) -> impl Iterator<Item = &HoursByTraits> {
        self.groups.values().map(|group| &group.hours)
    }

    /// Returns the GPU-hours of all groups.
    pub(super) fn account(&self) -> GpuHours {
        let mut total = GpuHours::default();
        let accounts = self.hours_of_groups().map(costs::sum);
        accounts.for_each(|account| total.add(account));
        total
    }

    /// Returns the GPU-hours that no pod held, of all nodes.
    pub(super) fn unheld(&self) -> Option<CapacityHours> {
        let mut total = CapacityHours::default();
        let groups = self.capacity.as_ref()?.values();
        groups.for_each(|group| total.add(group));
        Some(total)
    }
}

/// Sums one hour after the other, in the order of time.
struct Gathering<'a> {
    args: &'a Report,
    grouping: &'a Grouping<'a>,
    catalog: NodeCatalog,
    totals: ReportTotals,
    jobs: JobTimes,
    capacity: CapacityTracker,
}

impl Gathering<'_> {
    fn add(&mut self, hour: &PastHour, servers: &Servers) {
        let PastHour {
            allocations: history,
            usage,
            nodes,
            node_labels,
            ..
        } = hour;
        self.catalog.add_labels(node_labels);
        let devices = usage.devices.iter().zip(&usage.models);
        let product = devices.filter_map(|(device, model)| {
            Some((device.node.as_str(), model.as_deref()?)).filter(|(node, _)| !node.is_empty())
        });
        self.catalog.add_products(product);
        let (grouping, catalog) = (self.grouping, &self.catalog);
        let usage_of_group = |(group, members): (GroupValues, MembersByTraits)| {
            let mut all = AllocationGroup::default();
            for members in members.values() {
                all.whole.extend(&members.whole);
                all.parts.extend(&members.parts);
            }
            let account = |members: &AllocationGroup| GpuHours::for_group(history, usage, members);
            HourUsage {
                group,
                serving: servers.hours_of(history, &all),
                hours: members
                    .into_iter()
                    .map(|(traits, members)| (traits, account(&members)))
                    .collect(),
            }
        };
        let groups = grouping.groups(history, catalog).into_iter();
        let usages: Vec<HourUsage> = groups.map(usage_of_group).collect();
        if self.args.has_page() {
            let workloads = WorkloadUses::of_hour(history, usage, |item| grouping.includes(item));
            self.totals.workloads.add(workloads);
        }
        self.totals.add_hour(usages, history);
        self.capacity
            .add(history, nodes, |node| grouping.node_values(node, catalog));
        self.jobs.add(history, |allocation| {
            grouping
                .includes(allocation)
                .then(|| grouping.values(allocation, catalog))
        });
    }

    fn finish(mut self) -> ReportTotals {
        // A job can span several hours, so its times are complete only after the last hour.
        for (group, sum) in self.jobs.sums() {
            self.totals.groups.entry(group).or_default().jobs = sum;
        }
        let has_all_pods = self.grouping.has_all_pods();
        self.totals.capacity = has_all_pods.then(|| self.capacity.finish());
        if let Some(capacity) = &self.totals.capacity
            && self.grouping.has_nodes()
        {
            // A group of nodes has a row even if no pod held its GPUs.
            for group in capacity.keys() {
                self.totals.groups.entry(group.clone()).or_default();
            }
        }
        self.totals
    }
}

/// Reads the hours concurrently and adds up their groups. With `user`, includes only this user's
/// jobs.
pub(super) async fn gather(
    args: &Report,
    cluster_history: &ClusterHistory<'_>,
    pieces: Vec<(UnixSeconds, UnixSeconds)>,
    grouping: &Grouping<'_>,
    context: &Context,
) -> Result<ReportTotals, Error> {
    let needs_names = !grouping.has_all_pods()
        || args.has_page()
        || args.prices.is_some()
        || args.by.iter().any(GroupBy::has_labels);
    let scope = HistoryScope {
        power: true,
        names: needs_names,
        node_states: grouping.has_all_pods(),
        ..HistoryScope::default()
    };
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let read_hour = async |(from, to): (UnixSeconds, UnixSeconds)| {
        let hour = cluster_history.read_hour(from, to, scope);
        let hour = try_join(hour, cluster_history.servers(from, to)).await?;
        bar.inc(1);
        Ok::<_, Error>(hour)
    };
    let mut gathering = Gathering {
        args,
        grouping,
        catalog: cluster_history.catalog.clone(),
        totals: ReportTotals::default(),
        jobs: JobTimes::new(args.checkpoint.map_or(0.0, |span| span.as_secs_f64())),
        capacity: CapacityTracker::default(),
    };
    let mut results = OrderedConcurrent::new(pieces.into_iter().map(read_hour), MAX_CONCURRENT);
    while let Some(result) = results.next().await {
        let (hour, servers) = result?;
        gathering.add(&hour, &servers);
    }
    drop(results);
    bar.finish_and_clear();
    Ok(gathering.finish())
}
