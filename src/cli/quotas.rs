//! `get quotas` and `describe quota`: what namespaces may use and what they do use.

use std::process::ExitCode;

use clap::Args;

use crate::error::{Error, Kind};
use crate::view::{Format, document, quotas};

use super::{ListFormat, OneFormat, World};

/// List quotas of namespaces: what is allowed and what is used
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get quotas
  gpuctl get quotas -n team-a -o json")]
pub struct GetQuotas {
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

/// Show what one namespace may use and what it does use
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl describe quota team-a
  gpuctl describe quota team-a -o json")]
pub struct DescribeQuota {
    /// Namespace
    #[arg(value_parser = super::object_name)]
    namespace: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &GetQuotas, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let explicit = connection.namespace_is_explicit.then(|| connection.namespace.clone());
    let found = match connection.quotas(explicit.as_deref()).await {
        Err(failure) if failure.is_forbidden() && explicit.is_none() => {
            let home = &connection.namespace;
            world.terminal.lack(&format!("you may not list quotas of all namespaces; only `{home}` is shown"));
            connection.quotas(Some(home)).await?
        }
        other => other?,
    };
    let text = match format {
        Format::Name => quotas::names(&found),
        _ => document(format, &quotas::list(&found)).unwrap_or_else(|| match found.is_empty() && format != Format::Csv {
            true => String::new(),
            false => quotas::table(&found, format, !args.no_headers, world.terminal.look()),
        }),
    };
    world.terminal.print(&text)?;
    if found.is_empty() {
        world.terminal.note("no quotas found");
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn describe(args: &DescribeQuota, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let found = connection.quotas(Some(&args.namespace)).await?;
    if found.is_empty() {
        let error = Error::new(Kind::NotFound, "QuotaNotFound", format!("namespace `{}` has no quota", args.namespace));
        return Err(error.hint("gpuctl get quotas"));
    }
    let text = document(args.output.into(), &quotas::list(&found));
    world.terminal.print(&text.unwrap_or_else(|| quotas::text(&args.namespace, &found, world.terminal.look())))?;
    Ok(ExitCode::SUCCESS)
}
