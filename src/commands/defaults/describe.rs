//! `gpuctl describe defaults`: prints the site's defaults in their original YAML, with their
//! author.

use std::process::ExitCode;

use crate::cli::defaults::describe::DescribeDefaults;
use crate::context::Context;
use crate::deploy::defaults::{none, parse_stored};
use gpuctl_core::error::Error;
use gpuctl_view::document;
use gpuctl_view::files::defaults;

pub(crate) async fn run(args: &DescribeDefaults, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let (site, stored) = parse_stored(connection.site().defaults().await?)?.ok_or_else(none)?;
    let origin = defaults::DefaultsOrigin {
        user: stored.user.as_deref(),
        created_at: stored.created_at,
    };
    let text = document(args.output.into(), &defaults::whole(&site, &origin));
    context
        .terminal
        .print(&text.unwrap_or_else(|| defaults::text(&site, &origin)))?;
    Ok(ExitCode::SUCCESS)
}
