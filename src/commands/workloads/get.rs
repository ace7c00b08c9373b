//! `gpuctl get workloads`: lists all workloads that request GPUs.

use std::cmp::Reverse;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::WORKLOADS_PAGE_SIZE;
use crate::cli::workloads::get::{GetWorkloads, WorkloadSortKey};
use crate::context::Context;
use crate::lookup;
use crate::observe::list::{self, Refresh};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_INTERVAL;
use crate::observe::workloads::{self, CachedObjects, WorkloadQuery};
use gpuctl_cluster::OtherPods;
use gpuctl_core::error::Error;
use gpuctl_core::model::Workload;
use gpuctl_core::model::values::natural;
use gpuctl_view::Format;
use gpuctl_view::workloads::list as view;

pub(crate) async fn run(args: &GetWorkloads, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(WORKLOADS_PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let (cache, metrics) = (
        CachedObjects::new(options.watch),
        OptionalMetrics::new(context, &connection),
    );
    let query = WorkloadQuery {
        namespace: lookup::explicit_namespace(&connection),
        quantities: &[],
        others: OtherPods::Summed,
    };
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(&options, context, pause, async |refresh: Refresh<'_>| {
        let snapshot =
            workloads::read(context, &connection, query, &metrics, &cache, &refresh).await?;
        let is_selected = |workload: &&Workload| {
            args.name
                .as_ref()
                .is_none_or(|part| workload.top.name.contains(part.as_str()))
                && args
                    .kind
                    .as_ref()
                    .is_none_or(|kind| workload.top.kind.eq_ignore_ascii_case(kind))
                && args.field_selector.as_ref().is_none_or(|selector| {
                    selector.matches(&workload.top.namespace, &workload.top.name)
                })
                && args
                    .status
                    .as_ref()
                    .is_none_or(|status| workload.state.word().eq_ignore_ascii_case(status))
        };
        let selected: Vec<&Workload> = snapshot.workloads.iter().filter(is_selected).collect();
        Ok(listing(selected, args.list.sort_by, (), &options, context))
    })
    .await
}

impl ListRow for &Workload {
    const ROWS: &'static str = "data";
    const NONE: &'static str = "no workloads found";
    type Key = WorkloadSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<WorkloadSortKey>) {
        match key {
            None | Some(WorkloadSortKey::Namespace) => {}
            Some(WorkloadSortKey::Name) => {
                rows.sort_by(|a, b| natural::compare(&a.top.name, &b.top.name));
            }
            Some(WorkloadSortKey::Status) => rows.sort_by_key(|workload| workload.state.word()),
            Some(WorkloadSortKey::Gpu) => rows.sort_by_key(|workload| Reverse(workload.requested)),
            Some(WorkloadSortKey::Start) => {
                rows.sort_by_key(|workload| Reverse(workload.started_at()));
            }
            // Newest end first. Running workloads will end later, so they precede those that have
            // ended.
            Some(WorkloadSortKey::End) => {
                rows.sort_by_key(|workload| (workload.has_ended(), Reverse(workload.ended_at())));
            }
        }
    }

    fn names(page: &[Self]) -> Vec<String> {
        view::names(page)
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        view::list(page, total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        let (look, now) = (context.terminal.style(), context.now());
        view::table(page, format, headers, look, now)
    }
}
