//! Reads the report of one cluster: the groups, their total, and what a page shows beyond them.

use std::collections::BTreeMap;

use super::costs::Costs;
use super::gather::{GroupTotals, ReportTotals, gather};
use super::grouping::Grouping;
use super::page::{self, ReportWindow};
use crate::cli::history::report::{GroupBy, Report, ReportSortKey};
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters, pieces};
use crate::observe::hourly::LABEL_NOT_EXPORTED;
use crate::observe::{metrics, past_namespace};
use crate::selection::own_name;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::values::natural::Natural;
use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::history::capacity_hours::CapacityHours;
use gpuctl_core::stats::history::costs as hour_costs;
use gpuctl_core::stats::history::job_time::GroupValues;
use gpuctl_view::history::gap_note::gap_note;
use gpuctl_view::history::report as view;
use gpuctl_view::history::report::{Group, WindowGaps};
use gpuctl_view::history::report_contexts::ReportPart;

/// What to read from each cluster.
pub(super) struct ReportScope<'a> {
    pub args: &'a Report,
    pub costs: &'a Costs,
    pub start: UnixSeconds,
    pub end: UnixSeconds,
    /// Whether to read what pages and messages show beyond the table.
    pub needs_page: bool,
}

/// Reads the report of one cluster.
pub(super) async fn read(scope: &ReportScope<'_>, context: &Context) -> Result<ReportPart, Error> {
    let ReportScope {
        args,
        costs,
        start,
        end,
        needs_page,
    } = *scope;
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let history = ClusterHistory::open(cluster, context, &connection, start).await?;
    let user = match args.mine {
        true => Some(own_name(&connection).await?),
        false => None,
    };
    let cluster = page::cluster_name(args, &history, context)?;
    let grouping = Grouping::new(args, user.as_deref(), &cluster, context);
    let mut totals = gather(args, &history, pieces(start, end), &grouping, context).await?;
    let unseen = context.access.namespace.as_deref();
    let unseen = unseen.filter(|_| totals.groups.is_empty());
    past_namespace::check(unseen, &history, (start, end), context).await?;
    let by_namespace = args.by == [GroupBy::Namespace];
    // Quotas limit namespaces, so they do not apply to other groups.
    let quotas = if by_namespace {
        quotas(&history, end).await?
    } else {
        BTreeMap::new()
    };
    metrics::print_warnings(context, &history.prometheus);
    warn_of_gaps(args, &totals, context);
    if let Some(warning) = costs.without_price(totals.hours_of_groups()) {
        context.terminal.warn(&warning);
    }
    let window = ReportWindow {
        start,
        end,
        grouping: &grouping,
        gaps: totals.gaps,
    };
    let page = match needs_page {
        true => {
            let workloads = std::mem::take(&mut totals.workloads);
            let name = cluster.clone();
            Some(page::facts(args, window, workloads, costs, name, context).await?)
        }
        false => None,
    };
    let mut total = Group {
        cost: costs.of_all(totals.hours_of_groups()),
        allowance: costs.budget.as_ref().and_then(|budget| budget.total),
        unheld: totals.unheld(),
        ..Group::default()
    };
    let capacity = totals.capacity.filter(|_| grouping.has_nodes());
    let groups = rows(args, totals.groups, capacity.as_ref(), costs, &quotas);
    groups.iter().for_each(|group| total.add(group));
    Ok(ReportPart {
        groups,
        total,
        over_time: totals.over_time,
        gaps: totals.gaps,
        page,
    })
}

/// Warns if the cluster exports no labels, or if hours have no data.
fn warn_of_gaps(args: &Report, totals: &ReportTotals, context: &Context) {
    let groups = &totals.groups;
    let labels = || args.by.iter().enumerate().filter(|(_, by)| by.has_labels());
    let has_value = |index: usize| groups.keys().any(|values| values[index].is_some());
    if !groups.is_empty()
        && !args.by.contains(&GroupBy::Namespace)
        && labels().next().is_some()
        && !labels().any(|(index, _)| has_value(index))
    {
        context.terminal.warn(LABEL_NOT_EXPORTED);
    }
    if args.by.contains(&GroupBy::GpuType) {
        warn_of_unknown_types(args, totals, context);
    }
    let WindowGaps {
        hours,
        without_data,
        length,
        unobserved,
    } = totals.gaps;
    if without_data > 0 {
        context.terminal.warn(&format!(
            "{without_data} of {hours} hours have no kube-state-metrics data"
        ));
    }
    if let Some(message) = gap_note(&totals.account(), unobserved, length) {
        context.terminal.warn(&message);
    }
}

/// Names how much was held on GPUs whose type is unknown.
fn warn_of_unknown_types(args: &Report, totals: &ReportTotals, context: &Context) {
    let index = args.by.iter().position(|by| *by == GroupBy::GpuType);
    let is_unknown = |values: &GroupValues| index.is_some_and(|index| values[index].is_none());
    let unknown = totals
        .groups
        .iter()
        .filter(|(values, _)| is_unknown(values));
    let held: f64 = unknown
        .map(|(_, group)| hour_costs::sum(&group.hours).held)
        .sum();
    if held > 0.0 {
        context.terminal.warn(&format!(
            "the GPU type of {held:.1} held GPU-hours is unknown: no label of their nodes and no \
             exporter names it; kube-state-metrics must export the label \
             (--metric-labels-allowlist=nodes=[nvidia.com/gpu.product])"
        ));
    }
}

/// Builds the report's rows in order. A group with a budget has a row even without usage.
fn rows(
    args: &Report,
    mut groups: BTreeMap<GroupValues, GroupTotals>,
    capacity: Option<&BTreeMap<GroupValues, CapacityHours>>,
    costs: &Costs,
    quotas: &BTreeMap<String, f64>,
) -> Vec<Group> {
    for name in costs
        .budget
        .iter()
        .flat_map(|budget| budget.groups.keys())
        .filter(|_| args.by.len() == 1)
    {
        groups.entry(vec![Some(name.clone())]).or_default();
    }
    let dimension_names = || args.by.iter().map(|dimension| dimension.name().to_owned());
    let row = |(values, totals): (GroupValues, GroupTotals)| {
        let name = view::joined(&values);
        Group {
            context: None,
            quota: name.as_ref().and_then(|name| quotas.get(name)).copied(),
            cost: costs.of_hours(&totals.hours),
            unheld: capacity.map(|capacity| capacity.get(&values).cloned().unwrap_or_default()),
            allowance: costs
                .budget
                .as_ref()
                .and_then(|budget| budget.for_group(name.as_deref())),
            keys: dimension_names().zip(values).collect(),
            name,
            account: hour_costs::sum(&totals.hours),
            jobs: totals.jobs,
            serving: totals.serving,
        }
    };
    let mut rows: Vec<Group> = groups.into_iter().map(row).collect();
    sort(&mut rows, args.sort_by);
    rows
}

/// Sorts groups, by default by name.
pub(super) fn sort(rows: &mut [Group], key: Option<ReportSortKey>) {
    match key {
        None | Some(ReportSortKey::Name) => {
            rows.sort_by(|a, b| {
                let [a, b] = [a, b].map(|row| {
                    row.keys
                        .iter()
                        .map(|(_, value)| value.as_deref().map(Natural))
                });
                a.cmp(b)
            });
        }
        Some(ReportSortKey::Held) => {
            rows.sort_by(|a, b| b.account.held.total_cmp(&a.account.held));
        }
        Some(ReportSortKey::Wasted) => {
            rows.sort_by(|a, b| {
                b.account
                    .wasted()
                    .unwrap_or(-1.0)
                    .total_cmp(&a.account.wasted().unwrap_or(-1.0))
            });
        }
    }
}

/// Reads each namespace's GPU quota at the end of the range.
async fn quotas(
    history: &ClusterHistory<'_>,
    end: UnixSeconds,
) -> Result<BTreeMap<String, f64>, Error> {
    let series = history
        .prometheus
        .query_at(&kube_state::quotas(), end)
        .await?;
    let namespace_quota = |series: &Series| {
        Some((
            kube_state::label(series, "namespace")?.to_owned(),
            series.last()?.value,
        ))
    };
    Ok(series.iter().filter_map(namespace_quota).collect())
}
