//! `gpuctl pause`: frees a job's GPUs but keeps the job and its other objects.

use std::process::ExitCode;

use crate::cli::jobs::pause::Paused;
use crate::commands::jobs::size::{SizeChange, change_each};
use crate::context::Context;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::counting::release::Release;
use gpuctl_core::model::{Job, State, Status};

pub(crate) async fn run(args: &Paused, context: &Context) -> Result<ExitCode, Error> {
    change_each(&args.change, "pause", context, pause).await
}

async fn pause(connection: &Connection, job: &Job) -> Result<SizeChange, Error> {
    let state = State::from_job(job);
    if state.status == Status::Paused {
        return Ok(SizeChange {
            status: "paused",
            before: 0,
            after: 0,
            message: "paused already".to_owned(),
        });
    }
    if state.status.is_final() {
        let error = Error::new(
            ErrorName::NotRunning,
            format!("job `{}` has {}", job.name, state.status),
        );
        return Err(error.hint(format!(
            "it holds no GPUs; gpuctl describe job {}/{}",
            job.namespace, job.name
        )));
    }
    if job.kind.serves() {
        connection.jobs().scale(job, 0).await?;
    } else if job.queued {
        // Kueue owns `suspend` on queued jobs, so deactivate the Workload.
        connection.queues().hold(job).await?;
    } else {
        // Kubernetes deletes the active pods of a suspended Job.
        connection.jobs().suspend(job, true).await?;
    }
    let forecast = Release::predict(&job.pods).forecast(("becomes", "become"));
    let freed = match forecast.is_empty() {
        true => forecast,
        false => format!("; {forecast}"),
    };
    let consequence = if job.kind.serves() {
        ""
    } else {
        "; on resume, the command restarts and continues only if it loads a checkpoint"
    };
    Ok(SizeChange {
        status: "paused",
        before: job.replicas(),
        after: 0,
        message: format!("paused{freed}{consequence}"),
    })
}
