//! `gpuctl events`: prints the events of a job and its objects by time.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::jobs::events::EventsArgs;
use crate::context::Context;
use crate::lookup::LookupPurpose;
use crate::observe::list;
use crate::observe::list::ListOptions;
use crate::observe::list::Listing;
use crate::observe::list::Refresh;
use crate::observe::past_jobs;
use gpuctl_cluster::JobFilter;
use gpuctl_cluster::OutageRetry;
use gpuctl_core::error::Error;
use gpuctl_core::model::Event;
use gpuctl_core::model::Job;
use gpuctl_view::Format;
use gpuctl_view::jobs::events;
use gpuctl_view::json_line;

pub(crate) async fn run(args: &EventsArgs, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    let format = options.format;
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let mut job = past_jobs::job(context, &connection, &args.name, LookupPurpose::Read).await?;
    let selector = JobFilter {
        kind: Some(job.kind),
        ..JobFilter::by_name(&job.namespace, &job.name)
    };
    let retry = OutageRetry::new(|failure| context.terminal.warn(&format!("{failure}; retrying")));
    if args.watch {
        context.must_change("remove `--watch`")?;
    }
    let mut printed = BTreeSet::new();
    let mut first = true;
    let mut notifications = connection.watch_events(&job.namespace, &job.name);
    loop {
        let mut events = retry.ask(|| connection.events().for_job(&job)).await?;
        events.retain(|event| event.warning || !args.warnings);
        // By default, the API server deletes events after an hour (`--event-ttl`).
        if first && events.is_empty() {
            context
                .terminal
                .note("no events; clusters keep them for about an hour");
        }
        if !args.watch {
            return list(&events, &job, &options, context).await;
        }
        context.terminal.stream()?;
        events.retain(|event| {
            // Kubernetes counts a repeated event in place, so the key includes the count.
            printed.insert((
                event.at,
                event.object.clone(),
                event.message.clone(),
                event.count,
            ))
        });
        print(&events, format, context)?;
        first = false;
        notifications.changed(None).await;
        match retry
            .ask(|| connection.jobs().list(&selector))
            .await?
            .jobs
            .pop()
        {
            Some(updated) => job = updated,
            // The job was deleted.
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

async fn list(
    events: &[Event],
    job: &Job,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    list::run(options, context, async |_: Refresh<'_>| {
        let names = events
            .iter()
            .map(|event| format!("{} {}", event.object, event.reason))
            .collect();
        let (look, now) = (context.terminal.style(), context.now());
        let table = |format, headers| match format {
            Format::Table if context.terminal.stdout_is_terminal() => {
                events::listing(events, &job.name, look, now)
            }
            _ => events::table(events, format, headers, look, now),
        };
        Ok(Listing::new(
            options,
            &events::list(events),
            "items",
            names,
            table,
        ))
    })
    .await
}

/// Prints one line per event.
fn print(events: &[Event], format: Format, context: &Context) -> Result<(), Error> {
    for event in events {
        let line = match format.is_document() {
            true => format!("{}\n", json_line(&events::event_document(event))),
            false => events::line(event, context.terminal.style()),
        };
        context.terminal.print(&line)?;
    }
    Ok(())
}
