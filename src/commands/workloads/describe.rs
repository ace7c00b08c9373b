//! `gpuctl describe workload`: prints a workload with its pods and GPUs.

use std::process::ExitCode;

use crate::cli::workloads::describe::DescribeWorkload;
use crate::context::Context;
use crate::observe::live::JOB_QUANTITIES;
use crate::observe::workloads;
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::workloads::consumers::ConsumerRow;
use gpuctl_view::workloads::describe as view;

pub(crate) async fn run(args: &DescribeWorkload, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let snapshot = workloads::read_named(context, &connection, &JOB_QUANTITIES, &args.name).await?;
    let workload = workloads::find_workload(&snapshot.workloads, &args.name)?;
    let row = ConsumerRow {
        workload,
        figures: snapshot.figures(workload),
    };
    let text = document(args.output.into(), &view::document(&row));
    context.terminal.print(
        &text.unwrap_or_else(|| view::text(&row, context.terminal.style(), context.now())),
    )?;
    Ok(ExitCode::SUCCESS)
}
