//! `gpuctl tree`: prints a workload's owners and the objects below them.

use std::process::ExitCode;

use crate::cli::workloads::tree::Tree;
use crate::context::Context;
use crate::observe::workloads;
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::workloads::tree;

pub(crate) async fn run(args: &Tree, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let snapshot = workloads::read_named(context, &connection, &[], &args.name).await?;
    let workload = workloads::find_workload(&snapshot.workloads, &args.name)?;
    let branch = snapshot.forest.branch(&workload.top);
    let text = document(args.output.into(), &tree::document(&branch));
    context
        .terminal
        .print(&text.unwrap_or_else(|| tree::text(&branch, context.terminal.style())))?;
    Ok(ExitCode::SUCCESS)
}
