//! The state of a job, and the reasons that trainings and services share. The state is computed
//! from pods, because the existence of a Job or Deployment proves nothing.

use std::fmt;

use super::container_end::ContainerEnd;
use super::job::Job;
use super::job_pod::{Container, Pod, PodPhase};
use crate::model::contract::labels::TERMINATION_PREFIX;
use crate::model::contract::refusal::RefusalCause;
use crate::model::values::text::clean;

/// Status of a job, as it appears in JSON.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
pub enum Status {
    Pending,
    Running,
    Succeeded,
    Failed,
    Paused,
    Terminating,
    Unknown,
}

impl Status {
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Returns true if no pod of the job will run again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Status of a job with its reason and numbers of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub status: Status,
    /// Reason in CamelCase, such as `Unschedulable` or `OOMKilled`.
    pub reason: Option<String>,
    /// Message of one sentence.
    pub message: Option<String>,
    /// Number of running pods, or of ready pods for services and notebooks.
    pub running: u32,
    pub wanted: u32,
    /// True if the status is displayed with numbers of pods, as in `running 2/2`.
    pub counted: bool,
}

impl fmt::Display for State {
    /// Formats the status, for example `pending ImagePullBackOff` or `running 2/2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if self.counted && self.status == Status::Running {
            write!(f, " {}/{}", self.running, self.wanted)?;
        }
        match &self.reason {
            Some(reason) => write!(f, " {}", clean(reason)),
            None => Ok(()),
        }
    }
}

pub type StateReason = (String, String);

pub(crate) fn why(reason: &str, message: impl Into<String>) -> StateReason {
    (reason.to_owned(), message.into())
}

pub(crate) fn count(pods: &[&Pod], test: impl Fn(&Pod) -> bool) -> u32 {
    u32::try_from(pods.iter().filter(|pod| test(pod)).count()).unwrap_or(u32::MAX)
}

pub(crate) fn pod_failure(pod: &Pod) -> Option<StateReason> {
    if pod.phase != PodPhase::Failed {
        return None;
    }
    let name = pod_name(pod);
    if let Some(disruption) = &pod.disrupted {
        return Some(why("Evicted", format!("{name} was evicted ({disruption})")));
    }
    if let Some((reason, _)) = &pod.stopped {
        return Some(why(reason, format!("{name} was stopped by its queue")));
    }
    let ended = pod
        .containers
        .iter()
        .find_map(|container| container.terminated.as_ref().filter(|end| end.code != 0));
    let detail = pod.message.as_deref().map_or(String::new(), |message| {
        format!(": {}", message.trim_end_matches(['.', ' ']))
    });
    let from_supervisor = ended.and_then(|end| {
        end.message
            .strip_prefix(TERMINATION_PREFIX)?
            .split_once(": ")
    });
    if let Some((reason, message)) = from_supervisor {
        return Some(why(reason, message));
    }
    Some(match (&pod.reason, ended) {
        (_, Some(end)) if end.reason == "OOMKilled" => why(
            &end.reason,
            format!("{name} ran out of memory (exit code {})", end.code),
        ),
        (_, Some(end)) if end.never_started() => why(&end.reason, not_started(&name, end)),
        (Some(reason), _) if reason == "DeadlineExceeded" => {
            why(reason, format!("{name} ran longer than `job.max_runtime`"))
        }
        // The kubelet does not set a DisruptionTarget condition for every eviction.
        (Some(reason), _) if reason == "Evicted" => {
            why(reason, format!("{name} was evicted by its node{detail}"))
        }
        (Some(reason), _) => why(reason, format!("{name} failed{detail}")),
        (None, Some(end)) if end.is_unseen() => {
            why(&end.reason, format!("how {name} ended is unknown"))
        }
        (None, Some(end)) => why(&end.reason, format!("{name} exited with code {}", end.code)),
        (None, None) => why("Error", format!("{name} failed")),
    })
}

/// Explains that a container never started, with the runtime's message.
pub fn not_started(name: &str, end: &ContainerEnd) -> String {
    if end.message.is_empty() {
        format!("{name} could not start")
    } else {
        format!("{name} could not start: {}", end.message)
    }
}

pub fn pod_name(pod: &Pod) -> String {
    pod.rank
        .map_or_else(|| pod.name.clone(), |rank| format!("rank {rank}"))
}

/// Reports that a node evicts a pod of the job, even if the pod's status does not show it yet.
pub(crate) fn evicted(job: &Job) -> Option<StateReason> {
    let message = job.eviction.as_deref()?.trim_end_matches(['.', ' ']);
    Some(why(
        "Evicted",
        format!("a pod was evicted by its node: {message}"),
    ))
}

/// Reports a pod whose state is unknown because its node does not respond.
pub fn lost(pod: &Pod) -> Option<StateReason> {
    let node = pod.node.as_deref()?;
    pod.is_lost().then(|| {
        why(
            "NodeLost",
            format!("{}'s node {node} does not respond", pod_name(pod)),
        )
    })
}

/// Truncates the scheduler's message before the part about preemption and claims, which explains
/// only why preemption did not help.
pub fn scheduler_words(message: &str) -> &str {
    let end = [". no new claims", ". preemption:", ", preemption:"]
        .iter()
        .filter_map(|tail| message.find(tail))
        .min();
    message[..end.unwrap_or(message.len())].trim_end_matches('.')
}

/// Returns true for waiting reasons that every container has shortly before it starts.
pub fn is_starting(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Returns the reason and message of a container that waits for anything other than its normal
/// start.
pub(crate) fn stuck(pod: &Pod) -> Option<StateReason> {
    let waits = |container: &Container| {
        container
            .waiting
            .clone()
            .filter(|(reason, _)| !is_starting(reason))
    };
    pod.containers.iter().find_map(waits)
}

/// Explains why a pod of the job does not start and probably never will: the image cannot be
/// pulled, the container crashes, or the runtime rejects it. Only considers pods for which `counts`
/// is true, to exclude pods of an older version.
pub fn cannot_start(job: &Job, counts: impl Fn(&Pod) -> bool) -> Option<StateReason> {
    const LASTING: [&str; 8] = [
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "StartError",
    ];
    let pods: Vec<&Pod> = job
        .current_pods()
        .into_iter()
        .filter(|pod| !pod.deleting && counts(pod))
        .collect();
    // If the runtime cannot start a training's program, the pod fails, and so will its replacement.
    let refused = |pod: &&Pod| {
        let mut ends = pod
            .containers
            .iter()
            .filter_map(|container| container.terminated.as_ref());
        let end = ends.find(|end| end.never_started())?;
        Some((end.reason.clone(), not_started(&pod_name(pod), end)))
    };
    if let Some(failure) = pods.iter().find_map(refused) {
        return Some(failure);
    }
    let mut stuck_pods = pods
        .into_iter()
        .filter(|pod| !pod.ended())
        .filter_map(|pod| Some((pod, stuck(pod)?)));
    let (pod, (reason, message)) =
        stuck_pods.find(|(_, (reason, _))| LASTING.contains(&reason.as_str()))?;
    let last = pod
        .containers
        .iter()
        .find_map(|container| container.last_ended.as_ref());
    let message = match last {
        Some(end) if reason == "CrashLoopBackOff" => {
            format!("{} keeps exiting with code {}", pod_name(pod), end.code)
        }
        _ if message.is_empty() => format!("{} cannot start", pod_name(pod)),
        _ => format!("{} cannot start: {message}", pod_name(pod)),
    };
    Some((reason, message))
}

/// Returns a CamelCase reason for the API server's rejection of a pod.
pub(crate) fn create_failure_reason(message: &str) -> &'static str {
    match RefusalCause::from_message(message) {
        Some(RefusalCause::QuotaExceeded | RefusalCause::QuotaUnset) => "QuotaExceeded",
        Some(RefusalCause::PodSecurity) => "PodSecurity",
        Some(RefusalCause::NoPriorityClass) => "PriorityClassNotFound",
        Some(RefusalCause::WebhookDenied) => "WebhookDenied",
        _ => "FailedCreate",
    }
}
