//! `gpuctl report`: sums held, used and wasted GPU-hours by namespace, team, user, pool or label,
//! and the capacity by GPU type, node, pool or cluster.

mod costs;
mod delivery;
mod gather;
mod grouping;
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::cli::history::report::GroupBy;
use crate::cli::history::report::Report;
use crate::cli::history::report::ReportFormat;
use crate::cli::history::report::ReportSortKey;
use crate::context::Context;
use crate::observe::history::ClusterHistory;
use crate::observe::history::clusters;
use crate::observe::history::pieces;
use crate::observe::hourly::LABEL_NOT_EXPORTED;
use crate::observe::metrics;
use crate::observe::past_namespace;
use crate::observe::times;
use crate::selection::own_name;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::Series;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::natural::Natural;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::node_state;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::capacity_hours::CapacityHours;
use gpuctl_core::stats::history::costs as hour_costs;
use gpuctl_core::stats::history::serving_hours;
use gpuctl_view::Format;
use gpuctl_view::document;
use gpuctl_view::format::text::name_lines;
use gpuctl_view::history::gap_note::gap_note;
use gpuctl_view::history::report as view;
use gpuctl_view::history::report::GpuHourReport;
use gpuctl_view::history::report::Group;
use gpuctl_view::history::report_capacity::capacity_note;
use gpuctl_view::history::report_document::ReportDocument;
use gpuctl_view::history::report_html;
use gpuctl_view::history::report_page::ReportPage;
use gpuctl_view::history::report_table;

use costs::Costs;
use delivery::Delivery;
use gather::GroupTotals;
use gather::ReportTotals;
use gather::gather;
use gpuctl_core::stats::history::job_time::GroupValues;
use grouping::Grouping;
use page::ReportWindow;

/// Length of the range of one query, in seconds.
pub(crate) const HOUR: i64 = 3600;

pub(crate) async fn run(args: &Report, context: &Context) -> Result<ExitCode, Error> {
    let format = match args.output {
        ReportFormat::Table | ReportFormat::Markdown | ReportFormat::Html => Format::Table,
        ReportFormat::Json => Format::Json,
        ReportFormat::Yaml => Format::Yaml,
        ReportFormat::Name => Format::Name,
        ReportFormat::Csv => Format::Csv,
    };
    context.terminal.set_format(format);
    if args.explain {
        context.terminal.print(&explained())?;
        return Ok(ExitCode::SUCCESS);
    }
    let costs = Costs::read(args)?;
    let delivery = Delivery::plan(args, context)?;
    let now = context.now();
    let (start, end) = times::past(Some(&args.start), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let history = ClusterHistory::open(cluster, context, &connection, start).await?;
    let user = match args.mine {
        true => Some(own_name(&connection).await?),
        false => None,
    };
    let cluster = page::cluster_name(&history, context)?;
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
        hours: totals.hours,
        without_data: totals.without_data,
    };
    let needs_facts = args.has_page() || delivery.is_some();
    let facts = match needs_facts {
        true => {
            let workloads = std::mem::take(&mut totals.workloads);
            let name = cluster.clone();
            Some(page::facts(args, window, workloads, &costs, name, context).await?)
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
    let groups = rows(args, totals.groups, capacity.as_ref(), &costs, &quotas);
    groups.iter().for_each(|group| total.add(group));
    let dimensions = args.by.iter().map(GroupBy::name).collect::<Vec<_>>();
    let report = GpuHourReport {
        by: &dimensions.join(","),
        from: start.timestamp(),
        to: end.timestamp(),
        currency: costs.prices.map(|prices| prices.currency),
        groups,
        total,
        checkpoint: args.checkpoint.map(|span| span.as_secs_f64()),
        budgeted: costs.budget.is_some(),
        of_jobs: args.ettr,
        over_time: totals.over_time,
    };
    let text = text(args, &report, facts.as_ref(), format, context);
    match delivery.zip(facts) {
        Some((delivery, facts)) => delivery.deliver(&report, &facts, text, context).await?,
        None => context.terminal.print(&text)?,
    }
    print_notes(args, &report, context);
    Ok(ExitCode::SUCCESS)
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
    let ReportTotals {
        hours,
        without_data,
        ..
    } = totals;
    if *without_data > 0 {
        context.terminal.warn(&format!(
            "{without_data} of {hours} hours have no kube-state-metrics data"
        ));
    }
    if let Some(message) = gap_note(&totals.account(), totals.unobserved, totals.length) {
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
    match args.sort_by {
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
    rows
}

/// Renders the report in the requested format.
fn text(
    args: &Report,
    report: &GpuHourReport,
    facts: Option<&ReportPage>,
    format: Format,
    context: &Context,
) -> String {
    if let Some(text) = document(format, &ReportDocument::from(report)) {
        return text;
    }
    match (args.output, facts) {
        (ReportFormat::Markdown, _) => report_table::markdown(report),
        (ReportFormat::Html, Some(facts)) => report_html::page(report, facts),
        (ReportFormat::Name, _) => name_lines(&view::names(report)),
        _ => report_table::table(report, format, !args.no_headers, context.terminal.style()),
    }
}

fn print_notes(args: &Report, report: &GpuHourReport, context: &Context) {
    if matches!(args.output, ReportFormat::Table) && !report.groups.is_empty() {
        context.terminal.note(&report_table::units(report));
    }
    if matches!(args.output, ReportFormat::Table)
        && !args.ettr
        && let Some(note) = capacity_note(report)
    {
        context.terminal.note(&note);
    }
    if report.groups.is_empty() {
        let whose = if args.mine {
            "; --mine finds only pods whose label gpuctl/user is in kube-state-metrics \
             (--metric-labels-allowlist=pods=[*])"
        } else {
            ""
        };
        let note = format!("no GPU was requested in this time{whose}");
        context.terminal.note(&note);
    }
    if args.ettr && args.checkpoint.is_none() {
        context.terminal.note(
            "work lost in interruptions is not counted without --checkpoint, the time between \
             two checkpoints",
        );
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

/// Lists the queries behind the columns, for one hour.
fn explained() -> String {
    let hour = HOUR;
    let columns = [
        ("held, waited", kube_state::requests(hour)),
        (
            "held, waited",
            kube_state::pod_facts(kube_state::PodQuery::Phases, &["POD"], "pod", hour),
        ),
        ("parts, gpu-type, pool", kube_state::node_labels(hour)),
        ("capacity", kube_state::capacity(hour)),
        ("cordoned, lost", node_state::worst(&["NODE"], "node", hour)),
        ("parts", query::claimed(hour)),
        ("quota", kube_state::quotas()),
        (
            "used, wasted, unknown",
            query::samples(&[Quantity::Utilization], hour),
        ),
        ("tokens, idle servers", serving_hours::query(hour)),
        ("energy", query::samples(&[Quantity::Power], hour)),
    ];
    columns
        .iter()
        .map(|(column, query)| format!("# {column}: at the end of every hour\n{query}\n"))
        .collect()
}
