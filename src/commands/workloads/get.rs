//! `gpuctl get workloads`: lists everything that requests GPUs.

use std::cmp::Reverse;
use std::process::ExitCode;

use crate::cli::args::page::WORKLOADS_PAGE_SIZE;
use crate::cli::workloads::get::{GetWorkloads, Order};
use crate::context::Context;
use crate::error::Error;
use crate::model::Workload;
use crate::observe::workloads;
use crate::view::workloads as view;
use crate::view::{Format, document};

pub async fn run(args: &GetWorkloads, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let found = workloads::read(context, &connection, &[]).await?;
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
    let chosen = args.page.of_size(chosen, WORKLOADS_PAGE_SIZE);
    let text = match format {
        Format::Name => view::names(&chosen),
        Format::Table | Format::Wide if chosen.is_empty() => String::new(),
        _ => document(format, &view::list(&chosen, total))
            .unwrap_or_else(|| view::table(&chosen, format, !args.no_headers, context.terminal.look(), context.now())),
    };
    context.terminal.print(&text)?;
    if total == 0 {
        context.terminal.note("no workloads found");
    }
    Ok(ExitCode::SUCCESS)
}
