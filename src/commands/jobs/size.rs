//! Changes the size of jobs and prints the results, for `scale`, `pause`, `resume` and `restart`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::args::selection::ChangeArgs;
use crate::context::Context;
use crate::deploy::size::{changeable, forbid_deleting};
use crate::lookup::LookupPurpose;
use crate::observe::past_jobs;
use crate::selection::{self, ChangeOptions, full_name};
use gpuctl_cluster::{Connection, DryRun};
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::Job;
use gpuctl_view::jobs::batch::batch;
use gpuctl_view::jobs::scaled::{Scaled, text};
use gpuctl_view::{Format, document};

pub(super) struct SizeChange {
    pub status: &'static str,
    pub before: u32,
    pub after: u32,
    pub message: String,
}

impl SizeChange {
    fn scaled(self, job: &Job, dry_run: Option<DryRun>) -> Scaled {
        Scaled {
            job_id: job.name.clone(),
            namespace: job.namespace.clone(),
            kind: job.kind.word(),
            status: self.status,
            replicas_before: self.before,
            replicas: self.after,
            message: self.message,
            dry_run: dry_run.map(DryRun::word),
        }
    }
}

/// Changes each selected job, even after an error. `verb` is the action in the confirmation.
pub(super) async fn change_each(
    args: &ChangeArgs,
    verb: &str,
    context: &Context,
    change: impl AsyncFn(&Connection, &Job) -> Result<SizeChange, Error>,
) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    context.terminal.set_format(format);
    let connection = context.connect_with(args.dry_run).await?;
    let (mut changed, mut failed) = (Vec::new(), Vec::new());
    let mut jobs = Vec::new();
    if args.jobs.is_by_name() {
        for name in &args.jobs.names {
            let job = match changeable(&connection, name).await {
                Err(error) => Err(past_jobs::with_history(context, &connection, name, error).await),
                found => found,
            };
            jobs.push((name.clone(), job));
        }
    } else {
        let selected =
            selection::jobs(context, &connection, &args.jobs, LookupPurpose::Change).await?;
        let options = ChangeOptions {
            yes: args.yes,
            dry_run: args.dry_run,
        };
        selection::confirm(context, &args.jobs, options, &selected, verb)?;
        jobs.extend(selected.into_iter().map(|job| {
            let name = full_name(&job);
            (name, forbid_deleting(job))
        }));
    }
    // A job that is named twice is changed once.
    let mut seen = BTreeSet::new();
    jobs.retain(|(_, job)| {
        job.as_ref()
            .map_or(true, |job| seen.insert(job.uid.clone()))
    });
    let is_single = jobs.len() == 1;
    for (name, job) in jobs {
        let result = match job {
            Ok(job) => change(&connection, &job)
                .await
                .map(|change| change.scaled(&job, args.dry_run)),
            Err(error) => Err(error),
        };
        match result {
            Ok(scaled) if !format.is_document() => context.terminal.print(&text(&scaled))?,
            Ok(scaled) => changed.push(scaled),
            Err(error) if is_single => return Err(error),
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((name, error));
            }
        }
    }
    let answer = match (is_single, changed.first()) {
        (true, Some(scaled)) => document(format, scaled),
        _ => document(format, &batch(&changed, &failed)),
    };
    context.terminal.print(&answer.unwrap_or_default())?;
    Ok(match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(ErrorKind::Request.exit_code()),
    })
}

pub(super) fn answer(
    job: &Job,
    change: SizeChange,
    dry_run: Option<DryRun>,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let scaled = change.scaled(job, dry_run);
    context
        .terminal
        .print(&document(format, &scaled).unwrap_or_else(|| text(&scaled)))?;
    Ok(ExitCode::SUCCESS)
}
