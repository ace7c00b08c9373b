//! `gpuctl get overview`: prints the inventory, what its devices measure, storage and network in one answer.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::overview::GetOverview;
use crate::context::Context;
use crate::error::Error;
use crate::observe::metrics::{self, OF_NODES, OptionalMetrics};
use crate::observe::nodes::warn_of;
use crate::stats::node_exporter;
use crate::view::coverage::Coverage;
use crate::view::document;
use crate::view::overview::{self, OverviewSource};

pub(crate) async fn run(args: &GetOverview, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let cells = OptionalMetrics::new(context, &connection);
    let machines = node_exporter::query();
    let asked = cells.optional(async |prometheus| {
        let moment = metrics::moment(prometheus, &OF_NODES, None);
        let (moment, machines) = join(moment, prometheus.now(&machines)).await;
        Ok((moment?, machines?))
    });
    let (stock, asked) = join(connection.stock(), asked).await;
    let (mut stock, asked) = (stock?, asked?);
    warn_of(&stock, context);
    let (moment, machines) = asked.unzip();
    let readings = cells.measure(&mut stock, moment.as_ref());
    let overview = overview::document(&OverviewSource {
        inventory: &stock.inventory,
        consumers: stock.consumers.as_deref(),
        machines: machines.map(|answer| node_exporter::read(&answer)).unwrap_or_default(),
        coverage: readings.as_ref().map(Coverage::from),
    });
    let text = document(args.output.into(), &overview).unwrap_or_else(|| overview::text(&overview, context.terminal.look()));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}
