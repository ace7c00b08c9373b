//! `gpuctl get overview`: prints inventory, live metrics, storage and network.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::metrics::overview::GetOverview;
use crate::context::Context;
use crate::observe::contexts::read_all;
use crate::observe::live;
use crate::observe::nodes::warn_of_missing_rights;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::watch::{METRICS_INTERVAL, WatchFrame, watch};
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::stats::exporters::node_exporter;
use gpuctl_view::format::coverage::Coverage;
use gpuctl_view::nodes::overview;
use gpuctl_view::nodes::overview::Overview;
use gpuctl_view::nodes::overviews;
use gpuctl_view::nodes::overviews::OverviewFacts;
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &GetOverview, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    if args.all_contexts {
        return all_contexts(format, context).await;
    }
    let connection = context.connect().await?;
    let metrics = OptionalMetrics::new(context, &connection);
    if !args.watch {
        let overview = read_overview(&connection, &metrics, true, context).await?;
        let text = document(format, &overview)
            .unwrap_or_else(|| overview::text(&overview, context.terminal.style()));
        context.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut notifications = connection.watch_nodes(METRICS_INTERVAL);
    let pause = async || notifications.changed(None).await;
    watch(format, pause, context, async |first, _| {
        let overview = read_overview(&connection, &metrics, first, context).await?;
        let text = overview::text(&overview, context.terminal.style());
        Ok(WatchFrame::new(
            text,
            std::iter::once(("overview".to_owned(), overview)),
        ))
    })
    .await
}

/// Prints a row for each context of the kubeconfig, and their total.
async fn all_contexts(format: Format, context: &Context) -> Result<ExitCode, Error> {
    let read = async |own: &Context| {
        let connection = own.connect().await?;
        let metrics = OptionalMetrics::new(own, &connection);
        read_facts(&connection, &metrics, true, own).await
    };
    let list = overviews::list(read_all(context, read).await?);
    let text = document(format, &list)
        .unwrap_or_else(|| overviews::table(&list, context.terminal.style()));
    context.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn read_overview(
    connection: &Connection,
    metrics: &OptionalMetrics<'_>,
    warns: bool,
    context: &Context,
) -> Result<Overview, Error> {
    let facts = read_facts(connection, metrics, warns, context).await?;
    Ok(overview::document(&facts.source()))
}

/// Reads all data once. Warns about missing permissions if `warns` is true.
async fn read_facts(
    connection: &Connection,
    metrics: &OptionalMetrics<'_>,
    warns: bool,
    context: &Context,
) -> Result<OverviewFacts, Error> {
    let machines = node_exporter::query();
    let query = metrics.optional(async |prometheus| {
        let reading = live::read_overview(prometheus);
        let (reading, machines) = join(reading, prometheus.now(&machines)).await;
        Ok((reading?, machines?))
    });
    let (snapshot, query) = join(connection.inventory().snapshot(), query).await;
    let (mut snapshot, query) = (snapshot?, query?);
    if warns {
        warn_of_missing_rights(&snapshot, context);
    }
    let (reading, machines) = query.unzip();
    let readings = metrics.measure(&mut snapshot, reading.as_ref());
    Ok(OverviewFacts {
        inventory: snapshot.inventory,
        consumers: snapshot.consumers,
        machines: machines
            .map(|answer| node_exporter::read(&answer))
            .unwrap_or_default(),
        coverage: readings.as_ref().map(Coverage::from),
    })
}
