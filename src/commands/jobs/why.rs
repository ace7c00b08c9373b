//! `gpuctl why`: explains why a job waits, does not start or has failed.

use std::process::ExitCode;

use crate::cli::jobs::why::WhyArgs;
use crate::context::Context;
use crate::lookup;
use crate::observe::deleted;
use crate::observe::ranks::RankQueries;
use crate::observe::why::{self, DiagnosedJob};
use crate::observe::why_subject;
use gpuctl_cluster::{Connection, JobFilter};
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::{Job, State, Status};
use gpuctl_diagnosis::Situation;
use gpuctl_view::jobs::why::{WhyList, WhyRow, item, lines, text};
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &WhyArgs, context: &Context) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let queries = RankQueries {
        ras: args.ras,
        stacks: args.stacks,
    };
    if queries.ras || queries.stacks {
        // Both options read from running containers, which a bundle does not have.
        context.must_change("remove `--ras` and `--stacks`")?;
    }
    let connection = context.connect().await?;
    let Some(name) = &args.name else {
        return diagnose_all_jobs(&connection, format, context).await;
    };
    let diagnosed = match why_subject::subject(&connection, name).await {
        Ok((subject, job)) => {
            why::diagnose_job(&connection, subject, job, None, queries, context).await?
        }
        Err(error) if error.kind == ErrorKind::NotFound => {
            deleted::diagnose_deleted(context, &connection, name)
                .await
                .ok_or(error)?
        }
        Err(error) => return Err(error),
    };
    let row = row(&diagnosed);
    let answer = document(format, &item(&row));
    context
        .terminal
        .print(&answer.unwrap_or_else(|| text(&row, context.terminal.style(), context.now())))?;
    if diagnosed.answer.coverage.events == "forbidden" {
        context.terminal.warn_missing_permission(
            "you are not allowed to list events: details recorded only in events are missing",
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn diagnose_all_jobs(
    connection: &Connection,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let namespace = lookup::explicit_namespace(connection);
    let selection = connection
        .jobs()
        .list(&JobFilter {
            namespace: namespace.map(ToOwned::to_owned),
            ..JobFilter::default()
        })
        .await?;
    lookup::check_empty(connection, namespace, selection.jobs.is_empty()).await?;
    if let Some(unseen) = selection.unseen() {
        context.terminal.warn_missing_permission(&unseen);
    }
    let mut jobs: Vec<Job> = selection
        .jobs
        .into_iter()
        .filter(may_have_problem)
        .collect();
    // The sort is stable, so jobs of the same size stay in the order of their names.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.gpus()));
    let mut diagnosed = why::diagnose_all(connection, jobs, context).await?;
    diagnosed.retain(|diagnosed_job| diagnosed_job.answer.situation != Situation::Fine);
    let rows: Vec<WhyRow<'_>> = diagnosed.iter().map(row).collect();
    if rows.is_empty() {
        context
            .terminal
            .report("no jobs are waiting or have failed");
    }
    let answer = document(
        format,
        &WhyList {
            total: rows.len(),
            items: rows.iter().map(item).collect(),
        },
    );
    context
        .terminal
        .print(&answer.unwrap_or_else(|| lines(&rows, context.terminal.style())))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a job may have a problem. This excludes jobs that simply run, have finished or were
/// paused.
fn may_have_problem(job: &Job) -> bool {
    let state = State::from_job(job);
    match state.status {
        Status::Succeeded | Status::Paused => false,
        Status::Running => state.reason.is_some(),
        _ => true,
    }
}

fn row(diagnosed: &DiagnosedJob) -> WhyRow<'_> {
    WhyRow {
        name: &diagnosed.job.name,
        namespace: &diagnosed.job.namespace,
        kind: &diagnosed.subject.kind,
        answer: &diagnosed.answer,
    }
}
