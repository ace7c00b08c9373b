//! Implements `get nodes --blame`, which counts the jobs that failed first on each node. Reads the
//! history of pods hour by hour.

use std::process::ExitCode;

use super::history::{ClusterHistory, clusters, pieces};
use super::list::{self, ListOptions, Listing, Refresh};
use super::metrics::print_warnings;
use super::times;
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::stats::history::blame::BlameLedger;
use gpuctl_view::history::blame as view;

/// Number of hours to read concurrently.
const MAX_CONCURRENT: usize = 4;

/// Prints the nodes with the failures between `since` and now.
pub(crate) async fn nodes(
    since: &str,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    let (start, end) = times::past(Some(since), None, context.now())?;
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let history = ClusterHistory::open(cluster, context, &connection, start).await?;
    let pieces = pieces(start, end);
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let mut results = OrderedConcurrent::new(
        pieces.into_iter().map(|(from, to)| history.pods(from, to)),
        MAX_CONCURRENT,
    );
    let (mut ledger, mut hours_without_data, mut hours) = (BlameLedger::default(), 0, 0_u64);
    while let Some(allocations) = results.next().await {
        let allocations = allocations?;
        bar.inc(1);
        hours += 1;
        hours_without_data += u64::from(allocations.observed_slots() == 0);
        ledger.add(&allocations);
    }
    bar.finish_and_clear();
    print_warnings(context, &history.prometheus);
    // Hours without data do not prove that no job failed.
    if hours_without_data == hours {
        let error = Error::new(
            ErrorName::NoHistory,
            format!(
                "Prometheus at {} has no data about pods for that time",
                history.prometheus.server
            ),
        );
        return Err(error.hint("it must have scraped kube-state-metrics at that time"));
    }
    if hours_without_data > 0 {
        context.terminal.warn(&format!(
            "{hours_without_data} of {hours} hours have no kube-state-metrics data and are excluded"
        ));
    }
    let nodes = ledger.nodes();
    list::run(options, context, async |_: Refresh<'_>| {
        let rows = options.page.select(nodes.clone());
        let names = rows.iter().map(|row| row.node.clone()).collect();
        let table = |format, headers| view::table(&rows, format, headers, context.terminal.style());
        let answer = view::BlameList {
            total: nodes.len(),
            items: view::items(&rows),
            from: start.timestamp(),
            to: end.timestamp(),
            hours_without_data,
        };
        Ok(Listing::new(options, &answer, "items", names, table)
            .none("no node held GPUs at that time"))
    })
    .await
}
