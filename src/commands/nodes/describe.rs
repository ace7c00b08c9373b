//! `gpuctl describe node`: prints all details of one node.

use std::process::ExitCode;

use crate::cli::nodes::describe::DescribeNode;
use crate::context::Context;
use crate::lookup;
use crate::observe::live::DEVICE_QUANTITIES;
use crate::observe::nodes::warn_of_missing_rights;
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::nodes::{describe, node_description};

pub(crate) async fn run(args: &DescribeNode, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let (snapshot, _) = OptionalMetrics::new(context, &connection)
        .snapshot(&DEVICE_QUANTITIES)
        .await?;
    warn_of_missing_rights(&snapshot, context);
    let host = lookup::node(&snapshot, &args.name)?;
    let text = document(args.output.into(), &node_description::document(host));
    context.terminal.print(
        &text.unwrap_or_else(|| describe::text(host, context.terminal.style(), context.now())),
    )?;
    Ok(ExitCode::SUCCESS)
}
