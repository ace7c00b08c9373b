//! `gpuctl get overview`: prints the inventory, live metrics, storage and network together.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::overview::GetOverview;
use crate::context::Context;
use crate::observe::live;
use crate::observe::nodes::warn_of;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::watch::{METRICS_STEP, WatchFrame, watch};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::node_exporter;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::overview;
use gpuctl_view::nodes::overview::{Overview, OverviewSource};
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &GetOverview, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let cells = OptionalMetrics::new(context, &connection);
    if !args.watch {
        let overview = look(&connection, &cells, true, context).await?;
        let text = document(format, &overview)
            .unwrap_or_else(|| overview::text(&overview, context.terminal.style()));
        context.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut bell = connection.doorbell_of_nodes(METRICS_STEP);
    let pause = async || bell.news(None).await;
    watch(format, pause, context, async |first, _| {
        let overview = look(&connection, &cells, first, context).await?;
        let text = overview::text(&overview, context.terminal.style());
        Ok(WatchFrame::new(
            text,
            std::iter::once(("overview".to_owned(), overview)),
        ))
    })
    .await
}

/// Reads all data once. Warns about missing rights if `warns` is set.
async fn look(
    connection: &Connection,
    cells: &OptionalMetrics<'_>,
    warns: bool,
    context: &Context,
) -> Result<Overview, Error> {
    let machines = node_exporter::query();
    let asked = cells.optional(async |prometheus| {
        let moment = live::of_overview(prometheus);
        let (moment, machines) = join(moment, prometheus.now(&machines)).await;
        Ok((moment?, machines?))
    });
    let (stock, asked) = join(connection.inventory().stock(), asked).await;
    let (mut stock, asked) = (stock?, asked?);
    if warns {
        warn_of(&stock, context);
    }
    let (moment, machines) = asked.unzip();
    let readings = cells.measure(&mut stock, moment.as_ref());
    Ok(overview::document(&OverviewSource {
        inventory: &stock.inventory,
        consumers: stock.consumers.as_ref(),
        machines: machines
            .map(|answer| node_exporter::read(&answer))
            .unwrap_or_default(),
        coverage: readings.as_ref().map(Coverage::from),
    }))
}
