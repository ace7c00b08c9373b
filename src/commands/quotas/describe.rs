//! `gpuctl describe quota`: prints what one namespace may use and does use.

use std::process::ExitCode;

use crate::cli::quotas::describe::DescribeQuota;
use crate::context::Context;
use crate::error::{Error, ErrorName};
use crate::view::{document, quotas};

pub(crate) async fn run(args: &DescribeQuota, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let found = connection.quotas(Some(&args.namespace)).await?;
    if found.is_empty() {
        let error = Error::new(ErrorName::QuotaNotFound, format!("namespace `{}` has no quota", args.namespace));
        return Err(error.hint("gpuctl get quotas"));
    }
    let text = document(args.output.into(), &quotas::list(&found, found.len()));
    context.terminal.print(&text.unwrap_or_else(|| quotas::text(&args.namespace, &found, context.terminal.look())))?;
    Ok(ExitCode::SUCCESS)
}
