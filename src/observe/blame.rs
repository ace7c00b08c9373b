//! Answers `get nodes --blame`: reads the history of pods hour by hour and reports the nodes on
//! which jobs failed first.

use std::process::ExitCode;

use super::history::{ClusterHistory, clusters, pieces};
use super::list::{self, ListOptions, Listing, Round};
use super::metrics::tell_warnings;
use super::times;
use crate::concurrent::SideBySide;
use crate::context::Context;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::stats::history::blame::BlameLedger;
use gpuctl_view::history::blame as view;

/// Hours read concurrently.
const AT_ONCE: usize = 4;

/// Prints the nodes with their failures between `since` and now.
pub(crate) async fn nodes(
    since: &str,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    let (start, end) = times::past(Some(since), None, context.now())?;
    let (cluster, access) = clusters(None, false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let past = ClusterHistory::of(cluster, context, &connection, start).await?;
    let pieces = pieces(start, end);
    let bar = context.terminal.progress(pieces.len() as u64, "hours");
    let mut read = SideBySide::new(
        pieces.into_iter().map(|(from, to)| past.pods(from, to)),
        AT_ONCE,
    );
    let (mut ledger, mut without, mut hours) = (BlameLedger::default(), 0, 0_u64);
    while let Some(seen) = read.next().await {
        let seen = seen?;
        bar.inc(1);
        hours += 1;
        without += u64::from(seen.looks() == 0);
        ledger.add(&seen);
    }
    bar.finish_and_clear();
    tell_warnings(context, &past.prometheus);
    // Hours without data must not count as hours without failures.
    if without == hours {
        let error = Error::new(
            ErrorName::NoHistory,
            format!(
                "Prometheus at {} has no data about pods for that time",
                past.prometheus.server
            ),
        );
        return Err(error.hint("it must have scraped kube-state-metrics at that time"));
    }
    if without > 0 {
        context.terminal.warn(&format!(
            "{without} of {hours} hours have no kube-state-metrics data and are excluded"
        ));
    }
    let found = ledger.nodes();
    list::run(options, context, async |_: Round<'_>| {
        let rows = options.page.of(found.clone());
        let names = rows.iter().map(|one| one.node.clone()).collect();
        let table = |format, headers| view::table(&rows, format, headers, context.terminal.style());
        let answer = view::BlameList {
            total: found.len(),
            items: view::items(&rows),
            from: start.timestamp(),
            to: end.timestamp(),
            hours_without_data: without,
        };
        Ok(Listing::new(options, &answer, "items", names, table)
            .none("no node held GPUs at that time"))
    })
    .await
}
