//! `gpuctl get heatmap`: prints the metrics of every device. Requires Prometheus.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::heatmap::GetHeatmap;
use crate::context::Context;
use crate::observe::live::{self, DEVICE_QUANTITIES};
use crate::observe::metrics::{self, StoreUse};
use crate::observe::watch::{METRICS_INTERVAL, WatchFrame, watch};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::{Inventory, Readings};
use gpuctl_core::stats::exporters::devices;
use gpuctl_core::stats::exporters::identity::ApiFacts;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::heatmap;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &GetHeatmap, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let top = usize::try_from(args.top).unwrap_or(usize::MAX);
    let grid = |data: &HeatmapData| {
        heatmap::grid(
            &data.readings.devices,
            &data.inventory.hosts,
            args.metric.into(),
            context.terminal.style(),
        )
    };
    let value = |data: &HeatmapData| {
        heatmap::document(&data.readings.devices, Coverage::from(&data.readings), top)
    };
    if !args.watch {
        let data = read_data(&connection, true, context).await?;
        let text = document(format, &value(&data)).unwrap_or_else(|| grid(&data));
        context.terminal.print(&text)?;
        if data.readings.devices.is_empty() {
            context
                .terminal
                .warn("Prometheus has no GPU samples; is a GPU exporter running and scraped?");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let pause = async || {
        // Prometheus has no change notifications, so poll.
        tokio::time::sleep(METRICS_INTERVAL).await;
        true
    };
    watch(format, pause, context, async |first, _| {
        let data = read_data(&connection, first, context).await?;
        Ok(WatchFrame::new(
            grid(&data),
            std::iter::once(("heatmap".to_owned(), value(&data))),
        ))
    })
    .await
}

/// Metrics of all devices, and their nodes.
struct HeatmapData {
    readings: Readings,
    inventory: Inventory,
}

async fn read_data(
    connection: &Connection,
    warns: bool,
    context: &Context,
) -> Result<HeatmapData, Error> {
    let reading = async {
        let prometheus = metrics::find(
            context,
            connection,
            context.access.request_timeout,
            StoreUse::Devices,
        )
        .await?;
        let reading = live::read(&prometheus, &DEVICE_QUANTITIES, None).await?;
        if warns {
            metrics::print_warnings(context, &prometheus);
        }
        Ok::<_, Error>(reading)
    };
    let (reading, snapshot) = join(reading, connection.inventory().snapshot()).await;
    let (reading, snapshot) = (reading?, snapshot);
    // Without the inventory, only the exporters' labels identify a device.
    let (inventory, consumers) = match snapshot {
        Ok(snapshot) => (snapshot.inventory, snapshot.consumers),
        Err(failure) if failure.is_forbidden() => Default::default(),
        Err(failure) => return Err(failure.into()),
    };
    let readings = devices::read(
        &reading,
        &inventory,
        &ApiFacts::from_inventory(&inventory, consumers.as_ref()),
    );
    Ok(HeatmapData {
        readings,
        inventory,
    })
}
