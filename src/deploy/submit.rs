//! Submits documents: plans and decides all of them, writes each whole or not at all, then waits if
//! that was asked for.

use std::process::ExitCode;

use serde_json::Value;

use crate::context::Context;
use crate::deploy::defaults::{self, of_job};
use crate::deploy::inputs::InputDocument;
use crate::deploy::interrupt::Interruption;
use crate::deploy::options::{DryRun, SubmitOptions};
use crate::deploy::plan::{Plan, PlanningFacts, job, plan};
use crate::deploy::report::outcome;
use crate::deploy::run::{Run, is_among, tell_failed};
use crate::deploy::shared;
use crate::deploy::submit_checks::check;
use crate::deploy::warnings::Warned;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_view::format::objects::ObjectList;
use gpuctl_view::jobs::created;
use gpuctl_view::jobs::created::{DocumentName, site_lines};
use gpuctl_view::jobs::local_files;
use gpuctl_view::{Format, document, json, yaml};

/// Submits the documents, or shows what would be submitted.
pub(crate) async fn submit(
    inputs: Vec<InputDocument>,
    how: &SubmitOptions,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    check(&inputs, how, format)?;
    let (shared, inputs): (Vec<InputDocument>, Vec<InputDocument>) =
        inputs.into_iter().partition(|input| job(input).is_none());
    if how.trust_namespace && how.dry_run.is_none() {
        defaults::trust_namespace(&context.connect().await?, how.private, context).await?;
    }
    if inputs.is_empty() {
        return shared_alone(&shared, how, format, context).await;
    }
    let (connection, mut facts) = match known(context).await {
        Ok((connection, facts)) => (Some(connection), facts),
        Err(error)
            if how.dry_run == Some(DryRun::Client) && error.kind == ErrorKind::Unreachable =>
        {
            context.terminal.warn(&format!(
                "{error}; objects are rendered without knowledge of the nodes"
            ));
            (None, PlanningFacts::default())
        }
        Err(error) => return Err(error),
    };
    facts.foresee(&shared);
    facts.site.require_readable(how.ignore_defaults)?;
    // Nothing is written before every job of the run is known to be one that this cluster has a
    // place for.
    let plans = plan(inputs, connection.as_ref(), &facts, context).await?;
    match (how.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => {
            let before = shared::make(&shared, how, format, false, context).await?;
            tell_failed(&before.failed, how.mode, context);
            show(&plans, format, context)?;
            Ok(before.exit_code())
        }
        (_, Some(connection)) => {
            let run = Run {
                how,
                shared: &shared,
                connection: &connection,
                format,
                context,
                interruption: Interruption::listen(),
            };
            run.write(plans, &facts).await
        }
    }
}

async fn known(context: &Context) -> Result<(Connection, PlanningFacts), Error> {
    let connection = context.connect().await?;
    let facts = PlanningFacts::of(&connection).await?;
    Ok((connection, facts))
}

/// Pools and quotas without a job.
async fn shared_alone(
    shared: &[InputDocument],
    how: &SubmitOptions,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let only = shared.len() == 1;
    let mut refused = if only {
        Vec::new()
    } else {
        shared::judge(shared, how, context).await?
    };
    if refused
        .iter()
        .any(|failed| failed.error.name != ErrorName::AlreadyExists)
    {
        let not_tried: Vec<DocumentName> = shared
            .iter()
            .filter(|input| !is_among(&refused, input))
            .map(InputDocument::name)
            .collect();
        tell_failed(&refused, how.mode, context);
        context.terminal.print(
            &document(format, &created::batch(&[], &refused, &not_tried)).unwrap_or_default(),
        )?;
        return Ok(ExitCode::from(ErrorKind::Request.exit_code()));
    }
    let fresh: Vec<InputDocument> = shared
        .iter()
        .filter(|input| !is_among(&refused, input))
        .cloned()
        .collect();
    let mut before = shared::make(&fresh, how, format, only, context).await?;
    refused.append(&mut before.failed);
    before.failed = refused;
    tell_failed(&before.failed, how.mode, context);
    let answer = match (only, before.made.first()) {
        (true, Some(made)) => document(format, made),
        _ => document(
            format,
            &created::batch(&before.created(), &before.failed, &[]),
        ),
    };
    context.terminal.print(&answer.unwrap_or_default())?;
    Ok(before.exit_code())
}

/// Prints the objects exactly as they would be sent.
fn show(plans: &[Plan], format: Format, context: &Context) -> Result<(), Error> {
    let mut warned = Warned::default();
    plans
        .iter()
        .for_each(|plan| warned.add(plan.job_name(), &plan.rendered.warnings));
    warned.tell(plans.len(), context);
    let objects: Vec<&Value> = plans
        .iter()
        .flat_map(|plan| &plan.rendered.objects)
        .map(|object| &object.body)
        .collect();
    if format.is_document() {
        // The document is what would be sent, so this goes beside it.
        let lines = plans
            .iter()
            .filter_map(|plan| job(&plan.input))
            .flat_map(|job| site_lines(&of_job(job)));
        let files = plans
            .iter()
            .flat_map(|plan| local_files::lines(&plan.input.attached.files));
        lines
            .chain(files)
            .for_each(|line| context.terminal.report(&line));
    }
    let text = match format {
        Format::Json => json(&ObjectList::of(objects)),
        Format::Yaml => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        _ => plans
            .iter()
            .map(|plan| created::text(&outcome(plan, &Value::Null, true)))
            .collect(),
    };
    context.terminal.print(&text)?;
    Ok(())
}
