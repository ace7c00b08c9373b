//! `gpuctl describe quota`: prints a namespace's quotas and their usage.

use std::process::ExitCode;

use crate::cli::quotas::describe::DescribeQuota;
use crate::context::Context;
use crate::deploy::quota_deletion::deletable;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_view::document;
use gpuctl_view::queues::quotas;

pub(crate) async fn run(args: &DescribeQuota, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let quotas = match args.to_delete {
        true => deletable(&connection, &args.name).await?,
        false => connection.quotas().list(Some(&args.name)).await?,
    };
    if quotas.is_empty() {
        let error = Error::new(
            ErrorName::QuotaNotFound,
            format!("namespace `{}` has no quota", args.name),
        );
        return Err(error.hint("gpuctl get quotas"));
    }
    let text = document(args.output.into(), &quotas::list(&quotas, quotas.len()));
    let namespaces_text = || -> String {
        let by_namespace = quotas.chunk_by(|a, b| a.namespace == b.namespace);
        by_namespace
            .map(|quotas| quotas::text(&quotas[0].namespace, quotas, context.terminal.style()))
            .collect()
    };
    context
        .terminal
        .print(&text.unwrap_or_else(namespaces_text))?;
    Ok(ExitCode::SUCCESS)
}
