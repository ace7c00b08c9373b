//! The state of a job: its status, and the reasons that trainings and services have in common. The
//! state always depends on the pods. The mere existence of an object proves nothing.

use std::fmt;

use super::job::Job;
use super::job_pod::{Container, ContainerEnd, Pod, PodPhase};
use crate::model::contract::labels::TERMINATION_PREFIX;
use crate::model::contract::refusal::RefusalCause;
use crate::model::values::text::clean;

/// The state of a job, in the words of the contract.
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

    /// True if no part of the job will run again.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A status with its reason, and the numbers of running and desired pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub status: Status,
    /// A CamelCase reason, as Kubernetes uses them: `Unschedulable`, `OOMKilled`.
    pub reason: Option<String>,
    /// A message of one sentence.
    pub message: Option<String>,
    /// The number of running pods. For a service, the number of ready pods.
    pub running: u32,
    pub wanted: u32,
    /// True if the number of pods is displayed too: `running 2/2`.
    pub counted: bool,
}

impl fmt::Display for State {
    /// Formats as `pending ImagePullBackOff`, `running 2/2`.
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
        // When the kubelet evicts a pod, it does not always set a DisruptionTarget condition.
        (Some(reason), _) if reason == "Evicted" => {
            why(reason, format!("{name} was evicted by its node{detail}"))
        }
        (Some(reason), _) => why(reason, format!("{name} failed{detail}")),
        (None, Some(end)) => why(&end.reason, format!("{name} exited with code {}", end.code)),
        (None, None) => why("Error", format!("{name} failed")),
    })
}

/// Explains why a container never started, and includes the runtime's message.
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

/// Reports that a node is evicting a pod of the job. The pod's status may not show it yet.
pub(crate) fn evicted(job: &Job) -> Option<StateReason> {
    let message = job.eviction.as_deref()?.trim_end_matches(['.', ' ']);
    Some(why(
        "Evicted",
        format!("a pod was evicted by its node: {message}"),
    ))
}

/// Reports a pod whose node does not respond, so that the pod's state is unknown.
pub fn lost(pod: &Pod) -> Option<StateReason> {
    let node = pod.node.as_deref()?;
    pod.is_lost().then(|| {
        why(
            "NodeLost",
            format!("{}'s node {node} does not respond", pod_name(pod)),
        )
    })
}

/// Removes the part about preemption and claims from the scheduler's message. That part only
/// explains why preemption did not help.
pub fn scheduler_words(message: &str) -> &str {
    let end = [". no new claims", ". preemption:", ", preemption:"]
        .iter()
        .filter_map(|tail| message.find(tail))
        .min();
    message[..end.unwrap_or(message.len())].trim_end_matches('.')
}

/// Whether a waiting reason is one that every container has shortly before it starts.
pub fn is_starting(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Returns the reason why a container waits, if it is a problem that does not go away by itself.
pub(crate) fn stuck(pod: &Pod) -> Option<StateReason> {
    let waits = |container: &Container| {
        container
            .waiting
            .clone()
            .filter(|(reason, _)| !is_starting(reason))
    };
    pod.containers.iter().find_map(waits)
}

/// Explains why a pod of the job does not start and probably never will. Its image cannot be
/// pulled, its container crashes, or the runtime rejects its container. `counts` is false for pods
/// of an older version.
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
    // If the program of a training cannot be started, the pod fails, and its replacement fails in
    // the same way.
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

/// Classifies in one word why the API server rejected a pod.
pub(crate) fn create_failure_reason(message: &str) -> &'static str {
    match RefusalCause::from_message(message) {
        Some(RefusalCause::QuotaExceeded | RefusalCause::QuotaUnset) => "QuotaExceeded",
        Some(RefusalCause::PodSecurity) => "PodSecurity",
        Some(RefusalCause::NoPriorityClass) => "PriorityClassNotFound",
        Some(RefusalCause::WebhookDenied) => "WebhookDenied",
        _ => "FailedCreate",
    }
}
