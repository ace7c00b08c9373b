//! `gpuctl get queues`: lists queues of Kueue and Volcano, or their preemptions.

use std::cmp::Reverse;
use std::process::ExitCode;

use futures::future::join;
use serde::Serialize;

use crate::cli::args::list::PAGE_SIZE;
use crate::cli::queues::get::{GetQueues, QueueSortKey};
use crate::context::Context;
use crate::lookup;
use crate::observe::list::{self, Refresh};
use crate::observe::live::JOB_QUANTITIES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::queues::rows;
use crate::observe::rows::{ListRow, listing, read_namespaces};
use gpuctl_cluster::JobFilter;
use gpuctl_core::error::Error;
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{GpuCount, Percent, Preemption};
use gpuctl_view::Format;
use gpuctl_view::queues::list as queues;
use gpuctl_view::queues::list::QueueRow;
use gpuctl_view::queues::preemptions;
use gpuctl_view::queues::preemptions::PreemptionCoverage;

pub(crate) async fn run(args: &GetQueues, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    context.terminal.set_format(options.format);
    if args.preemptions {
        return list_preemptions(args, context).await;
    }
    let connection = context.connect().await?;
    let served = connection.queues().served().await?;
    let explicit_namespace = lookup::explicit_namespace(&connection);
    let metrics = OptionalMetrics::new(context, &connection);
    list::run(&options, context, async |refresh: Refresh<'_>| {
        let read =
            async |namespace: Option<&str>| connection.queues().list(&served, namespace).await;
        let (queues, reading) = join(
            read_namespaces("queues", &connection, &refresh, context, read),
            metrics.now(&JOB_QUANTITIES),
        )
        .await;
        let (mut queues, unseen) = queues?;
        if !args.show_labels {
            queues.iter_mut().for_each(|queue| queue.labels = None);
        }
        let is_empty = refresh.first && queues.is_empty();
        lookup::check_empty(&connection, explicit_namespace, is_empty).await?;
        for system in unseen.iter().filter(|_| refresh.first) {
            context.terminal.warn_missing_permission(&format!(
                "you are not allowed to list {} queues",
                system.name()
            ));
        }
        let rows = rows(&connection, explicit_namespace, queues, reading?.as_ref()).await?;
        let listing = listing(rows, args.list.sort_by, (), &options, context);
        Ok(match served.systems().next() {
            Some(_) => listing,
            None => listing.none(super::NOT_SERVED),
        })
    })
    .await
}

async fn list_preemptions(args: &GetQueues, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(PAGE_SIZE);
    let connection = context.connect().await?;
    let explicit_namespace = lookup::explicit_namespace(&connection);
    list::run(&options, context, async |refresh: Refresh<'_>| {
        let selector = JobFilter {
            namespace: explicit_namespace.map(ToOwned::to_owned),
            ..JobFilter::default()
        };
        let selection = refresh.ask(|| connection.jobs().list(&selector)).await?;
        let is_empty = refresh.first && selection.jobs.is_empty();
        lookup::check_empty(&connection, explicit_namespace, is_empty).await?;
        let namespace = explicit_namespace.or(selection.narrowed_to.as_deref());
        if let Some(shown_namespace) = selection.narrowed_to.as_ref().filter(|_| refresh.first) {
            context.terminal.warn_missing_permission(&format!(
                "you are not allowed to list jobs in all namespaces; only `{shown_namespace}` is shown"
            ));
        }
        let preemptions = connection
            .queues()
            .preemptions(namespace, &selection.jobs)
            .await?;
        for resource in preemptions.unreadable.iter().filter(|_| refresh.first) {
            context.terminal.warn_missing_permission(&format!(
                "you are not allowed to list {resource}: preemptions recorded there are missing"
            ));
        }
        let coverage = PreemptionCoverage {
            workloads: preemptions.workloads,
            events_since: preemptions.events_since,
        };
        Ok(listing(
            preemptions.items,
            None,
            coverage,
            &options,
            context,
        ))
    })
    .await
}

impl ListRow for QueueRow {
    const NONE: &'static str = "no queues found";
    type Key = QueueSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<QueueSortKey>) {
        match key {
            None => {}
            Some(QueueSortKey::Name) => {
                rows.sort_by(|a, b| natural::compare(&a.queue.name, &b.queue.name));
            }
            Some(QueueSortKey::Used) => rows.sort_by_key(|row| Reverse(row.queue.used)),
            Some(QueueSortKey::Waiting) => rows.sort_by_key(|row| Reverse(row.queue.waiting)),
            Some(QueueSortKey::Utilization) => rows.sort_by(|a, b| {
                // Sort queues with borrowed GPUs first, by increasing utilization.
                let borrows = |row: &QueueRow| row.queue.borrowed > Some(GpuCount::ZERO);
                // Unknown utilization is last.
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

    fn names(page: &[Self]) -> Vec<String> {
        page.iter().map(|row| queues::name(&row.queue)).collect()
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        queues::list(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        queues::table(page, format, headers, context.terminal.style())
    }

    fn hint(page: &[Self], _total: usize) -> Option<String> {
        let row = page.iter().find(|row| row.queue.waiting > Some(0))?;
        let name = queues::name(&row.queue);
        Some(format!("waiting jobs: gpuctl describe queue {name}"))
    }
}

impl ListRow for Preemption {
    const NONE: &'static str = "no preemptions found; Kueue records only the last one per job, and \
        scheduler events expire after an hour";
    type Key = QueueSortKey;
    type Facts = PreemptionCoverage;

    /// Preemptions are always in order of time, newest first.
    fn sort(_rows: &mut [Self], _key: Option<QueueSortKey>) {}

    fn names(page: &[Self]) -> Vec<String> {
        preemptions::names(page)
    }

    fn document(page: &[Self], total: usize, coverage: PreemptionCoverage) -> impl Serialize {
        preemptions::list(page, total, coverage)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        let (look, now) = (context.terminal.style(), context.now());
        preemptions::table(page, format, headers, look, now)
    }
}
