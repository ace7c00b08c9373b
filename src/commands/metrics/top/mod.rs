//! `gpuctl top`: runs the cockpit on a terminal (`live.rs`). In a pipe, prints a table of nodes,
//! jobs or GPUs by utilization.

mod current_program;
mod live;
mod read;

use std::process::ExitCode;

use crate::cli::metrics::top::{Top, TopView};
use crate::context::Context;
use crate::lookup;
use crate::observe::list;
use crate::observe::list::{Listing, Refresh};
use gpuctl_cluster::{Connection, OtherPods};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::GpuCount;
use gpuctl_view::Format;
use gpuctl_view::cockpit::{CockpitSnapshot, JobLine};
use gpuctl_view::workloads::top as view;
use gpuctl_view::workloads::top::{TopLine, TopRows};

use read::SnapshotReader;

pub(crate) async fn run(args: &Top, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let connection = context.connect().await?;
    let look = context.terminal.style();
    // A screen that redraws itself is useless to a screen reader.
    let is_live = look.width.is_some()
        && context.terminal.stdin_is_terminal()
        && !look.plain
        && context.access.bundle.is_none();
    let asks_for_text = args.once || options.format != Format::Table;
    if is_live && !asks_for_text {
        return live::live(args, context, &connection).await;
    }
    let rows = TopRows::from(args.what.unwrap_or(TopView::Nodes));
    let note = match rows {
        TopRows::Nodes => "no nodes with GPUs found",
        TopRows::Jobs => "no workload holds GPUs",
        TopRows::Gpus => "no GPU metrics",
    };
    list::run(&options, context, async |_: Refresh<'_>| {
        let reader = SnapshotReader::new(context, &connection, OtherPods::Summed);
        let snapshot = reader.read(true).await?;
        let mut lines = lines(rows, &snapshot, &connection).await?;
        view::sort(&mut lines, args.sort_by.into());
        let names = lines.iter().map(|line| line.name.clone()).collect();
        let document = view::document(rows, &lines, &snapshot.summary());
        let table = |format, headers| view::table(&lines, rows, format, headers, look);
        Ok(Listing::new(&options, &document, "items", names, table).none(note))
    })
    .await
}

async fn lines(
    rows: TopRows,
    snapshot: &CockpitSnapshot,
    connection: &Connection,
) -> Result<Vec<TopLine>, Error> {
    if rows == TopRows::Jobs {
        let namespace = lookup::explicit_namespace(connection);
        lookup::check_empty(connection, namespace, snapshot.jobs.is_empty()).await?;
    } else if snapshot.count.is_none() {
        // An empty table would suggest that the cluster has no GPUs.
        let error = Error::new(ErrorName::Forbidden, "you are not allowed to list nodes");
        return Err(error.hint("`gpuctl top jobs --once` lists the jobs that you may see"));
    }
    Ok(match rows {
        TopRows::Nodes => snapshot.nodes.iter().map(view::of_node).collect(),
        TopRows::Gpus => snapshot.gpus.iter().map(view::of_gpu).collect(),
        TopRows::Jobs => {
            let holding = snapshot.jobs.iter().filter(|job| job.held > GpuCount::ZERO);
            holding.map(job_line).collect()
        }
    })
}

fn job_line(job: &JobLine) -> TopLine {
    TopLine {
        name: format!("{}/{}", job.namespace, job.name),
        about: Some(job.kind.clone()),
        held: Some(job.held.0),
        total: job.requested.0,
        figures: job.figures,
    }
}
