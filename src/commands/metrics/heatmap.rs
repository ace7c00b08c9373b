//! `gpuctl get heatmap`: prints the metrics of every device. It requires Prometheus.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::heatmap::GetHeatmap;
use crate::context::Context;
use crate::observe::live::{self, OF_DEVICES};
use crate::observe::metrics::{self, StoreUse};
use crate::observe::watch::{METRICS_STEP, WatchFrame, watch};
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
    let grid = |seen: &Seen| {
        heatmap::grid(
            &seen.readings.devices,
            &seen.inventory.hosts,
            args.metric.into(),
            context.terminal.style(),
        )
    };
    let value = |seen: &Seen| {
        heatmap::document(&seen.readings.devices, Coverage::from(&seen.readings), top)
    };
    if !args.watch {
        let seen = look(&connection, true, context).await?;
        let text = document(format, &value(&seen)).unwrap_or_else(|| grid(&seen));
        context.terminal.print(&text)?;
        if seen.readings.devices.is_empty() {
            context
                .terminal
                .warn("Prometheus has no samples of GPUs; is a GPU exporter running and scraped?");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let pause = async || {
        // No watch reports changes of metrics, so poll them.
        tokio::time::sleep(METRICS_STEP).await;
        true
    };
    watch(format, pause, context, async |first, _| {
        let seen = look(&connection, first, context).await?;
        Ok(WatchFrame::new(
            grid(&seen),
            std::iter::once(("heatmap".to_owned(), value(&seen))),
        ))
    })
    .await
}

/// Metrics of every device, and the nodes that have them.
struct Seen {
    readings: Readings,
    inventory: Inventory,
}

async fn look(connection: &Connection, warns: bool, context: &Context) -> Result<Seen, Error> {
    let moment = async {
        let prometheus = metrics::find(
            context,
            connection,
            context.access.request_timeout,
            StoreUse::Devices,
        )
        .await?;
        let moment = live::read(&prometheus, &OF_DEVICES, None).await?;
        if warns {
            metrics::tell_warnings(context, &prometheus);
        }
        Ok::<_, Error>(moment)
    };
    let (moment, stock) = join(moment, connection.inventory().stock()).await;
    let (moment, stock) = (moment?, stock);
    // Without access to the inventory, the labels of the exporters must identify the devices.
    let (inventory, consumers) = match stock {
        Ok(stock) => (stock.inventory, stock.consumers),
        Err(failure) if failure.is_forbidden() => Default::default(),
        Err(failure) => return Err(failure.into()),
    };
    let readings = devices::read(
        &moment,
        &inventory,
        &ApiFacts::of(&inventory, consumers.as_ref()),
    );
    Ok(Seen {
        readings,
        inventory,
    })
}
