//! `gpuctl get consumers`: lists who holds GPUs or waits for them, the biggest first.

use std::cmp::Reverse;
use std::process::ExitCode;

use crate::cli::args::page::WORKLOADS_PAGE_SIZE;
use crate::cli::workloads::consumers::GetConsumers;
use crate::context::Context;
use crate::error::Error;
use crate::observe::metrics::OF_JOBS;
use crate::observe::workloads;
use crate::view::coverage::Coverage;
use crate::view::workloads::{self as view, Row};
use crate::view::{Format, document};

pub async fn run(args: &GetConsumers, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let found = workloads::read(context, &connection, &OF_JOBS).await?;
    let mut rows: Vec<Row<'_>> = found
        .workloads
        .iter()
        .filter(|workload| !workload.has_ended() && workload.top.resting.is_none())
        .map(|workload| Row { workload, figures: found.figures(workload) })
        .collect();
    rows.sort_by_key(|row| Reverse(row.workload.requested));
    let total = rows.len();
    let rows = args.page.of_size(rows, WORKLOADS_PAGE_SIZE);
    let coverage = found.readings.as_ref().map(Coverage::from);
    let text = match format {
        Format::Name => view::names(&rows.iter().map(|row| row.workload).collect::<Vec<_>>()),
        Format::Table | Format::Wide if rows.is_empty() => String::new(),
        _ => document(format, &view::consumers(&rows, total, coverage))
            .unwrap_or_else(|| view::consumer_table(&rows, format, !args.no_headers, context.terminal.look())),
    };
    context.terminal.print(&text)?;
    if total == 0 {
        context.terminal.note("nobody asks for GPUs");
    }
    Ok(ExitCode::SUCCESS)
}
