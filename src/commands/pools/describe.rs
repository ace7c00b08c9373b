//! `gpuctl describe pool`: prints a pool's nodes, GPUs, quota and jobs.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::pools::describe::DescribePool;
use crate::context::Context;
use crate::deploy::pools::pool_not_found;
use crate::observe::live::NODE_QUANTITIES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::pools::{read_pools, warn_of_missing_rights};
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::nodes::pool_description;

pub(crate) async fn run(args: &DescribePool, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let metrics = OptionalMetrics::new(context, &connection);
    let (snapshot, reading) = join(
        read_pools(&connection, Some(&args.name)),
        metrics.now(&NODE_QUANTITIES),
    )
    .await;
    let (mut snapshot, reading) = (snapshot?, reading?);
    snapshot.measure(&metrics, reading.as_ref());
    let Some(pool) = snapshot.pools.pop() else {
        return Err(pool_not_found(&args.name, &snapshot.snapshot.inventory, &connection).await);
    };
    warn_of_missing_rights(&snapshot, context);
    let text = document(args.output.into(), &pool_description::document(&pool));
    context
        .terminal
        .print(&text.unwrap_or_else(|| pool_description::text(&pool, context.terminal.style())))?;
    Ok(ExitCode::SUCCESS)
}
