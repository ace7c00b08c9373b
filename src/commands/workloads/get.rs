//! `gpuctl get workloads`: lists all workloads that request GPUs.

use std::cmp::Ordering;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::WORKLOADS_PAGE_SIZE;
use crate::cli::workloads::get::{GetWorkloads, WorkloadSortKey};
use crate::context::Context;
use crate::lookup;
use crate::observe::contexts::read_all;
use crate::observe::list::{self, ListOptions, Refresh};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_INTERVAL;
use crate::observe::workloads::{self, CachedObjects, WorkloadQuery};
use gpuctl_cluster::{Connection, OtherPods};
use gpuctl_core::error::Error;
use gpuctl_core::model::Workload;
use gpuctl_core::model::values::natural;
use gpuctl_view::Format;
use gpuctl_view::format::row_contexts::RowContexts;
use gpuctl_view::workloads::list as view;

pub(crate) async fn run(args: &GetWorkloads, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(WORKLOADS_PAGE_SIZE);
    context.terminal.set_format(options.format);
    if args.all_contexts {
        return all_contexts(args, &options, context).await;
    }
    let connection = context.connect().await?;
    let (cache, metrics) = (
        CachedObjects::new(options.watch),
        OptionalMetrics::new(context, &connection),
    );
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    list::run_after(&options, context, pause, async |refresh: Refresh<'_>| {
        let query = query(&connection);
        let snapshot =
            workloads::read(context, &connection, query, &metrics, &cache, &refresh).await?;
        let selected = select_workloads(args, &snapshot.workloads);
        let rows = selected.map(|workload| ListedWorkload {
            context: None,
            workload,
        });
        let rows = rows.collect();
        Ok(listing(rows, args.list.sort_by, (), &options, context))
    })
    .await
}

/// Lists the workloads of all contexts of the kubeconfig.
async fn all_contexts(
    args: &GetWorkloads,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    let read = async |own: &Context| {
        let connection = own.connect().await?;
        let (cache, metrics) = (
            CachedObjects::new(false),
            OptionalMetrics::new(own, &connection),
        );
        let (query, once) = (query(&connection), Refresh::once());
        let snapshot = workloads::read(own, &connection, query, &metrics, &cache, &once).await?;
        Ok(snapshot.workloads)
    };
    list::run(options, context, async |_: Refresh<'_>| {
        let parts = read_all(context, read).await?;
        let rows = parts.iter().flat_map(|(name, workloads)| {
            select_workloads(args, workloads).map(|workload| ListedWorkload {
                context: Some(name),
                workload,
            })
        });
        let rows = rows.collect();
        Ok(listing(rows, args.list.sort_by, (), options, context))
    })
    .await
}

fn query(connection: &Connection) -> WorkloadQuery<'_> {
    WorkloadQuery {
        namespace: lookup::explicit_namespace(connection),
        quantities: &[],
        others: OtherPods::Summed,
    }
}

fn select_workloads<'w>(
    args: &GetWorkloads,
    workloads: &'w [Workload],
) -> impl Iterator<Item = &'w Workload> {
    let is_selected = |workload: &&Workload| {
        let top = &workload.top;
        args.name
            .as_ref()
            .is_none_or(|part| top.name.contains(part.as_str()))
            && args
                .kind
                .as_ref()
                .is_none_or(|kind| top.kind.eq_ignore_ascii_case(kind))
            && args
                .field_selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&top.namespace, &top.name))
            && args
                .status
                .as_ref()
                .is_none_or(|status| workload.state.word().eq_ignore_ascii_case(status))
    };
    workloads.iter().filter(is_selected)
}

/// A workload, with the context that it was read from if the list has several.
struct ListedWorkload<'w> {
    context: Option<&'w str>,
    workload: &'w Workload,
}

/// Separates workloads from their contexts.
fn parts<'w>(page: &[ListedWorkload<'w>]) -> (Vec<&'w str>, Vec<&'w Workload>) {
    let contexts = page.iter().filter_map(|row| row.context).collect();
    (contexts, page.iter().map(|row| row.workload).collect())
}

impl ListRow for ListedWorkload<'_> {
    const ROWS: &'static str = "data";
    const NONE: &'static str = "no workloads found";
    type Key = WorkloadSortKey;
    type Facts = ();

    fn sort(rows: &mut [Self], key: Option<WorkloadSortKey>) {
        let compare = |a: &Self, b: &Self| {
            let (a, b) = (a.workload, b.workload);
            match key {
                None => Ordering::Equal,
                Some(WorkloadSortKey::Namespace) => {
                    natural::compare(&a.top.namespace, &b.top.namespace)
                }
                Some(WorkloadSortKey::Name) => natural::compare(&a.top.name, &b.top.name),
                Some(WorkloadSortKey::Status) => a.state.word().cmp(b.state.word()),
                Some(WorkloadSortKey::Gpu) => b.requested.cmp(&a.requested),
                Some(WorkloadSortKey::Start) => b.started_at().cmp(&a.started_at()),
                // Newest end first. Running workloads will end later, so they precede those that
                // have ended.
                Some(WorkloadSortKey::End) => a
                    .has_ended()
                    .cmp(&b.has_ended())
                    .then_with(|| b.ended_at().cmp(&a.ended_at())),
            }
        };
        rows.sort_by(compare);
    }

    fn names(page: &[Self]) -> Vec<String> {
        let (contexts, workloads) = parts(page);
        RowContexts::new(&contexts).qualify(view::names(&workloads))
    }

    fn document(page: &[Self], total: usize, (): ()) -> impl Serialize {
        let (contexts, workloads) = parts(page);
        view::list(&workloads, RowContexts::new(&contexts), total)
    }

    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String {
        let (look, now) = (context.terminal.style(), context.now());
        let (contexts, workloads) = parts(page);
        let contexts = RowContexts::new(&contexts);
        view::table(&workloads, contexts, format, headers, look, now)
    }
}
