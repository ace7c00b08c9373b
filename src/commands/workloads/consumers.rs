//! `gpuctl get consumers`: lists workloads that hold or wait for GPUs, largest first.

use std::cmp::Reverse;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::WORKLOADS_PAGE_SIZE;
use crate::cli::workloads::consumers::{ConsumerSortKey, GetConsumers};
use crate::context::Context;
use crate::lookup;
use crate::observe::list::{self, Refresh};
use crate::observe::live::JOB_QUANTITIES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_INTERVAL;
use crate::observe::workloads::{self, CachedObjects, WorkloadQuery};
use gpuctl_cluster::OtherPods;
use gpuctl_core::error::Error;
use gpuctl_core::model::Percent;
use gpuctl_core::model::facts::workload::QUEUED;
use gpuctl_core::model::values::natural;
use gpuctl_view::Format;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::workloads::consumers::{ConsumerRow, consumer_table, consumers};
use gpuctl_view::workloads::list::names;

pub(crate) async fn run(args: &GetConsumers, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(WORKLOADS_PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let (cache, metrics) = (
        CachedObjects::new(options.watch),
        OptionalMetrics::new(context, &connection).with_exporters(options.watch),
    );
    let query = WorkloadQuery {
        namespace: lookup::explicit_namespace(&connection),
        quantities: &JOB_QUANTITIES,
        others: OtherPods::Summed,
    };
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(&options, context, pause, async |refresh: Refresh<'_>| {
        let snapshot =
            workloads::read(context, &connection, query, &metrics, &cache, &refresh).await?;
        let rows: Vec<ConsumerRow<'_>> = snapshot
            .workloads
            .iter()
            .filter(|workload| {
                !workload.has_ended() && workload.top.resting.is_none_or(|reason| reason == QUEUED)
            })
            .map(|workload| ConsumerRow {
                workload,
                figures: snapshot.figures(workload),
            })
            .collect();
        let coverage = snapshot.readings.as_ref().map(Coverage::from);
        Ok(listing(
            rows,
            args.list.sort_by,
            coverage,
            &options,
            context,
        ))
    })
    .await
}

impl ListRow for ConsumerRow<'_> {
    const ROWS: &'static str = "data";
    const NONE: &'static str = "no workload requests GPUs";
    type Key = ConsumerSortKey;
    type Facts = Option<Coverage>;

    fn sort(rows: &mut [Self], key: Option<ConsumerSortKey>) {
        match key {
            None | Some(ConsumerSortKey::Requested) => {
                rows.sort_by_key(|row| Reverse(row.workload.requested));
            }
            Some(ConsumerSortKey::Name) => {
                rows.sort_by(|a, b| natural::compare(&a.workload.top.name, &b.workload.top.name));
            }
            Some(ConsumerSortKey::Namespace) => {}
            Some(ConsumerSortKey::Held) => {
                rows.sort_by_key(|row| Reverse(row.workload.gpus_held()));
            }
            Some(ConsumerSortKey::Utilization) => rows.sort_by(|a, b| {
                // Unknown utilization is last.
                let key = |row: &ConsumerRow<'_>| {
                    row.figures
                        .and_then(|figures| figures.utilization)
                        .map_or(f64::INFINITY, |Percent(value)| value)
                };
                key(a).total_cmp(&key(b))
            }),
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        names(&page.iter().map(|row| row.workload).collect::<Vec<_>>())
    }

    fn document(page: &[Self], total: usize, coverage: Option<Coverage>) -> impl Serialize {
        consumers(page, total, coverage)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        consumer_table(page, format, headers, context.terminal.style())
    }
}
