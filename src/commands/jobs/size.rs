//! Prints how the number of a job's pods changes, for `scale`, `pause`, `resume` and `restart`.

use std::process::ExitCode;

use crate::context::Context;
use gpuctl_core::error::Error;
use gpuctl_core::model::Job;
use gpuctl_view::jobs::scaled::{Scaled, text};
use gpuctl_view::{Format, document};

pub(super) struct SizeChange {
    pub status: &'static str,
    pub before: u32,
    pub after: u32,
    pub message: String,
}

pub(super) fn answer(
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
