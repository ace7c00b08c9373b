//! `gpuctl report`: sums held, used and wasted GPU-hours by namespace, team, user, pool or label.

mod costs;
mod delivery;
mod gather;
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
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::serving_hours;
use gpuctl_view::Format;
use gpuctl_view::document;
use gpuctl_view::format::text::name_lines;
use gpuctl_view::history::gap_note::gap_note;
use gpuctl_view::history::report as view;
use gpuctl_view::history::report::GpuHourReport;
use gpuctl_view::history::report::Group;
use gpuctl_view::history::report_document::ReportDocument;
use gpuctl_view::history::report_html;
use gpuctl_view::history::report_page::ReportPage;

use costs::Costs;
use delivery::Delivery;
use gather::GroupTotals;
use gather::ReportTotals;
use gather::gather;
use gpuctl_core::stats::history::job_time::GroupValues;
use page::ReportWindow;

impl GroupBy {
    fn name(&self) -> &str {
        match self {
            Self::Namespace => "namespace",
            Self::Label(text, _) | Self::Annotation(text, _) => text,
        }
    }
}

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
    let mut totals = gather(args, &history, pieces(start, end), user.as_deref(), context).await?;
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
    let window = ReportWindow {
        start,
        end,
        user: user.as_deref(),
        hours: totals.hours,
        without_data: totals.without_data,
    };
    let needs_facts = args.has_page() || delivery.is_some();
    let facts = match needs_facts {
        true => {
            let workloads = std::mem::take(&mut totals.workloads);
            Some(page::facts(args, window, workloads, &costs, &history.cluster, context).await?)
        }
        false => None,
    };
    let groups = rows(args, totals.groups, &costs, &quotas);
    let mut total = Group::default();
    groups.iter().for_each(|group| total.add(group));
    total.cost = costs.of_gpu_hours(&total.account);
    total.allowance = costs.budget.as_ref().and_then(|budget| budget.total);
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
    if !args.by.contains(&GroupBy::Namespace)
        && !groups.is_empty()
        && groups.keys().all(|keys| keys.iter().all(Option::is_none))
    {
        context.terminal.warn(LABEL_NOT_EXPORTED);
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
    let mut sum = GpuHours::default();
    let accounts = totals.groups.values().map(|group| group.account.clone());
    accounts.for_each(|account| sum.add(account));
    if let Some(message) = gap_note(&sum, totals.unobserved, totals.length) {
        context.terminal.warn(&message);
    }
}

/// Builds the report's rows in order. A group with a budget has a row even without usage.
fn rows(
    args: &Report,
    mut groups: BTreeMap<GroupValues, GroupTotals>,
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
            cost: costs.of_gpu_hours(&totals.account),
            allowance: costs
                .budget
                .as_ref()
                .and_then(|budget| budget.for_group(name.as_deref())),
            keys: dimension_names().zip(values).collect(),
            name,
            account: totals.account,
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
        (ReportFormat::Markdown, _) => view::markdown(report),
        (ReportFormat::Html, Some(facts)) => report_html::page(report, facts),
        (ReportFormat::Name, _) => name_lines(&view::names(report)),
        _ => view::table(report, format, !args.no_headers, context.terminal.style()),
    }
}

fn print_notes(args: &Report, report: &GpuHourReport, context: &Context) {
    if matches!(args.output, ReportFormat::Table) && !report.groups.is_empty() {
        context.terminal.note(view::units(report));
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
        ("parts", kube_state::node_labels(hour)),
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
