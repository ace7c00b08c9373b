//! `gpuctl resume`: resumes paused jobs.

use std::process::ExitCode;

use crate::cli::jobs::resume::Resumed;
use crate::commands::jobs::size::{SizeChange, change_each};
use crate::context::Context;
use crate::deploy::errors::ended_error;
use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::{Job, State, Status};
use gpuctl_view::format::text::count;

pub(crate) async fn run(args: &Resumed, context: &Context) -> Result<ExitCode, Error> {
    let resume =
        async |connection: &Connection, job: &Job| resume(connection, job, args.anywhere).await;
    change_each(&args.change, "resume", context, resume).await
}

async fn resume(connection: &Connection, job: &Job, anywhere: bool) -> Result<SizeChange, Error> {
    let status = State::from_job(job).status;
    if status.is_final() {
        return Err(ended_error(job));
    }
    let size = job.replicas();
    let resumed = |before, message| SizeChange {
        status: "resumed",
        before,
        after: size,
        message,
    };
    let leaves_node = anywhere && job.pinned.is_some();
    if status != Status::Paused && !leaves_node && !job.held {
        return Ok(SizeChange {
            status: "unchanged",
            before: size,
            after: size,
            message: format!("it is not paused, its status is {status}: nothing to do"),
        });
    }
    if job.queued && !job.kind.serves() {
        connection.queues().requeue(job).await?;
        let message = "resumed; it will run when its queue admits it".to_owned();
        return Ok(resumed(0, message));
    }
    connection.jobs().resume(job, anywhere).await?;
    let location = match &job.pinned {
        Some(node) if !anywhere => format!(" on its last node {node}"),
        Some(_) => " on any node".to_owned(),
        None => String::new(),
    };
    let pods = count(job.pods_wanted.into(), "pod");
    Ok(resumed(0, format!("resumed with {pods}{location}")))
}
