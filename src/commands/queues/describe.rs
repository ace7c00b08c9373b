//! `gpuctl describe queue`: prints a queue and its jobs.

use std::process::ExitCode;

use crate::cli::queues::describe::DescribeQueue;
use crate::context::Context;
use crate::lookup;
use crate::observe::live::{self, JOB_QUANTITIES};
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::JobFilter;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::{Job, Queue, State, Status};
use gpuctl_view::document;
use gpuctl_view::queues::list as queues;

pub(crate) async fn run(args: &DescribeQueue, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let served = super::served(&connection).await?;
    let (given_namespace, name) = args
        .name
        .split_once('/')
        .map_or((None, args.name.as_str()), |(given_namespace, name)| {
            (Some(given_namespace), name)
        });
    let explicit_namespace = lookup::explicit_namespace(&connection);
    lookup::check_namespace(explicit_namespace, given_namespace, name)?;
    let namespace = given_namespace.unwrap_or(&connection.namespace);
    let (queues, unseen) = connection.queues().list(&served, Some(namespace)).await?;
    for system in unseen {
        context.terminal.warn_missing_permission(&format!(
            "you are not allowed to list {} queues",
            system.name()
        ));
    }
    let requested_namespace = given_namespace.or(explicit_namespace);
    lookup::check_empty(&connection, requested_namespace, queues.is_empty()).await?;
    let queue = find_queue(&queues, given_namespace, name, namespace)?;
    let selector = JobFilter {
        namespace: queue.namespace.clone(),
        ..JobFilter::default()
    };
    let selection = connection.jobs().list(&selector).await?;
    if let Some(unseen) = selection.unseen() {
        context.terminal.warn_missing_permission(&unseen);
    }
    let jobs = selection
        .jobs
        .into_iter()
        .filter(|job| job.is_in(queue))
        .map(|job| (State::from_job(&job), job));
    let mut jobs: Vec<(State, Job)> = jobs.filter(|(state, _)| !state.status.is_final()).collect();
    // Sort running jobs before waiting ones, oldest first.
    jobs.sort_by_key(|(state, job)| (state.status != Status::Running, job.created_at));
    let reading = OptionalMetrics::new(context, &connection)
        .now(&JOB_QUANTITIES)
        .await?;
    let figures = reading.map(|reading| {
        let readings = live::job_readings(&reading, jobs.iter().map(|(_, job)| job));
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

/// Returns the only queue with this name. `given_namespace` is the namespace in the arguments.
fn find_queue<'q>(
    queues: &'q [Queue],
    given_namespace: Option<&str>,
    name: &str,
    namespace: &str,
) -> Result<&'q Queue, Error> {
    let matches = |queue: &&Queue| {
        queue.name == name
            && (given_namespace.is_none() || queue.namespace.as_deref() == given_namespace)
    };
    let mut matching = queues.iter().filter(matches);
    let Some(queue) = matching.next() else {
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
    if let Some(second) = matching.next() {
        let message = format!(
            "queue `{name}` exists in both {} and {}",
            queue.system.name(),
            second.system.name()
        );
        let error = Error::new(
            ErrorName::reported(ErrorKind::Usage, "QueueAmbiguous"),
            message,
        );
        return Err(error.hint(format!(
            "for the Kueue queue: gpuctl describe queue {namespace}/{name}"
        )));
    }
    Ok(queue)
}
