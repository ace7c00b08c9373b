//! Changes how many pods a job has, for `scale`, `pause` and `resume`.

use std::process::ExitCode;

use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::Job;
use gpuctl_view::jobs::scaled::{Scaled, text};
use gpuctl_view::{Format, document};

/// Finds the job, and refuses one that is being deleted.
pub(crate) async fn changeable(connection: &Connection, name: &str) -> Result<Job, Error> {
    let job = lookup::job(connection, name, LookupPurpose::Change).await?;
    if job.deleting {
        return Err(Error::new(
            ErrorName::Terminating,
            format!("job `{}` is being deleted", job.name),
        ));
    }
    Ok(job)
}

pub(crate) struct SizeChange {
    pub status: &'static str,
    pub before: u32,
    pub after: u32,
    pub message: String,
}

pub(crate) fn answer(
    job: &Job,
    change: SizeChange,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let scaled = Scaled {
        job_id: job.name.clone(),
        namespace: job.namespace.clone(),
        kind: job.kind.word(),
        status: change.status,
        replicas_before: change.before,
        replicas: change.after,
        message: change.message,
    };
    context
        .terminal
        .print(&document(format, &scaled).unwrap_or_else(|| text(&scaled)))?;
    Ok(ExitCode::SUCCESS)
}
