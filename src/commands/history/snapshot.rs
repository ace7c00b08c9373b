//! `gpuctl snapshot`: prints who held which GPUs at one or more times. Needs only
//! kube-state-metrics.

use std::process::ExitCode;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::history::snapshot::{Latest, STEP, SnapshotList, SnapshotSortKey};
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::observe::history::{ClusterHistory, clusters, uids};
use crate::observe::list::{self, Listing, Refresh};
use crate::observe::past_namespace;
use crate::observe::past_queries::HistoryScope;
use crate::observe::times;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_view::history::snapshot as view;
use gpuctl_view::history::snapshot::{Details, PointInTime, Uids};
use gpuctl_view::{Format, document};

/// Length of the range of one query, in seconds.
const HOUR: i64 = 3600;

/// Number of hours to read concurrently.
const MAX_CONCURRENT: usize = 3;
/// Age in seconds up to which the latest snapshot is searched.
const LATEST_SECONDS: i64 = 3600;

pub(crate) async fn latest(args: &Latest, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let now = UnixSeconds::from(context.now());
    let history = ClusterHistory::open(cluster, context, &connection, now - LATEST_SECONDS).await?;
    let scope = HistoryScope {
        names: args.annotation.is_some(),
        ..HistoryScope::default()
    };
    let annotation = args.annotation.as_deref().map(kube_state::label_key);
    let uids = uids(&connection, now).await;
    let details = Details {
        uids: &uids,
        annotation: annotation.as_deref(),
    };
    let mut snapshot = None;
    // A new cluster has no data at the last full step, so also try the current time.
    for time in [UnixSeconds(now.spans_of(STEP) * STEP), now] {
        let (allocations, usage) = history.read(time - STEP, time, scope).await?;
        if allocations.observed_slots() > 0 {
            let namespace = context.access.namespace.as_deref();
            let unseen = namespace.filter(|name| !allocations.has_pods_in(name));
            past_namespace::check(unseen, &history, (time - STEP, time), context).await?;
            let state = PointInTime {
                cluster: &history.cluster,
                time: time.timestamp(),
                ledger: &allocations,
                usage: &usage,
            };
            snapshot = Some(view::snapshot(&state, Some(details), true));
            break;
        }
    }
    crate::observe::metrics::print_warnings(context, &history.prometheus);
    let Some(snapshot) = snapshot else {
        return Err(no_history(&history));
    };
    context.terminal.print(
        &document(format, &snapshot)
            .unwrap_or_else(|| view::text(&snapshot, context.terminal.style())),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the error for a time without data of kube-state-metrics.
fn no_history(history: &ClusterHistory<'_>) -> Error {
    let error = Error::new(
        ErrorName::NoHistory,
        format!(
            "Prometheus at {} has no data about pods",
            history.prometheus.server
        ),
    );
    error.hint(
        "it must scrape kube-state-metrics; `gpuctl get nodes` shows the current state without it",
    )
}

pub(crate) async fn list(args: &SnapshotList, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    list::run(&options, context, async |_: Refresh<'_>| {
        let mut rows = read(args, context).await?;
        match args.list.sort_by {
            None | Some(SnapshotSortKey::Time) => {}
            Some(SnapshotSortKey::Held) => {
                rows.sort_by_key(|row| std::cmp::Reverse(row.allocated()));
            }
        }
        let rows = options.page.select(rows);
        let names = rows.iter().map(view::Snapshot::name).collect();
        let table = |format, headers| view::table(&rows, format, headers, context.terminal.style());
        Ok(Listing::new(&options, &rows, "", names, table))
    })
    .await
}

/// Reads the snapshots of the range in order of time.
async fn read(args: &SnapshotList, context: &Context) -> Result<Vec<view::Snapshot>, Error> {
    let now = context.now();
    let (start, last) = times::past(args.start.as_deref(), args.end.as_deref(), now)?;
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let history = ClusterHistory::open(cluster, context, &connection, start).await?;
    let uids = if args.details {
        uids(&connection, start).await
    } else {
        Uids::new()
    };
    let annotation = args.annotation.as_deref().map(kube_state::label_key);
    let details = args.details.then_some(Details {
        uids: &uids,
        annotation: annotation.as_deref(),
    });
    let times: Vec<UnixSeconds> = (start.spans_of(args.step)..=last.spans_of(args.step))
        .map(|number| UnixSeconds(number * args.step))
        .filter(|time| (start..=last).contains(time))
        .collect();
    // Read the snapshots of an hour together. A snapshot covers the time before it, so the snapshot
    // at the full hour belongs to the previous hour.
    let hour = |time: &UnixSeconds| (*time - 1).spans_of(HOUR);
    let groups: Vec<Vec<UnixSeconds>> = times
        .chunk_by(|a, b| hour(a) == hour(b))
        .map(<[_]>::to_vec)
        .collect();
    let bar = context.terminal.progress(groups.len() as u64, "hours");
    let scope = HistoryScope {
        names: args.annotation.is_some(),
        ..HistoryScope::default()
    };
    let read_group = async |times: Vec<UnixSeconds>| {
        let (first, last) = (times[0] - STEP, times[times.len() - 1]);
        let (allocations, usage) = history.read(first, last, scope).await?;
        bar.inc(1);
        let snapshot = |time: &UnixSeconds| {
            let state = PointInTime {
                cluster: &history.cluster,
                time: time.timestamp(),
                ledger: &allocations,
                usage: &usage,
            };
            view::snapshot(&state, details, false)
        };
        Ok::<_, Error>(times.iter().map(snapshot).collect::<Vec<_>>())
    };
    let snapshots = OrderedConcurrent::new(groups.into_iter().map(read_group), MAX_CONCURRENT)
        .all_or_error()
        .await;
    bar.finish_and_clear();
    crate::observe::metrics::print_warnings(context, &history.prometheus);
    let namespace = context.access.namespace.as_deref();
    past_namespace::check(namespace, &history, (start, last), context).await?;
    Ok(snapshots?.into_iter().flatten().collect())
}
