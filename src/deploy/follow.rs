//! Follows the log of a training that was just submitted until the training ends. Passes on the
//! exit code of its command, as `docker run` does.

use std::cell::RefCell;

use crate::deploy::interrupt::Interruption;
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{Connection, JobFilter, LogEvent, LogQuery};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::submission::Created;
use gpuctl_core::model::{ContainerEnd, Job, OWN_CONTAINER, Pod, State, Status};

/// A submitted training whose log can be read.
pub(crate) struct SubmittedLog {
    pub job: Job,
    pub query: LogQuery,
    namespace: String,
    name: String,
}

/// How a training ended whose log was followed.
pub(crate) struct JobEnd {
    pub name: String,
    pub state: State,
    /// The exit code of the command that failed first.
    pub code: u8,
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
        Ok(Self {
            job,
            query,
            namespace: created.namespace.clone(),
            name: created.job_id.clone(),
        })
    }

    /// Forwards the logs of all pods as they are written, and waits until the job ends.
    pub(crate) async fn follow(
        &self,
        connection: &Connection,
        interruption: &Interruption,
        sink: &RefCell<impl FnMut(LogEvent)>,
    ) -> Result<JobEnd, Error> {
        let Self {
            job,
            query,
            namespace,
            name,
        } = self;
        let state = tokio::select! {
            state = connection.logs().follow(job, query, |_| true, sink) => state?,
            () = interruption.times(1) => {
                let error = Error::new(ErrorName::Interrupted, "interrupted while following the log");
                let hint = format!("gpuctl logs {namespace}/{name} -f");
                return Err(error.note("the job still exists and is not affected").hint(hint));
            }
        };
        let ended = connection
            .jobs()
            .list(&JobFilter::by_name(namespace, name))
            .await?
            .jobs
            .pop();
        let Some((job, state)) = ended.zip(state) else {
            return Err(Error::new(
                ErrorName::NotFound,
                format!("job `{name}` was deleted while gpuctl was following its log"),
            ));
        };
        let code = exit_code(&job, &state);
        Ok(JobEnd {
            name: job.name,
            state,
            code,
        })
    }
}

/// Returns the exit code of the command that failed first, or 1 if no container reports one.
fn exit_code(job: &Job, state: &State) -> u8 {
    if state.status == Status::Succeeded {
        return 0;
    }
    let mut pods = job.current_pods();
    // Pods that have not ended sort last.
    pods.sort_by_key(|pod| (pod.ended_at.is_none(), pod.ended_at));
    let first_failure = |is_own: bool| {
        let failure_code = move |pod: &&Pod| {
            let name = pod.own_container().to_owned();
            let containers = pod
                .containers
                .iter()
                .filter(|container| !is_own || container.name == name);
            containers
                .filter_map(|container| container.terminated.as_ref())
                .map(ContainerEnd::command_code)
                .find(|code| *code != 0)
        };
        pods.iter().find_map(failure_code)
    };
    // Look at the job's own container first, because a sidecar is killed by a signal after the
    // command has failed.
    let first_code = first_failure(true).or_else(|| first_failure(false));
    // A process can pass on only the low 8 bits of an exit code.
    first_code
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}
