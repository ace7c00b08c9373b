//! Follows the log of a training that was just submitted, until it ends, and returns the exit code
//! of its command as ours, as `docker run` does.

use std::cell::RefCell;
use std::process::ExitCode;

use crate::context::Context;
use crate::deploy::interrupt::Interruption;
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{Connection, LogEvent, LogQuery, Wanted};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::{ContainerEnd, Job, OWN_CONTAINER, Pod, State, Status};
use gpuctl_view::jobs::created::Created;
use gpuctl_view::jobs::logs;
use gpuctl_view::jobs::logs::{PodLogLine, Prefix};

/// Prints the log of all pods as it is written and waits for the end of the job.
pub(crate) async fn follow(
    connection: &Connection,
    created: &Created,
    interruption: &Interruption,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.stream()?;
    let name = format!("{}/{}", created.namespace, created.job_id);
    let job = lookup::job(connection, &name, LookupPurpose::Read).await?;
    let own = job
        .pods
        .iter()
        .find(|pod| !pod.containers.is_empty())
        .map_or(OWN_CONTAINER, Pod::own_container);
    let query = LogQuery {
        container: own.to_owned(),
        ..LogQuery::default()
    };
    let prefix = Prefix {
        rank: job.pods_wanted > 1,
        timestamps: false,
    };
    let look = context.terminal.look();
    let mut failed = None;
    let sink = RefCell::new(|event: LogEvent| match event {
        LogEvent::Line { pod, rank, line } => {
            let line = PodLogLine {
                pod,
                rank,
                container: query.container.clone(),
                at: line.at,
                text: line.text,
            };
            failed = failed.take().or_else(|| {
                context
                    .terminal
                    .print(&logs::text(&line, prefix, look, false))
                    .err()
            });
        }
        LogEvent::Note(text) => context.terminal.note(&logs::remark(&text)),
    });
    let state = tokio::select! {
        state = connection.logs().follow(&job, &query, |_| true, &sink) => state?,
        () = interruption.times(1) => {
            let error = Error::new(ErrorName::Interrupted, "interrupted while following the log");
            return Err(error.cause("the job exists and continues").hint(format!("gpuctl logs {name} -f")));
        }
    };
    if let Some(error) = failed {
        return Err(error);
    }
    let ended = connection
        .jobs()
        .list(&Wanted::one(&created.namespace, &created.job_id))
        .await?
        .jobs
        .pop();
    let Some((job, state)) = ended.zip(state) else {
        return Err(Error::new(
            ErrorName::NotFound,
            format!("job `{}` was deleted in the meantime", created.job_id),
        ));
    };
    context.terminal.note(&logs::ending(&job.name, &state));
    Ok(ExitCode::from(code(&job, &state)))
}

/// Returns the exit code of the command that failed first; 1 where no container tells one.
fn code(job: &Job, state: &State) -> u8 {
    if state.status == Status::Succeeded {
        return 0;
    }
    let mut pods = job.current_pods();
    pods.sort_by_key(|pod| (pod.ended_at.is_none(), pod.ended_at));
    let ends = |own: bool| {
        let of = move |pod: &&Pod| {
            let name = pod.own_container().to_owned();
            let chosen = pod
                .containers
                .iter()
                .filter(|container| !own || container.name == name);
            chosen
                .filter_map(|container| container.terminated.as_ref())
                .map(ContainerEnd::command_code)
                .find(|code| *code != 0)
        };
        pods.iter().find_map(of)
    };
    // A sidecar ends by a signal when the command has failed.
    let failed = ends(true).or_else(|| ends(false));
    failed.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
