//! `gpuctl scale`: changes the number of replicas of a service.

use std::process::ExitCode;

use crate::cli::jobs::scale::Scale;
use crate::commands::jobs::size::{SizeChange, answer};
use crate::context::Context;
use crate::deploy::size::changeable;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::JobKind;
use gpuctl_view::format::text::count;

pub(crate) async fn run(args: &Scale, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let replicas = args.number.or(args.replicas).unwrap_or_default();
    let connection = context.connect_with(args.dry_run).await?;
    let job = changeable(&connection, &args.name).await?;
    let full_name = format!("{}/{}", job.namespace, job.name);
    match job.kind {
        JobKind::Training => {
            let error = Error::new(
                ErrorName::NotScalable,
                format!(
                    "`{}` is a training job, whose number of ranks cannot change",
                    job.name
                ),
            );
            return Err(error.hint(format!(
                "pause it with `gpuctl pause job {full_name}`, or submit it again with a different \
                 `resources.node_count`"
            )));
        }
        JobKind::Notebook if replicas > 1 => {
            let error = Error::new(
                ErrorName::NotScalable,
                format!("`{}` is a notebook, which always has one pod", job.name),
            );
            return Err(error.hint("submit a second notebook under another name"));
        }
        _ => {}
    }
    let replicas_before = if job.suspended { 0 } else { job.replicas() };
    // Read the autoscaler first: a failure after scaling would hide that the job was scaled.
    let autoscaler = connection.services().autoscaler(&job).await?;
    if replicas != replicas_before {
        connection.jobs().scale(&job, replicas).await?;
    }
    // At 0 replicas, the HorizontalPodAutoscaler is inactive until a user scales up.
    if let Some(autoscaler) = autoscaler.filter(|_| replicas > 0) {
        let (minimum, maximum) = (autoscaler.min_replicas, autoscaler.max_replicas);
        context
            .terminal
            .warn(&format!("the autoscaler keeps between {minimum} and {maximum} replicas and will override this number"));
    }
    let message = match (replicas_before, replicas) {
        (replicas_before, after) if replicas_before == after => {
            format!("{} already", count(after.into(), "replica"))
        }
        (replicas_before, 0) => format!(
            "paused; it had {}",
            count(replicas_before.into(), "replica")
        ),
        (replicas_before, after) => format!(
            "scaled from {replicas_before} to {}",
            count(after.into(), "replica")
        ),
    };
    let change = SizeChange {
        status: if replicas == 0 { "paused" } else { "scaled" },
        before: replicas_before,
        after: replicas,
        message,
    };
    answer(&job, change, args.dry_run, args.output.into(), context)
}
