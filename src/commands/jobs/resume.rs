//! `gpuctl resume`: continues a paused job.

use std::process::ExitCode;

use crate::cli::jobs::resume::Resumed;
use crate::commands::jobs::size::{SizeChange, answer};
use crate::context::Context;
use crate::deploy::size::changeable;
use gpuctl_core::error::Error;
use gpuctl_core::model::{State, Status};
use gpuctl_view::format::text::count;

pub(crate) async fn run(args: &Resumed, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let job = changeable(&connection, &args.name).await?;
    let leaves_node = args.anywhere && job.pinned.is_some();
    if State::from_job(&job).status != Status::Paused && !leaves_node && !job.held {
        let size = job.replicas();
        let change = SizeChange {
            status: "resumed",
            before: size,
            after: size,
            message: "it was not paused".to_owned(),
        };
        return answer(&job, change, None, args.output.into(), context);
    }
    if job.queued && !job.kind.serves() {
        connection.queues().requeue(&job).await?;
        let message = "resumed; it will run when its queue admits it".to_owned();
        return answer(
            &job,
            SizeChange {
                status: "resumed",
                before: 0,
                after: job.replicas(),
                message,
            },
            None,
            args.output.into(),
            context,
        );
    }
    connection.jobs().resume(&job, args.anywhere).await?;
    let location = match &job.pinned {
        Some(node) if !args.anywhere => format!(" on its last node {node}"),
        Some(_) => " on any node".to_owned(),
        None => String::new(),
    };
    let message = format!(
        "resumed with {}{location}",
        count(job.pods_wanted.into(), "pod")
    );
    answer(
        &job,
        SizeChange {
            status: "resumed",
            before: 0,
            after: job.replicas(),
            message,
        },
        None,
        args.output.into(),
        context,
    )
}
