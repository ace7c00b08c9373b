//! `gpuctl report`: sums held, used and wasted GPU-hours by namespace, team, user, pool or label,
//! and the capacity by GPU type, node, pool or cluster.

mod costs;
mod delivery;
mod gather;
mod grouping;
mod page;
mod read;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use crate::cli::history::report::GroupBy;
use crate::cli::history::report::Report;
use crate::cli::history::report::ReportFormat;
use crate::context::Context;
use crate::observe::contexts::read_all;
use crate::observe::times;
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::node_state;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::serving_hours;
use gpuctl_view::Format;
use gpuctl_view::document;
use gpuctl_view::format::text::name_lines;
use gpuctl_view::history::report as view;
use gpuctl_view::history::report::GpuHourReport;
use gpuctl_view::history::report_capacity::capacity_note;
use gpuctl_view::history::report_contexts::ReportPart;
use gpuctl_view::history::report_document::ReportDocument;
use gpuctl_view::history::report_html;
use gpuctl_view::history::report_page::ReportPage;
use gpuctl_view::history::report_table;

use costs::Costs;
use delivery::Delivery;
use read::{ReportScope, read, sort};

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
    let scope = ReportScope {
        args,
        costs: &costs,
        start,
        end,
        needs_page: args.has_page() || delivery.is_some(),
    };
    let ReportPart {
        groups,
        total,
        over_time,
        gaps,
        page,
    } = match args.all_contexts {
        true => all_contexts(&scope, context).await?,
        false => read(&scope, context).await?,
    };
    let dimensions = args.by.iter().map(GroupBy::name).collect::<Vec<_>>();
    let mut report = GpuHourReport {
        by: &dimensions.join(","),
        from: start.timestamp(),
        to: end.timestamp(),
        currency: costs.prices.map(|prices| prices.currency),
        groups,
        total,
        checkpoint: args.checkpoint.map(|span| span.as_secs_f64()),
        budgeted: costs.budget.is_some(),
        of_jobs: args.ettr,
        over_time,
        gaps,
    };
    if args.has_page() {
        report.qualify_names();
    }
    let text = text(args, &report, page.as_ref(), format, context);
    match delivery.zip(page) {
        Some((delivery, page)) => {
            report.qualify_names();
            delivery.deliver(&report, &page, text, context).await?;
        }
        None => context.terminal.print(&text)?,
    }
    print_notes(args, &report, context);
    Ok(ExitCode::SUCCESS)
}

/// Reads the reports of all contexts of the kubeconfig, and joins them.
async fn all_contexts(scope: &ReportScope<'_>, context: &Context) -> Result<ReportPart, Error> {
    let parts = read_all(context, async |own| read(scope, own).await).await?;
    let mut joined = ReportPart::joined(parts)
        .ok_or_else(|| Error::usage("the kubeconfig has no contexts to report about"))?;
    if let Some(key) = scope.args.sort_by {
        sort(&mut joined.groups, Some(key));
    }
    if let Some(page) = &mut joined.page {
        page.warnings = context.terminal.warnings();
    }
    Ok(joined)
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
