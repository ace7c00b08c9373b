//! `gpuctl top`: a cockpit on a terminal (`live.rs`). In a pipe, it prints a table of nodes, jobs
//! or GPUs by utilization.

mod live;
mod own_program;
mod read;

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::top::{Top, TopView};
use crate::context::Context;
use crate::observe::live::OF_DEVICES;
use crate::observe::metrics::{self, StoreUse};
use gpuctl_cluster::{Connection, Failure, OtherPods, OwnersAndStock};
use gpuctl_core::error::Error;
use gpuctl_core::model::GpuCount;
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_prometheus::Prometheus;
use gpuctl_view::workloads::top as view;
use gpuctl_view::workloads::top::TopLine;

pub(crate) async fn run(args: &Top, context: &Context) -> Result<ExitCode, Error> {
    let connection = context.connect().await?;
    let look = context.terminal.style();
    // A screen that redraws itself is useless with a screen reader.
    let lives = look.width.is_some()
        && context.terminal.stdin_is_terminal()
        && !look.plain
        && context.access.bundle.is_none();
    if lives && !args.once {
        return live::live(args, context, &connection).await;
    }
    let prometheus = metrics::find(
        context,
        &connection,
        context.access.request_timeout,
        StoreUse::Devices,
    )
    .await?;
    let lines = lines(args, &connection, &prometheus).await?;
    metrics::tell_warnings(context, &prometheus);
    let titles = match args.what.unwrap_or(TopView::Nodes) {
        TopView::Nodes => ("NODE", "TYPE"),
        TopView::Jobs => ("JOB", "KIND"),
        TopView::Gpus => ("GPU", "HOLDER"),
    };
    context.terminal.print(&view::table(&lines, titles, look))?;
    Ok(ExitCode::SUCCESS)
}

async fn lines(
    args: &Top,
    connection: &Connection,
    prometheus: &Prometheus<'_>,
) -> Result<Vec<TopLine>, Error> {
    let what = args.what.unwrap_or(TopView::Nodes);
    let moment = crate::observe::live::read(prometheus, &OF_DEVICES, None);
    let namespace = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    let objects = async {
        if what != TopView::Jobs {
            return Ok((connection.inventory().stock().await?, None));
        }
        let OwnersAndStock { owners, stock } = connection
            .workloads()
            .owners_and_stock(namespace, OtherPods::Summed)
            .await?;
        Ok::<_, Failure>((stock?, Some(owners)))
    };
    let (moment, objects) = join(moment, objects).await;
    let (moment, (mut stock, owners)) = (moment?, objects?);
    let facts = ApiFacts::of(&stock.inventory, stock.consumers.as_ref());
    let readings = devices::read(&moment, &stock.inventory, &facts);
    stock.inventory.measure(&readings);
    let mut lines: Vec<TopLine> = match (what, owners) {
        (TopView::Gpus, _) => readings.devices.iter().map(view::of_gpu).collect(),
        (TopView::Jobs, Some(owners)) => {
            let found = owners.forest.workloads(&stock.inventory);
            let holding = found
                .iter()
                .filter(|one| one.gpus_held() > GpuCount::ZERO || !one.slices.is_empty());
            let line = |one: &gpuctl_core::model::Workload| {
                let pods: Vec<&str> = one
                    .pods
                    .iter()
                    .filter(|pod| !pod.ended())
                    .map(|pod| &*pod.name)
                    .collect();
                TopLine {
                    name: format!("{}/{}", one.top.namespace, one.top.name),
                    about: one.top.kind.clone(),
                    held: Some(one.gpus_held().0),
                    total: one.requested.0,
                    figures: readings.figures_of(&one.top.namespace, &pods),
                }
            };
            holding.map(line).collect()
        }
        _ => stock
            .inventory
            .hosts
            .iter()
            .filter(|host| host.has_gpus())
            .map(view::of_node)
            .collect(),
    };
    view::sort(&mut lines, args.sort_by.into());
    Ok(lines)
}
