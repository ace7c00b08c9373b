//! `get heatmap`: what single devices do now. It is metrics and nothing else, so without them there is no answer.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use futures::future::join;

use crate::error::Error;
use crate::stats::devices;
use crate::stats::identity::Facts;
use crate::view::coverage::Coverage;
use crate::view::heatmap::{self, Metric};
use crate::view::{Format, document};

use super::metrics::{self, OF_DEVICES};
use super::{OneFormat, World};

/// Show the hottest GPUs: utilization, power, temperature
///
/// For people every device in a grid of nodes; with -o json the highest of each metric.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get heatmap
  gpuctl get heatmap --metric temperature
  gpuctl get heatmap --top 10 -o json")]
pub struct GetHeatmap {
    /// Devices per metric in JSON
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// What the grid shows
    #[arg(long, value_enum, value_name = "METRIC", default_value_t)]
    metric: Shown,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Shown {
    Power,
    Temperature,
    #[default]
    Utilization,
}

impl From<Shown> for Metric {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Power => Self::Power,
            Shown::Temperature => Self::Temperature,
            Shown::Utilization => Self::Utilization,
        }
    }
}

pub async fn run(args: &GetHeatmap, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let moment = async {
        let prometheus = metrics::find(world, &connection, world.access.request_timeout).await?;
        let moment = metrics::moment(&prometheus, &OF_DEVICES, None).await?;
        metrics::tell_warnings(world, &prometheus);
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
    let readings = devices::read(&moment, &inventory, &Facts::of(&inventory, consumers.as_deref()));
    let coverage = Coverage::from(&readings);
    let top = usize::try_from(args.top).unwrap_or(usize::MAX);
    let text = document(format, &heatmap::document(&readings.devices, coverage, top))
        .unwrap_or_else(|| heatmap::grid(&readings.devices, &inventory.hosts, args.metric.into(), world.terminal.look()));
    world.terminal.print(&text)?;
    if readings.devices.is_empty() {
        world.terminal.warn("Prometheus has no samples of GPUs; is an exporter running and scraped?");
    }
    Ok(ExitCode::SUCCESS)
}
