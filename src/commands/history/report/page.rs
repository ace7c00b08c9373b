//! Reads what the HTML page and messages of a report show beyond its table: the previous window,
//! the largest wasters and the name of the cluster.

use jiff::tz::TimeZone;

use super::costs::Costs;
use super::gather::{ReportTotals, gather};
use super::grouping::Grouping;
use crate::cli::history::report::Report;
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters, pieces};
use crate::observe::metrics;
use crate::terminal::Verbosity;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::history::workload_use::WorkloadUses;
use gpuctl_view::history::report::WindowGaps;
use gpuctl_view::history::report_page::{MOST_WASTERS, PreviousWindow, ReportPage};

/// What the page needs to know about the report's own window.
pub(super) struct ReportWindow<'a> {
    pub start: UnixSeconds,
    pub end: UnixSeconds,
    pub grouping: &'a Grouping<'a>,
    pub gaps: WindowGaps,
}

/// Returns the configured name of the cluster, or else the name of its context. The configured name
/// does not apply to all contexts.
pub(super) fn cluster_name(
    args: &Report,
    history: &ClusterHistory<'_>,
    context: &Context,
) -> Result<String, Error> {
    let config = context.config()?;
    let configured = config.text("cluster.name").map_err(Error::usage)?;
    let configured = configured.filter(|_| !args.all_contexts);
    Ok(configured.unwrap_or_else(|| history.cluster.clone()))
}

/// Collects the facts. Call it after all warnings about the report's window.
pub(super) async fn facts(
    args: &Report,
    window: ReportWindow<'_>,
    workloads: WorkloadUses,
    costs: &Costs,
    cluster: String,
    context: &Context,
) -> Result<ReportPage, Error> {
    let previous = previous_window(args, &window, costs, context).await;
    Ok(ReportPage {
        cluster,
        zone: TimeZone::system(),
        warnings: context.terminal.warnings(),
        wasters: workloads.largest_wasters(MOST_WASTERS),
        previous,
    })
}

/// Sums the window of the same length before the report's window. An hour without data would make
/// a change look larger or smaller, so both windows must be complete.
async fn previous_window(
    args: &Report,
    window: &ReportWindow<'_>,
    costs: &Costs,
    context: &Context,
) -> PreviousWindow {
    let unknown = |reason: String| PreviousWindow::Unknown { reason };
    if !args.has_page() {
        return unknown("only HTML reports read the previous window".to_owned());
    }
    if context.access.bundle.is_some() {
        return unknown("a bundle contains no other window".to_owned());
    }
    let incomplete = |gaps: WindowGaps, of: &str| {
        let (missing, hours) = (gaps.without_data, gaps.hours);
        unknown(format!(
            "{missing} of {hours} hours of {of} window have no data"
        ))
    };
    if window.gaps.without_data > 0 {
        return incomplete(window.gaps, "this");
    }
    match read_previous(args, window, context).await {
        Err(error) => unknown(format!("the previous window cannot be read: {error}")),
        Ok(totals) if totals.gaps.without_data > 0 => incomplete(totals.gaps, "the previous"),
        Ok(totals) => PreviousWindow::Known {
            total: totals.account(),
            cost: costs.of_all(totals.hours_of_groups()),
            capacity: totals.unheld().map(Box::new),
        },
    }
}

async fn read_previous(
    args: &Report,
    window: &ReportWindow<'_>,
    context: &Context,
) -> Result<ReportTotals, Error> {
    let start = window.start - (window.end - window.start);
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    // The same warnings were printed for the report's own window.
    let verbosity = context.terminal.swap_verbosity(Verbosity::Errors);
    let history = ClusterHistory::open(cluster, context, &connection, start).await;
    context.terminal.swap_verbosity(verbosity);
    let history = history?;
    let hours = pieces(start, window.start);
    let totals = gather(args, &history, hours, window.grouping, context).await?;
    metrics::print_warnings(context, &history.prometheus);
    Ok(totals)
}
