//! `gpuctl get heatmap`: prints what every device measures now. Without Prometheus it fails.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::heatmap::GetHeatmap;
use crate::context::Context;
use crate::error::Error;
use crate::observe::metrics::{self, OF_DEVICES};
use crate::stats::devices;
use crate::stats::identity::ApiFacts;
use crate::view::coverage::Coverage;
use crate::view::heatmap::{self};
use crate::view::{Format, document};

pub(crate) async fn run(args: &GetHeatmap, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let moment = async {
        let prometheus = metrics::find(context, &connection, context.access.request_timeout).await?;
        let moment = metrics::moment(&prometheus, &OF_DEVICES, None).await?;
        metrics::tell_warnings(context, &prometheus);
        Ok::<_, Error>(moment)
    };
    let (moment, stock) = join(moment, connection.stock()).await;
    let (moment, stock) = (moment?, stock);
    // Without rights to the inventory the exporters' own words stand.
    let (inventory, consumers) = match stock {
        Ok(stock) => (stock.inventory, stock.consumers),
        Err(failure) if failure.is_forbidden() => Default::default(),
        Err(failure) => return Err(failure.into()),
    };
    let readings = devices::read(&moment, &inventory, &ApiFacts::of(&inventory, consumers.as_deref()));
    let coverage = Coverage::from(&readings);
    let top = usize::try_from(args.top).unwrap_or(usize::MAX);
    let text = document(format, &heatmap::document(&readings.devices, coverage, top))
        .unwrap_or_else(|| heatmap::grid(&readings.devices, &inventory.hosts, args.metric.into(), context.terminal.look()));
    context.terminal.print(&text)?;
    if readings.devices.is_empty() {
        context.terminal.warn("Prometheus has no samples of GPUs; is a GPU exporter running and scraped?");
    }
    Ok(ExitCode::SUCCESS)
}
