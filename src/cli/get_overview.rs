//! `get overview`: the inventory, what its devices do, storage and fabric, in one answer.

use std::process::ExitCode;

use clap::Args;
use futures::future::join;

use crate::error::Error;
use crate::stats::machines;
use crate::view::coverage::Coverage;
use crate::view::document;
use crate::view::overview::{self, Cluster};

use super::get_nodes::warn_of;
use super::metrics::{self, Cells, OF_NODES};
use super::{OneFormat, World};

/// Show the cluster at a glance: nodes, GPUs held and used, storage, fabric
///
/// Utilization is the mean over the GPUs that a pod holds; free ones do not lower it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get overview
  gpuctl get overview -o json | jq .utilization")]
pub struct GetOverview {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &GetOverview, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let cells = Cells::new(world, &connection);
    let machines = machines::query();
    let asked = cells.optional(async |prometheus| {
        let moment = metrics::moment(prometheus, &OF_NODES, None);
        let (moment, machines) = join(moment, prometheus.now(&machines)).await;
        Ok((moment?, machines?))
    });
    let (stock, asked) = join(connection.stock(), asked).await;
    let (mut stock, asked) = (stock?, asked?);
    warn_of(&stock, world);
    let (moment, machines) = asked.unzip();
    let readings = cells.measure(&mut stock, moment.as_ref());
    let overview = overview::document(&Cluster {
        inventory: &stock.inventory,
        consumers: stock.consumers.as_deref(),
        machines: machines.map(|answer| machines::read(&answer)).unwrap_or_default(),
        coverage: readings.as_ref().map(Coverage::from),
    });
    let text = document(args.output.into(), &overview).unwrap_or_else(|| overview::text(&overview, world.terminal.look()));
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
