//! Submits documents for `create`, `apply` and `run`, and shows the results.

use std::cell::RefCell;
use std::process::ExitCode;

use serde_json::Value;

use crate::context::Context;
use crate::deploy::defaults::inherited_values;
use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::follow::{SubmittedLog, unsuccessful_end};
use crate::deploy::inputs::InputDocument;
use crate::deploy::options::{SubmitOptions, WaitGoal};
use crate::deploy::plan::{Plan, job};
use crate::deploy::report::outcome;
use crate::deploy::run::WrittenRun;
use crate::deploy::shared::SharedOutcome;
use crate::deploy::submit::{self, Submission};
use crate::deploy::submit_checks::check;
use crate::deploy::warnings::DeduplicatedWarnings;
use crate::show::reporter::TerminalReporter;
use crate::show::silence::LogSilence;
use gpuctl_cluster::LogEvent;
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::contract::submission::Created;
use gpuctl_view::format::objects::ObjectList;
use gpuctl_view::jobs::created::{batch, site_lines, text};
use gpuctl_view::jobs::local_files;
use gpuctl_view::jobs::logs::{self, JobPrefix, PodLogLine, Prefix};
use gpuctl_view::{Format, document, json, yaml};

/// Submits the documents, or shows what would be submitted.
pub(crate) async fn submit(
    inputs: Vec<InputDocument>,
    options: &SubmitOptions,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    check(&inputs, options)?;
    if options.follow && format.is_document() {
        return Err(no_log_beside_a_document(&inputs));
    }
    let reporter = TerminalReporter::new(&context.terminal, format);
    match submit::submit(inputs, options, context, &reporter).await? {
        Submission::Rendered { plans, shared } => {
            show_rendered(&plans, format, context, &reporter)?;
            Ok(code_of_shared(&shared))
        }
        Submission::Shared(outcome) => {
            let answer = match (outcome.is_single, outcome.made.first()) {
                (true, Some(result)) => document(format, result),
                _ => {
                    let created = outcome.created();
                    document(
                        format,
                        &batch(&created, &outcome.failed, &outcome.not_tried),
                    )
                }
            };
            context.terminal.print(&answer.unwrap_or_default())?;
            Ok(code_of_shared(&outcome))
        }
        Submission::Written(run) => finish(*run, options, format, context).await,
    }
}

/// Builds the error for `--follow` with `-o`: stdout cannot contain both a document and the log.
fn no_log_beside_a_document(inputs: &[InputDocument]) -> Error {
    let name = inputs
        .iter()
        .find(|input| job(input).is_some())
        .map_or("", |input| input.document.name());
    let error = Error::usage("`--follow` prints the log, so it cannot be combined with `-o`");
    error.hint(format!(
        "submit first, then `gpuctl logs {name} -f -o json`"
    ))
}

fn code_of_shared(outcome: &SharedOutcome) -> ExitCode {
    code((!outcome.failed.is_empty()).then_some(ErrorKind::Request))
}

fn code(failure: Option<ErrorKind>) -> ExitCode {
    failure.map_or(ExitCode::SUCCESS, |kind| ExitCode::from(kind.exit_code()))
}

/// Prints the answer, then follows the log or suggests the next command.
async fn finish(
    run: WrittenRun,
    options: &SubmitOptions,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let jobs = &run.jobs;
    if !run.has_reader {
        return Ok(code(jobs.kind()));
    }
    let answer = match (run.single, jobs.done.first()) {
        (true, Some(created)) => document(format, created),
        _ => document(
            format,
            &batch(
                &[&run.shared[..], &jobs.done].concat(),
                &jobs.failed,
                &jobs.not_tried,
            ),
        ),
    };
    if let Some(text) = answer {
        context.terminal.print(&text)?;
    }
    let code = code(jobs.kind());
    let first = jobs.done.first().cloned();
    run.waited.clone()?;
    match first {
        Some(created) if options.follow => follow(&run, &created, context).await,
        Some(created) if options.dry_run.is_none() => {
            context.terminal.hint(&next_command(&created, options.wait));
            Ok(code)
        }
        _ => Ok(code),
    }
}

/// The command that users usually run next.
fn next_command(created: &Created, goal: Option<WaitGoal>) -> String {
    let full_name = format!("{}/{}", created.namespace, created.job_id);
    match created.kind {
        "notebook" => format!("gpuctl open {full_name}"),
        _ if goal == Some(WaitGoal::Complete) => format!("gpuctl logs {full_name}"),
        _ => format!("gpuctl logs {full_name} -f"),
    }
}

/// Follows the logs of all pods until the job ends.
async fn follow(run: &WrittenRun, created: &Created, context: &Context) -> Result<ExitCode, Error> {
    let terminal = &context.terminal;
    terminal.stream()?;
    let log = SubmittedLog::find(&run.connection, created).await?;
    let prefix = Prefix {
        job: JobPrefix::None,
        rank: log.job.pods_wanted > 1,
        timestamps: false,
    };
    let style = terminal.style();
    let mut failed = None;
    let silence = LogSilence::begin();
    let sink = RefCell::new(|event: LogEvent| match event {
        LogEvent::Line { pod, rank, line } => {
            silence.end();
            let line = PodLogLine {
                namespace: log.job.namespace.clone(),
                job: log.job.name.clone(),
                pod,
                rank,
                container: log.query.container.clone(),
                at: line.at,
                text: line.text,
            };
            failed = failed.take().or_else(|| {
                terminal
                    .print(&logs::text(&line, prefix, style, false))
                    .err()
            });
        }
        LogEvent::Note(text) => terminal.note(&logs::remark(&text)),
    });
    let state = tokio::select! {
        state = log.follow(&run.connection, &run.interruption, &sink) => state?,
        never = silence.report(&log.job.name, terminal) => match never {},
    };
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(error) = unsuccessful_end(&log.job, state.as_ref()) {
        return Err(error);
    }
    if let Some(state) = state {
        terminal.note(&logs::ending(&log.job.name, &state));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the objects exactly as gpuctl would send them.
fn show_rendered(
    plans: &[Plan],
    format: Format,
    context: &Context,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let mut warned = DeduplicatedWarnings::default();
    plans
        .iter()
        .for_each(|plan| warned.add(plan.job_name(), &plan.rendered.warnings));
    warned.report(plans.len(), reporter);
    let objects: Vec<&Value> = plans
        .iter()
        .flat_map(|plan| &plan.rendered.objects)
        .map(|object| &object.body)
        .collect();
    if format.is_document() {
        // Print notices to stderr: the document on stdout contains only objects.
        let lines = plans
            .iter()
            .filter_map(|plan| job(&plan.input))
            .flat_map(|job| site_lines(&inherited_values(job)));
        let files = plans
            .iter()
            .flat_map(|plan| local_files::lines(&plan.input.attached.files));
        lines
            .chain(files)
            .for_each(|line| reporter.report(DeployEvent::Report(&line)));
    }
    let text = match format {
        Format::Json => json(&ObjectList::new(objects)),
        Format::Yaml => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        _ => plans
            .iter()
            .map(|plan| text(&outcome(plan, &Value::Null, true, "created")))
            .collect(),
    };
    context.terminal.print(&text)
}
