//! `gpuctl get workload-metadata`: lists the namespaces and kinds that have workloads.

use std::process::ExitCode;

use crate::cli::workloads::metadata::GetWorkloadMetadata;
use crate::context::Context;
use crate::lookup;
use crate::observe::workloads;
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::workloads::list as view;

pub(crate) async fn run(args: &GetWorkloadMetadata, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let namespace = lookup::explicit_namespace(&connection);
    let snapshot = workloads::read_once(context, &connection, namespace, &[]).await?;
    let metadata = view::metadata(&snapshot.workloads);
    context.terminal.print(
        &document(args.output.into(), &metadata).unwrap_or_else(|| view::metadata_text(&metadata)),
    )?;
    Ok(ExitCode::SUCCESS)
}
