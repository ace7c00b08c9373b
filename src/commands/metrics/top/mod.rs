//! `gpuctl top`: a cockpit on a terminal (`live.rs`). In a pipe, it prints a table of nodes, jobs
//! or GPUs by utilization.

mod current_program;
mod live;
mod read;

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::top::{Top, TopView};
use crate::context::Context;
use crate::lookup;
use crate::observe::live::DEVICE_QUANTITIES;
use crate::observe::metrics::{self, StoreUse};
use gpuctl_cluster::{Connection, Failure, OtherPods, OwnersAndInventory};
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
    // A screen reader cannot handle a screen that redraws itself.
    let is_live = look.width.is_some()
        && context.terminal.stdin_is_terminal()
        && !look.plain
        && context.access.bundle.is_none();
    if is_live && !args.once {
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
    metrics::print_warnings(context, &prometheus);
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
    let view = args.what.unwrap_or(TopView::Nodes);
    let reading = crate::observe::live::read(prometheus, &DEVICE_QUANTITIES, None);
    let namespace = lookup::explicit_namespace(connection);
    let objects = async {
        if view != TopView::Jobs {
            return Ok((connection.inventory().snapshot().await?, None));
        }
        let OwnersAndInventory {
            owners,
            inventory: stock,
        } = connection
            .workloads()
            .snapshot(namespace, OtherPods::Summed)
            .await?;
        Ok::<_, Failure>((stock?, Some(owners)))
    };
    let (reading, objects) = join(reading, objects).await;
    let (reading, (mut snapshot, owners)) = (reading?, objects?);
    let facts = ApiFacts::from_inventory(&snapshot.inventory, snapshot.consumers.as_ref());
    let readings = devices::read(&reading, &snapshot.inventory, &facts);
    snapshot.inventory.measure(&readings);
    let mut lines: Vec<TopLine> = match (view, owners) {
        (TopView::Gpus, _) => readings.devices.iter().map(view::of_gpu).collect(),
        (TopView::Jobs, Some(owners)) => {
            let workloads = owners.forest.workloads(&snapshot.inventory);
            lookup::check_empty(connection, namespace, workloads.is_empty()).await?;
            let gpu_workloads = workloads.iter().filter(|workload| {
                workload.gpus_held() > GpuCount::ZERO || !workload.slices.is_empty()
            });
            let line = |workload: &gpuctl_core::model::Workload| {
                let pods: Vec<&str> = workload
                    .pods
                    .iter()
                    .filter(|pod| !pod.ended())
                    .map(|pod| &*pod.name)
                    .collect();
                TopLine {
                    name: format!("{}/{}", workload.top.namespace, workload.top.name),
                    about: workload.top.kind.clone(),
                    held: Some(workload.gpus_held().0),
                    total: workload.requested.0,
                    figures: readings.figures_of(&workload.top.namespace, &pods),
                }
            };
            gpu_workloads.map(line).collect()
        }
        _ => snapshot
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
