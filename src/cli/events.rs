//! `events`: what the cluster reported about a job and its parts, all of it in order.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::cluster::{Patience, Wanted};
use crate::error::Error;
use crate::view::{Format, document, events};

use super::lookup::{self, Purpose};
use super::{ListFormat, World, completion};

/// Show what happened to a job: placing, pulling, restarts, refusals
///
/// The cluster keeps events for an hour or so.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl events llama3-8b
  gpuctl events llama3-8b --warnings -o json
  gpuctl events llama3-8b -w")]
pub struct Events {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// Only what went wrong
    #[arg(long)]
    warnings: bool,
    /// Go on with what happens, one event a line
    #[arg(short, long)]
    watch: bool,
    /// Leave the titles out
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: ListFormat,
}

const STEP: Duration = Duration::from_secs(1);

pub async fn run(args: &Events, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let connection = world.connect().await?;
    let mut job = lookup::job(&connection, &args.name, Purpose::Read).await?;
    let wanted = Wanted::one(&job.namespace, &job.name);
    let patience = Patience::new(|failure| world.terminal.warn(&format!("{failure}; trying again")));
    let mut seen = BTreeSet::new();
    let mut first = true;
    loop {
        let mut found = patience.ask(|| connection.job_events(&job)).await?;
        found.retain(|event| event.warning || !args.warnings);
        if first && found.is_empty() {
            world.terminal.note("no events; the cluster forgets them after an hour or so");
        }
        if !args.watch {
            let text =
                document(format, &events::list(&found)).unwrap_or_else(|| match found.is_empty() && format != Format::Csv {
                    true => String::new(),
                    false if format == Format::Table && world.terminal.out_is_terminal() => {
                        events::listing(&found, &job.name, world.terminal.look(), world.now())
                    }
                    false => events::table(&found, format, !args.no_headers, world.terminal.look(), world.now()),
                });
            world.terminal.print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        found.retain(|event| seen.insert((event.at, event.object.clone(), event.message.clone(), event.count)));
        for event in &found {
            let line = match format.is_document() {
                true => format!("{}\n", serde_json::to_string(&events::event_document(event)).expect("an event is JSON")),
                false => events::line(event, world.terminal.look()),
            };
            world.terminal.print(&line)?;
        }
        first = false;
        tokio::time::sleep(STEP).await;
        match patience.ask(|| connection.jobs(&wanted)).await?.jobs.pop() {
            Some(found) => job = found,
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}
