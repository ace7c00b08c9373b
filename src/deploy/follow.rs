//! Follows the log of a training after its submission until it ends, and decides whether the end is
//! an error.

use std::cell::RefCell;

use crate::deploy::interrupt::Interruption;
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{Connection, LogEvent, LogQuery};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::submission::Created;
use gpuctl_core::model::{Job, OWN_CONTAINER, Pod, State, Status};

/// A submitted training whose log can be read.
pub(crate) struct SubmittedLog {
    pub job: Job,
    pub query: LogQuery,
}

impl SubmittedLog {
    /// Finds the job, and the container that runs its command.
    pub(crate) async fn find(connection: &Connection, created: &Created) -> Result<Self, Error> {
        let name = format!("{}/{}", created.namespace, created.job_id);
        let job = lookup::job(connection, &name, LookupPurpose::Read).await?;
        let container = job
            .pods
            .iter()
            .find(|pod| !pod.containers.is_empty())
            .map_or(OWN_CONTAINER, Pod::own_container);
        let query = LogQuery {
            container: container.to_owned(),
            ..LogQuery::default()
        };
        Ok(Self { job, query })
    }

    /// Forwards the logs of all pods while they are written, until the job ends. Returns the job's
    /// last state, or `None` if it was never read.
    pub(crate) async fn follow(
        &self,
        connection: &Connection,
        interruption: &Interruption,
        sink: &RefCell<impl FnMut(LogEvent)>,
    ) -> Result<Option<State>, Error> {
        let Self { job, query } = self;
        tokio::select! {
            state = connection.logs().follow(job, query, |_| true, sink) => Ok(state?),
            name = interruption.times(1) => {
                let error = Error::new(name, "interrupted while following the log");
                let hint = format!("gpuctl logs {}/{} -f", job.namespace, job.name);
                Err(error.note("the job still exists and is not affected").hint(hint))
            }
        }
    }
}

/// Builds the error for a followed job that did not complete. A job without a final state was
/// deleted: services and notebooks have no other end.
pub(crate) fn unsuccessful_end(job: &Job, state: Option<&State>) -> Option<Error> {
    let name = &job.name;
    let final_state = state.filter(|state| state.status.is_final());
    match final_state {
        Some(state) if state.status == Status::Failed => {
            let message = state
                .message
                .as_ref()
                .map_or(String::new(), |message| format!(": {message}"));
            let error = Error::new(ErrorName::JobEnded, format!("job `{name}` failed{message}"));
            Some(error.hint(format!("gpuctl why {}/{name}", job.namespace)))
        }
        Some(_) => None,
        None if job.kind.serves() => None,
        None => Some(deleted(name, "following its log")),
    }
}

/// Builds the error for a job that was deleted while a command waited for it.
pub(crate) fn deleted(name: &str, activity: &str) -> Error {
    let message = format!("job `{name}` was deleted while gpuctl was {activity}");
    Error::new(ErrorName::JobEnded, message).hint("`gpuctl get jobs` lists all jobs")
}
