//! `gpuctl events`: prints what the cluster reported about a job and its parts, in order of time.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::jobs::events::Events;
use crate::cluster::{Patience, Wanted};
use crate::context::Context;
use crate::error::Error;
use crate::lookup::{self, Purpose};
use crate::view::{Format, document, events};

const STEP: Duration = Duration::from_secs(1);

pub async fn run(args: &Events, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect().await?;
    let mut job = lookup::job(&connection, &args.name, Purpose::Read).await?;
    let wanted = Wanted::one(&job.namespace, &job.name);
    let patience = Patience::new(|failure| context.terminal.warn(&format!("{failure}; trying again")));
    let mut seen = BTreeSet::new();
    let mut first = true;
    loop {
        let mut found = patience.ask(|| connection.job_events(&job)).await?;
        found.retain(|event| event.warning || !args.warnings);
        if first && found.is_empty() {
            context.terminal.note("no events; the cluster forgets them after an hour or so");
        }
        if !args.watch {
            let text =
                document(format, &events::list(&found)).unwrap_or_else(|| match found.is_empty() && format != Format::Csv {
                    true => String::new(),
                    false if format == Format::Table && context.terminal.out_is_terminal() => {
                        events::listing(&found, &job.name, context.terminal.look(), context.now())
                    }
                    false => events::table(&found, format, !args.no_headers, context.terminal.look(), context.now()),
                });
            context.terminal.print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        found.retain(|event| seen.insert((event.at, event.object.clone(), event.message.clone(), event.count)));
        for event in &found {
            let line = match format.is_document() {
                true => format!("{}\n", serde_json::to_string(&events::event_document(event)).expect("an event is JSON")),
                false => events::line(event, context.terminal.look()),
            };
            context.terminal.print(&line)?;
        }
        first = false;
        tokio::time::sleep(STEP).await;
        match patience.ask(|| connection.jobs(&wanted)).await?.jobs.pop() {
            Some(found) => job = found,
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}
