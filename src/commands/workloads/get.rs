//! `gpuctl get workloads`: lists all workloads that request GPUs.

use std::cmp::Reverse;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::args::list::WORKLOADS_PAGE_SIZE;
use crate::cli::workloads::get::{GetWorkloads, WorkloadSortKey};
use crate::context::Context;
use crate::observe::list::{self, Round};
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::rows::{ListRow, listing};
use crate::observe::watch::METRICS_STEP;
use crate::observe::workloads::{self, KeptObjects};
use gpuctl_cluster::OtherPods;
use gpuctl_core::error::Error;
use gpuctl_core::model::Workload;
use gpuctl_view::Format;
use gpuctl_view::workloads::list as view;

pub(crate) async fn run(args: &GetWorkloads, context: &Context) -> Result<ExitCode, Error> {
    let options = args.list.options(WORKLOADS_PAGE_SIZE);
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let (kept, cells) = (
        KeptObjects::new(options.watch),
        OptionalMetrics::new(context, &connection),
    );
    let mut bell = connection.doorbell_of_nodes(METRICS_STEP);
    let pause = async || bell.news(None).await;
    list::run_after(&options, context, pause, async |round: Round<'_>| {
        let found = workloads::read(
            context,
            &connection,
            &[],
            &cells,
            OtherPods::Summed,
            &kept,
            &round,
        )
        .await?;
        let is_meant = |workload: &&Workload| {
            args.name
                .as_ref()
                .is_none_or(|part| workload.top.name.contains(part.as_str()))
                && args
                    .kind
                    .as_ref()
                    .is_none_or(|kind| workload.top.kind.eq_ignore_ascii_case(kind))
                && args
                    .status
                    .as_ref()
                    .is_none_or(|status| workload.standing.word().eq_ignore_ascii_case(status))
        };
        let chosen: Vec<&Workload> = found.workloads.iter().filter(is_meant).collect();
        Ok(listing(chosen, args.list.sort_by, (), &options, context))
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
            Some(WorkloadSortKey::Name) => rows.sort_by(|a, b| a.top.name.cmp(&b.top.name)),
            Some(WorkloadSortKey::Status) => rows.sort_by_key(|workload| workload.standing.word()),
            Some(WorkloadSortKey::Gpu) => rows.sort_by_key(|workload| Reverse(workload.requested)),
            Some(WorkloadSortKey::Start) => {
                rows.sort_by_key(|workload| Reverse(workload.started_at()));
            }
            // A workload that is still running sorts as the latest end.
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
