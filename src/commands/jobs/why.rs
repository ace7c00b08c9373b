//! `gpuctl why`: explains why jobs wait, do not start, are slow or have failed.

use std::process::ExitCode;

use crate::cli::jobs::why::WhyArgs;
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::deleted;
use crate::observe::past_jobs;
use crate::observe::ranks::RankQueries;
use crate::observe::why::{self, DiagnosedJob};
use crate::observe::why_all;
use crate::observe::why_subject;
use crate::selection;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::values::text::count;
use gpuctl_diagnosis::Situation;
use gpuctl_view::jobs::why::{WhyRow, item, text};
use gpuctl_view::jobs::why_list;
use gpuctl_view::{Format, document};

/// Number of named jobs to diagnose concurrently.
const MAX_CONCURRENT: usize = 8;

pub(crate) async fn run(args: &WhyArgs, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let queries = RankQueries {
        ras: args.ras,
        stacks: args.stacks,
    };
    if queries.ras || queries.stacks {
        // Both options query running containers, which a bundle does not contain.
        context.must_change("remove `--ras` and `--stacks`")?;
    }
    let connection = context.connect().await?;
    if args.all {
        return diagnose_all_jobs(&connection, format, context).await;
    }
    if let Some(name) = args.jobs.one_name() {
        let diagnosed = diagnose_named(&connection, name, queries, context).await?;
        let row = row(&diagnosed);
        let answer = document(format, &item(&row));
        let (style, now) = (context.terminal.style(), context.now());
        let text = answer.unwrap_or_else(|| text(&row, style, now));
        context.terminal.print(&text)?;
        warn_of_events(&[diagnosed], context);
        return Ok(ExitCode::SUCCESS);
    }
    diagnose_selection(args, &connection, queries, format, context).await
}

/// Diagnoses the job, pod or workload with this name, even if it was deleted.
async fn diagnose_named(
    connection: &Connection,
    name: &str,
    queries: RankQueries,
    context: &Context,
) -> Result<DiagnosedJob, Error> {
    match why_subject::subject(connection, name).await {
        Ok((subject, job)) => {
            why::diagnose_job(connection, subject, job, None, queries, context).await
        }
        Err(error) if error.kind == ErrorKind::NotFound => {
            match deleted::diagnose_deleted(context, connection, name).await {
                Some(diagnosed) => Ok(diagnosed),
                None => Err(past_jobs::with_history(context, connection, name, error).await),
            }
        }
        Err(error) => Err(error),
    }
}

/// Diagnoses several jobs. Those that cannot be diagnosed are an error after the others are
/// printed.
async fn diagnose_selection(
    args: &WhyArgs,
    connection: &Connection,
    queries: RankQueries,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let (mut diagnosed, mut errors) = (Vec::<DiagnosedJob>::new(), Vec::new());
    if args.jobs.is_by_name() {
        let names = args.jobs.names.iter();
        let reads = names.map(|name| diagnose_named(connection, name, queries, context));
        for result in OrderedConcurrent::new(reads, MAX_CONCURRENT).all().await {
            match result {
                Ok(new) if !diagnosed.iter().any(|old| old.is_same(&new)) => diagnosed.push(new),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
    } else {
        let jobs = selection::jobs(context, connection, &args.jobs, LookupPurpose::Read).await?;
        diagnosed = why::diagnose_all(connection, jobs, queries, context).await?;
    }
    let failure = errors
        .into_iter()
        .reduce(|first, other| first.note(other.message));
    if let (true, Some(error)) = (diagnosed.is_empty(), &failure) {
        return Err(error.clone());
    }
    let rows: Vec<WhyRow<'_>> = diagnosed.iter().map(row).collect();
    let answer = document(format, &why_list::list(&rows));
    let (style, now) = (context.terminal.style(), context.now());
    let text = answer.unwrap_or_else(|| why_list::blocks(&rows, style, now));
    context.terminal.print(&text)?;
    warn_of_events(&diagnosed, context);
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn warn_of_events(diagnosed: &[DiagnosedJob], context: &Context) {
    let is_forbidden = |job: &DiagnosedJob| job.answer.coverage.events == "forbidden";
    if diagnosed.iter().any(is_forbidden) {
        context.terminal.warn_missing_permission(
            "you are not allowed to list events: details recorded only in events are missing",
        );
    }
}

async fn diagnose_all_jobs(
    connection: &Connection,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let namespace = lookup::explicit_namespace(connection);
    let suspects = why_all::suspects(context, connection, namespace).await?;
    let total = suspects.job_count + suspects.workload_count.unwrap_or_default();
    lookup::check_empty(connection, namespace, total == 0).await?;
    let is_partial = !suspects.unseen.is_empty();
    let mut diagnosed =
        why::diagnose_subjects(connection, suspects.jobs, RankQueries::default(), context).await?;
    let unchecked = diagnosed
        .iter()
        .filter(|job| job.answer.is_unchecked)
        .count();
    diagnosed.retain(|job| job.answer.situation != Situation::Fine && !job.answer.is_unchecked);
    let rows: Vec<WhyRow<'_>> = diagnosed.iter().map(row).collect();
    let place = match namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None if is_partial => "the namespaces that you can read".to_owned(),
        None => "all namespaces".to_owned(),
    };
    let others = match suspects.workload_count {
        Some(count) => format!(" and {count} other workloads with GPUs"),
        None => String::new(),
    };
    let total = suspects.job_count;
    context.terminal.note(&format!(
        "with a problem: {} of {total} gpuctl jobs{others} in {place}",
        rows.len()
    ));
    if unchecked > 0 {
        context.terminal.note(&format!(
            "{} could not be checked completely; see `gpuctl why NAME`",
            count(unchecked as u64, "running job")
        ));
    }
    let answer = document(format, &why_list::list(&rows));
    let style = context.terminal.style();
    context
        .terminal
        .print(&answer.unwrap_or_else(|| why_list::lines(&rows, style)))?;
    Ok(ExitCode::SUCCESS)
}

fn row(diagnosed: &DiagnosedJob) -> WhyRow<'_> {
    let job = &diagnosed.job;
    WhyRow {
        name: &job.name,
        namespace: &job.namespace,
        kind: &diagnosed.subject.kind,
        is_managed: diagnosed.subject.is_managed,
        gpus_held: job.gpus_held(),
        gpus_lacking: job.gpus_lacking(),
        answer: &diagnosed.answer,
    }
}
