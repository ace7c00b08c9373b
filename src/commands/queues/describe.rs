//! `gpuctl describe queue`: prints one queue with the jobs in it.

use std::process::ExitCode;

use crate::cli::queues::describe::DescribeQueue;
use crate::context::Context;
use crate::observe::live::{self, OF_JOBS};
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::Wanted;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::{Job, Queue, State, Status};
use gpuctl_view::document;
use gpuctl_view::queues::list as queues;

pub(crate) async fn run(args: &DescribeQueue, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let served = super::served(&connection).await?;
    let (space, name) = args
        .name
        .split_once('/')
        .map_or((None, args.name.as_str()), |(space, name)| {
            (Some(space), name)
        });
    let namespace = space.unwrap_or(&connection.namespace);
    let (queues, unseen) = connection.queues().list(&served, Some(namespace)).await?;
    for system in unseen {
        context
            .terminal
            .warn_missing_permission(&format!("you may not list queues of {}", system.name()));
    }
    let queue = named(&queues, space, name, namespace)?;
    let wanted = Wanted {
        namespace: queue.namespace.clone(),
        ..Wanted::default()
    };
    let selection = connection.jobs().list(&wanted).await?;
    if let Some(unseen) = selection.unseen() {
        context.terminal.warn_missing_permission(&unseen);
    }
    let jobs = selection
        .jobs
        .into_iter()
        .filter(|job| job.is_in(queue))
        .map(|job| (State::of(&job), job));
    let mut jobs: Vec<(State, Job)> = jobs.filter(|(state, _)| !state.status.is_final()).collect();
    // Running jobs come first, then waiting ones, the oldest first.
    jobs.sort_by_key(|(state, job)| (state.status != Status::Running, job.created_at));
    let moment = OptionalMetrics::new(context, &connection)
        .now(&OF_JOBS)
        .await?;
    let figures = moment.map(|moment| {
        let readings = live::of_jobs(&moment, jobs.iter().map(|(_, job)| job));
        live::figures_of_all(&readings, jobs.iter().map(|(_, job)| job))
    });
    let text = document(
        args.output.into(),
        &queues::description(queue, figures, &jobs),
    );
    let look = context.terminal.style();
    context
        .terminal
        .print(&text.unwrap_or_else(|| queues::text(queue, figures, &jobs, look, context.now())))?;
    Ok(ExitCode::SUCCESS)
}

/// Finds the only queue of this name. `space` is the namespace that the user gave.
fn named<'q>(
    queues: &'q [Queue],
    space: Option<&str>,
    name: &str,
    namespace: &str,
) -> Result<&'q Queue, Error> {
    let meant = |queue: &&Queue| {
        queue.name == name && (space.is_none() || queue.namespace.as_deref() == space)
    };
    let mut found = queues.iter().filter(meant);
    let Some(queue) = found.next() else {
        let names: Vec<String> = queues.iter().map(queues::name).collect();
        let existing = if names.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        let message =
            format!("queue `{name}` does not exist in namespace `{namespace}`; {existing}");
        return Err(Error::new(
            ErrorName::reported(ErrorKind::NotFound, "QueueNotFound"),
            message,
        )
        .hint("gpuctl get queues"));
    };
    if let Some(other) = found.next() {
        let message = format!(
            "queue `{name}` exists in {} and in {}",
            queue.system.name(),
            other.system.name()
        );
        let error = Error::new(
            ErrorName::reported(ErrorKind::Usage, "QueueAmbiguous"),
            message,
        );
        return Err(error.hint(format!(
            "that of Kueue: gpuctl describe queue {namespace}/{name}"
        )));
    }
    Ok(queue)
}
