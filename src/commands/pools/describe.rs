//! `gpuctl describe pool`: prints the nodes, GPUs, quota and jobs of one pool.

use std::process::ExitCode;

use futures::future::join;

use crate::cli::pools::describe::DescribePool;
use crate::context::Context;
use crate::deploy::pools::missing;
use crate::observe::live::OF_NODES;
use crate::observe::optional_metrics::OptionalMetrics;
use crate::observe::pools::{look, warn_of};
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::nodes::pool_description;

pub(crate) async fn run(args: &DescribePool, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let cells = OptionalMetrics::new(context, &connection);
    let (seen, moment) = join(look(&connection, Some(&args.name)), cells.now(&OF_NODES)).await;
    let (mut seen, moment) = (seen?, moment?);
    seen.measure(&cells, moment.as_ref());
    let Some(pool) = seen.pools.pop() else {
        return Err(missing(&args.name, &seen.stock.inventory, &connection).await);
    };
    warn_of(&seen, context);
    let text = document(args.output.into(), &pool_description::document(&pool));
    context
        .terminal
        .print(&text.unwrap_or_else(|| pool_description::text(&pool, context.terminal.style())))?;
    Ok(ExitCode::SUCCESS)
}
