//! `get workloads`, `get consumers`, `get workload-metadata`: everything that requests GPUs, whoever made it.

use std::cmp::Reverse;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::error::Error;
use crate::model::Workload;
use crate::view::coverage::Coverage;
use crate::view::workloads::{self as view, Row};
use crate::view::{Format, document};

use super::get_nodes::Page;
use super::metrics::OF_JOBS;
use super::{ListFormat, OneFormat, World, workloads};

/// List everything that requests GPUs, whoever made it: the owner at the top of each chain
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get workloads --status Running
  gpuctl get workloads --kind PyTorchJob --order-by start_at
  gpuctl get workloads -n team-a -o json --page 2")]
pub struct GetWorkloads {
    /// Only workloads with this in their name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Only workloads of this kind, such as Job or PyTorchJob
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only workloads in this state
    #[arg(long, value_name = "STATUS", ignore_case = true, value_parser = ["Running", "Completed", "Failed", "Pending", "Unknown"])]
    status: Option<String>,
    /// Order of the list: the newest first; by namespace and name without it
    #[arg(long, value_enum, value_name = "KEY")]
    order_by: Option<Order>,
    #[command(flatten)]
    page: Page,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    #[value(name = "start_at")]
    StartAt,
    #[value(name = "end_at")]
    EndAt,
}

/// List who holds GPUs or waits for them, the biggest first, with how busy they keep them
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl get consumers
  gpuctl get consumers -o json --page 1 --page-size 20")]
pub struct GetConsumers {
    #[command(flatten)]
    page: Page,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

/// List the namespaces and kinds of workloads, for filters
#[derive(Args, Debug)]
#[command(after_help = "Example:
  gpuctl get workload-metadata -o json")]
pub struct GetWorkloadMetadata {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Items on a page when only `--page` is given: the workloads document's number.
const PAGE_SIZE: u32 = 10;

pub async fn run(args: &GetWorkloads, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &[]).await?;
    let is_meant = |workload: &&Workload| {
        args.name.as_ref().is_none_or(|part| workload.top.name.contains(part.as_str()))
            && args.kind.as_ref().is_none_or(|kind| workload.top.kind.eq_ignore_ascii_case(kind))
            && args.status.as_ref().is_none_or(|status| workload.standing.word().eq_ignore_ascii_case(status))
    };
    let mut chosen: Vec<&Workload> = found.workloads.iter().filter(is_meant).collect();
    match args.order_by {
        None => {}
        Some(Order::StartAt) => chosen.sort_by_key(|workload| Reverse(workload.started_at())),
        // What goes on ends last.
        Some(Order::EndAt) => chosen.sort_by_key(|workload| (workload.has_ended(), Reverse(workload.ended_at()))),
    }
    let total = chosen.len();
    let chosen = args.page.of_size(chosen, PAGE_SIZE);
    let text = match format {
        Format::Name => view::names(&chosen),
        Format::Table | Format::Wide if chosen.is_empty() => String::new(),
        _ => document(format, &view::list(&chosen, total))
            .unwrap_or_else(|| view::table(&chosen, format, !args.no_headers, world.terminal.look(), world.now())),
    };
    world.terminal.print(&text)?;
    if total == 0 {
        world.terminal.note("no workloads found");
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn consumers(args: &GetConsumers, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &OF_JOBS).await?;
    let mut rows: Vec<Row<'_>> = found
        .workloads
        .iter()
        .filter(|workload| !workload.has_ended() && workload.top.resting.is_none())
        .map(|workload| Row { workload, figures: found.figures(workload) })
        .collect();
    rows.sort_by_key(|row| Reverse(row.workload.requested));
    let total = rows.len();
    let rows = args.page.of_size(rows, PAGE_SIZE);
    let coverage = found.readings.as_ref().map(Coverage::from);
    let text = match format {
        Format::Name => view::names(&rows.iter().map(|row| row.workload).collect::<Vec<_>>()),
        Format::Table | Format::Wide if rows.is_empty() => String::new(),
        _ => document(format, &view::consumers(&rows, total, coverage))
            .unwrap_or_else(|| view::consumer_table(&rows, format, !args.no_headers, world.terminal.look())),
    };
    world.terminal.print(&text)?;
    if total == 0 {
        world.terminal.note("nobody asks for GPUs");
    }
    Ok(ExitCode::SUCCESS)
}

pub async fn metadata(args: &GetWorkloadMetadata, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let found = workloads::read(world, &connection, &[]).await?;
    let metadata = view::metadata(&found.workloads);
    world.terminal.print(&document(args.output.into(), &metadata).unwrap_or_else(|| view::metadata_text(&metadata)))?;
    Ok(ExitCode::SUCCESS)
}
