//! `gpuctl restart`: replaces a job's pods. Evicts the pods of trainings and notebooks, because
//! evictions do not count as failures. Resubmits a job that has ended.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::jobs::restart::Restarted;
use crate::commands::jobs::size::{SizeChange, change_each};
use crate::context::Context;
use crate::deploy::options::{Mode, SubmitOptions};
use crate::deploy::stored;
use crate::deploy::submit::{Submission, submit};
use crate::deploy::submit_checks::check;
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::{Job, JobKind, Pod, State, Status};
use gpuctl_view::Format;
use gpuctl_view::format::text::count;

pub(crate) async fn run(args: &Restarted, context: &Context) -> Result<ExitCode, Error> {
    let restart = async |connection: &Connection, job: &Job| {
        let has_ended = State::from_job(job).status.is_final();
        match args.rank {
            None if has_ended || !args.sets.is_empty() => {
                resubmit(connection, job, args, context).await
            }
            rank => restart(connection, job, rank, context).await,
        }
    };
    change_each(&args.change, "restart", context, restart).await
}

async fn restart(
    connection: &Connection,
    job: &Job,
    rank: Option<u32>,
    context: &Context,
) -> Result<SizeChange, Error> {
    let state = State::from_job(job);
    if state.status.is_final() {
        let message = format!("job `{}` has already ended: {}", job.name, state.status);
        return Err(Error::new(ErrorName::JobEnded, message).hint(format!(
            "omit `--rank`: `gpuctl restart {}/{}` runs all ranks again",
            job.namespace, job.name
        )));
    }
    if state.status == Status::Paused {
        let message = format!("cannot restart job `{}`: it is paused", job.name);
        let hint = format!("gpuctl resume job {}/{}", job.namespace, job.name);
        return Err(Error::new(ErrorName::NotRunning, message).hint(hint));
    }
    let pods = select_pods(job, rank)?;
    let lost_pods: Vec<&Pod> = pods.iter().copied().filter(|pod| pod.is_lost()).collect();
    if job.kind.is_replicated() {
        // Change an annotation of the pod template, as `kubectl rollout restart` does.
        connection.jobs().roll(job, context.now()).await?;
    } else {
        evict(connection, job, &pods).await?;
    }
    for pod in &lost_pods {
        // The kubelet of a lost node cannot confirm a deletion, so force it.
        connection.jobs().force_delete(&job.namespace, pod).await?;
    }
    let nodes: BTreeSet<&str> = lost_pods
        .iter()
        .filter_map(|pod| pod.node.as_deref())
        .collect();
    if !nodes.is_empty() {
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(", ");
        context
            .terminal
            .warn(&format!("{nodes} did not respond: containers of job `{}` may still be running there and writing its files", job.name));
    }
    Ok(SizeChange {
        status: "restarting",
        before: job.pods_wanted,
        after: job.pods_wanted,
        message: message(job, rank, pods.len()),
    })
}

/// Resubmits the job's stored document with the overrides from the command line.
async fn resubmit(
    connection: &Connection,
    job: &Job,
    args: &Restarted,
    context: &Context,
) -> Result<SizeChange, Error> {
    let inputs = vec![stored::document(connection, job, &args.sets).await?];
    let options = SubmitOptions {
        mode: Mode::Apply {
            force_conflicts: false,
            replace: true,
        },
        dry_run: args.change.dry_run,
        ..SubmitOptions::default()
    };
    check(&inputs, &options)?;
    // The caller prints the result. The reporter prints only warnings and notes.
    let reporter = TerminalReporter::new(&context.terminal, Format::Json);
    let action = match submit(inputs, &options, context, &reporter).await? {
        Submission::Written(run) => {
            run.waited.clone()?;
            run.jobs.done.first().and_then(|created| created.action)
        }
        // A client-side dry run does not compute changes.
        Submission::Rendered { .. } | Submission::Shared(_) => None,
    };
    let (status, message) = match action {
        Some("updated") => ("updated", "updated in place"),
        Some("unchanged") => ("unchanged", "the stored YAML already has these values"),
        _ => ("resubmitted", "submitted again from its stored YAML"),
    };
    Ok(SizeChange {
        status,
        before: job.pods_wanted,
        after: job.pods_wanted,
        message: message.to_owned(),
    })
}

/// Evicts pods one after another. If an eviction fails, the error lists the pods that were evicted.
async fn evict(connection: &Connection, job: &Job, pods: &[&Pod]) -> Result<(), Error> {
    for (index, pod) in pods.iter().enumerate() {
        let result = connection.jobs().evict(&job.namespace, pod).await;
        let evicted_pods: Vec<&str> = pods[..index].iter().map(|pod| pod.name.as_str()).collect();
        result.map_err(|failure| {
            let error = Error::from(failure);
            if evicted_pods.is_empty() {
                error
            } else {
                error.note(format!("already evicted: {}", evicted_pods.join(", ")))
            }
        })?;
    }
    Ok(())
}

fn message(job: &Job, rank: Option<u32>, pods: usize) -> String {
    match (job.kind, rank) {
        (JobKind::Training, Some(rank)) => {
            format!("rank {rank} gets a new pod; the eviction does not count as a retry")
        }
        (JobKind::Training, None) => format!(
            "replacing {}; evictions do not count as retries, and the command continues only if it loads a checkpoint",
            count(pods as u64, "pod")
        ),
        (JobKind::Notebook, _) => "replacing its pod; in-memory data is lost".to_owned(),
        _ => format!(
            "replacing {}, one at a time",
            count(job.pods_wanted.into(), "pod")
        ),
    }
}

/// Selects the pods to replace.
fn select_pods(job: &Job, rank: Option<u32>) -> Result<Vec<&Pod>, Error> {
    let pods: Vec<&Pod> = job
        .current_pods()
        .into_iter()
        .filter(|pod| !pod.ended())
        .collect();
    let no_pods = |subject: String| {
        let error = Error::new(
            ErrorName::NotRunning,
            format!("{subject} currently has no pods"),
        );
        error.hint(format!(
            "gpuctl describe job {}/{}",
            job.namespace, job.name
        ))
    };
    let Some(rank) = rank else {
        return if pods.is_empty() {
            Err(no_pods(format!("job `{}`", job.name)))
        } else {
            Ok(pods)
        };
    };
    if job.kind != JobKind::Training {
        return Err(Error::usage(format!(
            "`{}` is not a training job, so it has no ranks",
            job.name
        ))
        .hint("remove `--rank`"));
    }
    if rank >= job.pods_wanted {
        let ranks = match job.pods_wanted {
            0 => "no ranks".to_owned(),
            1 => "rank 0 only".to_owned(),
            pods => format!("ranks 0 to {}", pods - 1),
        };
        let error = Error::new(
            ErrorName::NotFound,
            format!("job `{}` has {ranks}, not {rank}", job.name),
        );
        return Err(error.hint(format!(
            "gpuctl describe job {}/{}",
            job.namespace, job.name
        )));
    }
    let selected: Vec<&Pod> = pods
        .into_iter()
        .filter(|pod| pod.rank == Some(rank))
        .collect();
    if selected.is_empty() {
        Err(no_pods(format!("rank {rank} of job `{}`", job.name)))
    } else {
        Ok(selected)
    }
}
