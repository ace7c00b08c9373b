//! `gpuctl get queues`: lists the queues of Kueue and Volcano, or who was preempted for whom.

use std::cmp::Reverse;
use std::process::ExitCode;

use futures::future::join;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::queues::get::{GetQueues, QueueSortKey};
use crate::context::Context;
use crate::observe::list::{self, Listing, Round};
use crate::observe::live::OF_JOBS;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::queues::rows;
use gpuctl_cluster::Wanted;
use gpuctl_core::error::Error;
use gpuctl_core::model::{GpuCount, Percent};
use gpuctl_view::queues::list as queues;
use gpuctl_view::queues::list::QueueRow;
use gpuctl_view::queues::preemptions;
use gpuctl_view::queues::preemptions::PreemptionCoverage;

pub(crate) async fn run(args: &GetQueues, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    if args.preemptions {
        return preempted(args, context).await;
    }
    let connection = context.connect().await?;
    let served = super::served(&connection).await?;
    let named = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    let cells = OptionalMetrics::new(context, &connection);
    list::run(&options, context, async |round: Round<'_>| {
        let (found, moment) = join(
            round.ask(|| connection.queues(&served, named)),
            cells.now(&OF_JOBS),
        )
        .await;
        let found = match found {
            Err(failure) if failure.is_forbidden() && named.is_none() => {
                if round.first {
                    let home = &connection.namespace;
                    context.terminal.lack(&format!(
                        "you may not list queues of all namespaces; only `{home}` is shown"
                    ));
                }
                connection
                    .queues(&served, Some(&connection.namespace))
                    .await
            }
            other => other,
        };
        let (found, unseen) = found?;
        for system in unseen.iter().filter(|_| round.first) {
            context
                .terminal
                .lack(&format!("you may not list queues of {}", system.name()));
        }
        let mut rows = rows(&connection, named, found, moment?.as_ref()).await?;
        sort(&mut rows, args.list.sort_by);
        let total = rows.len();
        let rows = options.page.of(rows);
        let table =
            |format, headers| queues::table(&rows, format, headers, context.terminal.look());
        let names = rows.iter().map(|row| queues::name(&row.queue)).collect();
        let listing = Listing::new(&options, &queues::list(&rows, total), "items", names, table);
        let waits = rows.iter().find(|row| row.queue.waiting > Some(0));
        let hint = waits.map(|row| {
            format!(
                "who waits and why: gpuctl describe queue {}",
                queues::name(&row.queue)
            )
        });
        Ok(listing
            .none("no queues found")
            .hints(hint.into_iter().collect()))
    })
    .await
}

async fn preempted(args: &GetQueues, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    let connection = context.connect().await?;
    let named = connection
        .namespace_is_explicit
        .then(|| connection.namespace.clone());
    list::run(&options, context, async |round: Round<'_>| {
        let wanted = Wanted { namespace: named.clone(), ..Wanted::default() };
        let selection = round.ask(|| connection.jobs(&wanted)).await?;
        let namespace = named.as_deref().or(selection.narrowed_to.as_deref());
        if let Some(home) = selection.narrowed_to.as_ref().filter(|_| round.first) {
            context.terminal.lack(&format!("you may not list jobs of all namespaces; only `{home}` is shown"));
        }
        let found = connection.preemptions(namespace, &selection.jobs).await?;
        for what in found.unreadable.iter().filter(|_| round.first) {
            context.terminal.lack(&format!("you may not list {what}: preemptions that they tell of are missing"));
        }
        let coverage = PreemptionCoverage { workloads: found.workloads, events_since: found.events_since };
        let total = found.found.len();
        let rows = options.page.of(found.found);
        let table = |format, headers| preemptions::table(&rows, format, headers, context.terminal.look(), context.now());
        let document = preemptions::list(&rows, total, coverage);
        let listing = Listing::new(&options, &document, "items", preemptions::names(&rows), table);
        Ok(listing
            .none("no preemption is told of: Kueue keeps the last of each job, the scheduler's events are kept for an hour"))
    })
    .await
}

fn sort(rows: &mut [QueueRow], key: Option<QueueSortKey>) {
    match key {
        None => {}
        Some(QueueSortKey::Name) => rows.sort_by(|a, b| a.queue.name.cmp(&b.queue.name)),
        Some(QueueSortKey::Used) => rows.sort_by_key(|row| Reverse(row.queue.used)),
        Some(QueueSortKey::Waiting) => rows.sort_by_key(|row| Reverse(row.queue.waiting)),
        Some(QueueSortKey::Utilization) => rows.sort_by(|a, b| {
            let borrows = |row: &QueueRow| row.queue.borrowed > Some(GpuCount::ZERO);
            let busy = |row: &QueueRow| {
                row.figures
                    .and_then(|figures| figures.utilization)
                    .map_or(f64::INFINITY, |Percent(value)| value)
            };
            borrows(b)
                .cmp(&borrows(a))
                .then(busy(a).total_cmp(&busy(b)))
        }),
    }
}
