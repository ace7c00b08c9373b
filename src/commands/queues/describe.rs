//! `gpuctl describe queue`: prints one queue with the jobs in it.

use std::process::ExitCode;

use crate::cli::queues::describe::DescribeQueue;
use crate::cluster::Wanted;
use crate::context::Context;
use crate::error::{Error, ErrorKind, ErrorName};
use crate::model::{Job, Queue, State};
use crate::view::{document, queues};

pub(crate) async fn run(args: &DescribeQueue, context: &Context) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let served = super::served(&connection).await?;
    let (namespace, name) = match args.name.split_once('/') {
        Some((namespace, name)) => (namespace, name),
        None => (connection.namespace.as_str(), args.name.as_str()),
    };
    let queues = connection.queues(&served, Some(namespace)).await?;
    let Some(queue) = queues.iter().find(|queue| queue.name == name) else {
        let there: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let there = if there.is_empty() { "there are none".to_owned() } else { format!("there are {}", there.join(", ")) };
        let message = format!("queue `{name}` does not exist in namespace `{namespace}`; {there}");
        return Err(Error::new(ErrorName::reported(ErrorKind::NotFound, "QueueNotFound"), message).hint("gpuctl get queues"));
    };
    let wanted = Wanted { namespace: queue.namespace.clone(), ..Wanted::default() };
    let jobs = connection.jobs(&wanted).await?.jobs.into_iter().filter(|job| is_in(job, queue)).map(|job| (State::of(&job), job));
    let mut jobs: Vec<(State, Job)> = jobs.filter(|(state, _)| !state.status.is_final()).collect();
    // Those that run come first, then those that wait, the oldest first.
    jobs.sort_by_key(|(_, job)| (job.waits_in_queue(), job.created_at));
    let text = document(args.output.into(), &queues::description(queue, &jobs));
    let look = context.terminal.look();
    context.terminal.print(&text.unwrap_or_else(|| queues::text(queue, &jobs, look, context.now())))?;
    Ok(ExitCode::SUCCESS)
}

fn is_in(job: &Job, queue: &Queue) -> bool {
    job.queue.as_deref() == Some(queue.name.as_str())
}
