//! Copies out of an ended job: a small pod mounts the job's claims read-only until the copy is
//! complete.

use std::pin::pin;
use std::time::{Duration, Instant};

use super::container::TarContainer;
use super::stream::interrupted;
use crate::context::Context;
use crate::deploy::names::suffix;
use gpuctl_cluster::{Connection, Failure, read_only};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::refusal::{ContainerComplaint, is_volume_in_use};
use gpuctl_core::model::{Job, OWN_CONTAINER, Pod, PodPhase, State, Status, is_starting};
use gpuctl_local::files::archive::Copied;
use gpuctl_local::platform::termination_signal;
use gpuctl_manifest::render::{CopyPod, NotOnClaim, copy_pod};

/// Timeout for the pod's start. Pulling a large image takes minutes.
const START_TIMEOUT: Duration = Duration::from_secs(600);

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Timeout for the pod's removal. Short, because the user may have pressed Ctrl-C.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns true if no pod of the job runs or will run, unless a user restarts the job.
pub(super) fn has_ended(job: &Job) -> bool {
    let status = State::from_job(job).status;
    let runs = |pod: &Pod| pod.phase == PodPhase::Running;
    (status.is_final() || status == Status::Paused) && !job.pods.iter().any(runs)
}

/// Builds the error for an upload to an ended job.
pub(super) fn cannot_write(job: &Job) -> Error {
    let state = State::from_job(job);
    let message = format!(
        "job `{}` has status {state}, so nothing can be copied into it",
        job.name
    );
    let full_name = format!("{}/{}", job.namespace, job.name);
    let restart = match state.status {
        Status::Paused => format!("gpuctl resume job {full_name}"),
        _ => format!("gpuctl restart job {full_name}"),
    };
    Error::new(ErrorName::NotRunning, message).hint(format!(
        "run it again with `{restart}`, or mount its claims in another job \
         (`storage.workdirs`, `pvc:`)"
    ))
}

/// A job without running pods.
pub(super) struct EndedJob<'a> {
    pub connection: &'a Connection,
    pub job: &'a Job,
    pub container: Option<&'a str>,
    pub context: &'a Context,
}

impl EndedJob<'_> {
    /// Copies through a new pod that mounts the claims, and removes the pod even after an error or
    /// signal.
    pub(super) async fn download(&self, path: &str, local_path: &str) -> Result<Copied, Error> {
        let copy = self.plan(path).await?;
        // Fail before announcing a pod that gpuctl may not create.
        if let Some(by) = self.context.read_only() {
            let message = format!(
                "copying from job `{}` needs a new pod that reads its claims",
                self.job.name
            );
            return Err(read_only(message, &by));
        }
        self.announce(&copy);
        // Listen for signals early, so that none leaves the pod behind.
        let mut signal = pin!(termination_signal());
        let name = copy.object.name();
        // Do not cancel this request, because the server may have created the pod already.
        if let Err(failure) = self.connection.jobs().start_pod(&copy.object).await {
            // Without a response, it is unknown whether the pod exists.
            if failure.code().is_none() {
                self.remove(name).await;
            }
            return Err(self.refused(failure));
        }
        let started = tokio::select! {
            started = self.wait_until_running(&copy) => started,
            number = signal.as_mut() => Err(interrupted(number)),
        };
        let copied = match started {
            Ok(pod) => self.copy(&pod, &copy.path, local_path).await,
            Err(error) => Err(error),
        };
        self.remove(name).await;
        copied
    }

    async fn plan(&self, path: &str) -> Result<CopyPod, Error> {
        let job = self.job;
        let owner = self.connection.jobs().owner_object(job).await?;
        let Some(owner) = owner else {
            let message = format!("job `{}` was deleted or replaced", job.name);
            return Err(Error::new(ErrorName::NotFound, message).hint("gpuctl get claims"));
        };
        copy_pod(&owner, self.container, path, &suffix())
            .map_err(|reason| not_on_claim(job, path, reason))
    }

    fn announce(&self, copy: &CopyPod) {
        let state = State::from_job(self.job);
        self.context.terminal.announce(&format!(
            "job `{}` has status {state}; starting pod {}/{} with image {}, which mounts {} \
             read-only and is removed after the copy",
            self.job.name,
            self.job.namespace,
            copy.object.name(),
            copy.image,
            copy.claims.join(", ")
        ));
    }

    async fn copy(&self, pod: &Pod, path: &str, local_path: &str) -> Result<Copied, Error> {
        let container = TarContainer {
            connection: self.connection,
            namespace: &self.job.namespace,
            pod,
            name: OWN_CONTAINER,
            context: self.context,
        };
        container.download(path, local_path).await
    }

    async fn wait_until_running(&self, copy: &CopyPod) -> Result<Pod, Error> {
        let (jobs, name) = (self.connection.jobs(), copy.object.name());
        let spinner = self.context.terminal.spinner();
        let end = Instant::now() + START_TIMEOUT;
        let mut shown = String::new();
        loop {
            let Some(pod) = jobs.pod(&self.job.namespace, name).await? else {
                let message = format!("pod {name} was deleted before it could read the claims");
                return Err(Error::new(ErrorName::PodNotFound, message)
                    .hint("run the same `gpuctl cp` again"));
            };
            let is_ready = pod.containers.iter().any(|container| container.running);
            if pod.phase == PodPhase::Running && is_ready {
                return Ok(pod);
            }
            let state = start_state(&pod);
            if pod.ended() || pod.deleting || is_hopeless(&pod) {
                return Err(self.not_started(&pod, &copy.claims, &state).await);
            }
            if Instant::now() >= end {
                let state = format!("{state} for {} s", START_TIMEOUT.as_secs());
                return Err(self.not_started(&pod, &copy.claims, &state).await);
            }
            if state != shown {
                spinner.set_message(format!("{name}: {state}"));
                shown = state;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Builds the error for a pod that does not run, with its newest warning event: volume problems
    /// appear only in events.
    async fn not_started(&self, pod: &Pod, claims: &[String], state: &str) -> Error {
        let events = self.connection.events();
        let events = events.for_object(&self.job.namespace, &pod.uid).await;
        let warning = events
            .unwrap_or_default()
            .into_iter()
            .rev()
            .find(|event| event.warning)
            .map(|event| format!("{}: {}", event.reason, event.message));
        let message = format!("pod {} cannot read the claims: {state}", pod.name);
        let causes = format!("{state} {}", warning.as_deref().unwrap_or_default());
        let error = Error::new(ErrorName::NotRunning, message);
        let error = match warning.filter(|warning| !state.contains(warning)) {
            Some(warning) => error.cause(warning),
            None => error,
        };
        error.hint(start_hint(&causes, &claims.join(", ")))
    }

    /// Builds the error for a pod that the API server rejected.
    fn refused(&self, failure: Failure) -> Error {
        let note = format!(
            "job `{}` has ended, so `cp` starts a pod that mounts its claims (1 CPU, 512Mi, no \
             GPU)",
            self.job.name
        );
        Error::from(failure).note(note)
    }

    /// Removes the pod. If this fails, the pod's deadline ends it.
    async fn remove(&self, name: &str) {
        let namespace = &self.job.namespace;
        let removal = self.connection.jobs().remove_pod(namespace, name);
        let problem = match tokio::time::timeout(REMOVAL_TIMEOUT, removal).await {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "the API server did not respond in time".to_owned(),
        };
        self.context.terminal.warn(&format!(
            "pod {name} was not removed: {problem}; remove it with `kubectl delete pod {name} -n \
             {namespace}`, or it ends after 4 hours"
        ));
    }
}

/// Suggests how to reach the data if the pod does not run. `problem` contains the messages of the
/// kubelet.
fn start_hint(problem: &str, claims: &str) -> String {
    const OWN_POD: &str = "mount the claim in a job whose image has `sh`, `sleep` and `tar`, such \
        as busybox (`storage.workdirs`, `pvc:`), and copy from it";
    if is_volume_in_use(problem) {
        return format!(
            "another pod uses {claims}: copy from that pod, or wait until it ends; `gpuctl get \
             claims` shows its name"
        );
    }
    match ContainerComplaint::from_runtime_message(problem) {
        // The image of the job has no shell.
        Some(ContainerComplaint::NoProgram) => OWN_POD.to_owned(),
        _ => format!("`gpuctl get claims` shows the state of {claims}; or {OWN_POD}"),
    }
}

/// Describes why a pod is not running yet.
fn start_state(pod: &Pod) -> String {
    let of_container = pod.containers.iter().find_map(|container| {
        let ended = container.terminated.as_ref().map(|end| {
            let reason = &end.reason;
            (reason.clone(), end.message.clone())
        });
        ended.or_else(|| container.waiting.clone())
    });
    let (reason, message) = of_container
        .filter(|(reason, _)| !reason.is_empty())
        .or_else(|| pod.unscheduled.clone())
        .unwrap_or_else(|| ("starting".to_owned(), String::new()));
    match message.is_empty() {
        true => reason,
        false => format!("{reason}: {message}"),
    }
}

/// Returns true if a container waits for a reason that will not go away, such as a missing image.
fn is_hopeless(pod: &Pod) -> bool {
    // The kubelet reports the first failed pull as `ErrImagePull`, and tries again.
    let is_lasting = |reason: &str| !is_starting(reason) && reason != "ErrImagePull";
    let mut waiting = pod
        .containers
        .iter()
        .filter_map(|container| container.waiting.as_ref());
    waiting.any(|(reason, _)| is_lasting(reason))
}

/// Builds the error for a path that is not on a readable claim.
fn not_on_claim(job: &Job, path: &str, reason: NotOnClaim) -> Error {
    let name = &job.name;
    match reason {
        NotOnClaim::NoContainer(names) => Error::new(
            ErrorName::ContainerNotFound,
            format!("job `{name}` has no such container"),
        )
        .hint(format!("available: {}", names.join(", "))),
        NotOnClaim::Relative => Error::usage(format!(
            "`{path}` is relative, but job `{name}` is not running and sets no working directory"
        ))
        .hint(format!("specify an absolute path: {name}:/path")),
        NotOnClaim::Parent => {
            Error::usage(format!("`{path}` contains `..`")).hint("specify the path without `..`")
        }
        NotOnClaim::Lost(existing) => {
            let message = format!(
                "`{path}` no longer exists: it was not on a claim, and the pods of job `{name}` \
                 have ended"
            );
            let error = Error::new(ErrorName::FileNotFound, message);
            let path = |(path, claim): &(String, String)| format!("{path} (claim {claim})");
            match existing.is_empty() {
                true => error
                    .note(format!("job `{name}` had no claims"))
                    .hint("to keep results, use `storage.workdirs` with `size:` or `pvc:`"),
                false => error.hint(format!(
                    "these paths still exist: {}",
                    existing.iter().map(path).collect::<Vec<_>>().join(", ")
                )),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gpuctl_core::model::{Container, ContainerEnd};

    use super::*;

    const NO_SLEEP: &str = "failed to create containerd task: failed to create shim task: OCI \
        runtime create failed: runc create failed: unable to start container process: error \
        during container init: exec: \"sleep\": executable file not found in $PATH: unknown";

    /// A pod whose container has this state.
    fn pod(container: Container) -> Pod {
        Pod {
            containers: vec![container],
            ..Pod::default()
        }
    }

    fn waiting(reason: &str, message: &str) -> Pod {
        pod(Container {
            waiting: Some((reason.to_owned(), message.to_owned())),
            ..Container::default()
        })
    }

    #[test]
    fn an_image_without_a_shell_leads_to_another_image() {
        let failed = pod(Container {
            terminated: Some(ContainerEnd {
                code: 128,
                reason: "StartError".to_owned(),
                message: NO_SLEEP.to_owned(),
            }),
            ..Container::default()
        });
        let crashing = waiting("RunContainerError", NO_SLEEP);
        for pod in [&failed, &crashing] {
            let hint = start_hint(&start_state(pod), "a-out");
            assert!(
                hint.starts_with("mount the claim in a job whose image has `sh`, `sleep`"),
                "{hint}"
            );
        }
        assert!(is_hopeless(&crashing), "the command does not wait for it");
    }

    #[test]
    fn other_problems_lead_to_the_claims() {
        let missing = waiting(
            "ImagePullBackOff",
            "Back-off pulling image \"registry/gone\"",
        );
        assert!(is_hopeless(&missing));
        let hint = start_hint(&start_state(&missing), "a-out");
        assert!(
            hint.starts_with("`gpuctl get claims` shows the state of a-out; or mount the claim"),
            "{hint}"
        );
        assert!(!is_hopeless(&waiting("ErrImagePull", "")));
        assert!(!is_hopeless(&waiting("ContainerCreating", "")));
    }
}
