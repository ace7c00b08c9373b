//! Inputs of a diagnosis. A field is `None` if the data could not be read, and no cause relies on
//! it.

use jiff::Timestamp;

use super::answer::HolderTime;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_claims::DeviceClaims;
use gpuctl_core::model::{ClaimState, Event, GroupVerdict, Job, Node, Nodes, Pod, Queue, QuotaUse};
use gpuctl_core::stats::history::curves::Trace;
use gpuctl_core::stats::logs::ras::RasReport;
use gpuctl_core::stats::logs::stacks::StackGroup;
use gpuctl_core::stats::logs::steps::{Cadence, CurrentPhase};
use gpuctl_core::stats::score::bottlenecks::Bottlenecks;
use gpuctl_core::stats::score::peers::PeerReport;
use gpuctl_manifest::render::PodRules;

/// The object that is diagnosed.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The kind of a job, such as `training`, or of another object, such as `deployment` or `pod`.
    pub kind: String,
    /// Whether gpuctl created the object.
    pub is_managed: bool,
}

/// All inputs of the diagnosis of a job.
pub struct Facts<'f> {
    pub now: Timestamp,
    pub subject: &'f Subject,
    pub job: &'f Job,
    /// Events of the job and its pods, oldest first, or `None` if the user cannot list events.
    pub events: Option<&'f [Event]>,
    /// The first pod without a node.
    pub pending: Option<PendingPod>,
    pub nodes: &'f Nodes,
    /// Free resources, or `None` if the user cannot list all pods.
    pub capacity: Option<&'f ClusterCapacity>,
    /// PersistentVolumeClaims of the pending pod, or of the job if no pod is pending.
    pub claims: Vec<ClaimFact>,
    /// Device claims of the pending pod.
    pub devices: DeviceClaims,
    /// ResourceQuotas of the namespace. Empty if the user cannot list them.
    pub quotas: Vec<QuotaUse>,
    /// The job's Volcano queue. Volcano's scheduler reports only that pods are not scheduled, so
    /// the cause is derived from the queue.
    pub queue: Option<Queue>,
    /// Whether the namespace is being deleted. False if it cannot be read.
    pub namespace_terminating: bool,
    /// Start and deadline of the pods that hold the needed resources.
    pub holders: Vec<HolderTime>,
    /// XID errors of the devices of the pod that failed first, see [`super::first_failed`].
    pub faults: Vec<DeviceError>,
    /// `None` unless the job is running.
    pub running: Option<RunningFacts>,
    /// Log lines of ended pods that explain their end.
    pub last_messages: Vec<LastMessage>,
    /// Responses of the job's ranks.
    pub rank_answers: RankAnswers,
}

/// An XID error of a device around the end of a pod that used it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// NODE/gpu-NUMBER.
    pub device: String,
    pub code: u32,
    /// False if the error may be older, because the device has no earlier samples.
    pub is_dated: bool,
}

/// Responses of ranks about their own state.
#[derive(Clone, Debug, Default)]
pub struct RankAnswers {
    pub ras: Option<RasReport>,
    /// Stack traces of the ranks, or `None` if they were not collected or the job is not running.
    pub stacks: Option<Vec<StackGroup>>,
    /// Number of pods whose stack traces are missing or incomplete.
    pub unread: usize,
    /// Unanswered requests to ranks, each with the reason.
    pub silent: Vec<String>,
}

/// Facts that exist only for a running job.
#[derive(Clone, Debug, Default)]
pub struct RunningFacts {
    /// Measurements of the job's devices. Empty without metrics.
    pub traces: Vec<Trace>,
    pub report: PeerReport,
    /// `None` if no metrics source responded.
    pub bottlenecks: Option<Bottlenecks>,
    /// Time of the job's last logged step, and the duration of a step.
    pub cadence: Option<Cadence>,
    /// The log of the first rank, or `None` if it could not be read.
    pub log: Option<LogFacts>,
    /// The last log line of the rank that differs from its peers, as (time, text).
    pub last_line: Option<(Option<Timestamp>, String)>,
    /// The phase of the rank that differs from its peers, according to its log.
    pub waited_phase: Option<CurrentPhase>,
}

/// The log of a running job, apart from its steps.
#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// Time of the last line.
    pub last_at: Option<Timestamp>,
    /// The phase of the job after its last training step.
    pub phase: Option<CurrentPhase>,
}

/// Number of step durations without a step after which a job has stalled.
const STEPS: f64 = 10.0;
/// Minimum time in seconds without a step before a job counts as stalled.
const LEAST: f64 = 120.0;
/// A job may pause again for this multiple of its longest earlier pause, which was perhaps a
/// checkpoint or an evaluation that its log does not mention.
const PAUSE: f64 = 1.5;
/// Maximum pause in seconds that an earlier one explains.
const LONGEST_PAUSE: f64 = 3600.0;

impl RunningFacts {
    /// Returns the seconds since the last step if the job has stalled.
    pub fn stalled(&self, now: Timestamp) -> Option<f64> {
        let cadence = self.cadence.as_ref()?;
        let since = now.duration_since(cadence.last).as_secs_f64();
        let pause = (cadence.longest * PAUSE).min(LONGEST_PAUSE);
        (since > (cadence.seconds * STEPS).max(LEAST).max(pause)).then_some(since)
    }

    /// Returns the phase of the first rank, or else of the rank that its peers wait for.
    pub(super) fn phase(&self) -> Option<&CurrentPhase> {
        let of_first = self.log.as_ref().and_then(|log| log.phase.as_ref());
        of_first.or(self.waited_phase.as_ref())
    }

    /// Returns the device whose rank its peers wait for: the only one that is not spinning, and
    /// that was not idle before.
    pub fn blocking_device(&self) -> Option<usize> {
        let report = &self.report;
        // A device without samples may be spinning too, so the result would be uncertain.
        if report.sampled != self.traces.len() {
            return None;
        }
        let is_majority = report.spinning.len() * 2 > report.sampled;
        let mut others = (0..self.traces.len()).filter(|device| !report.spinning.contains(device));
        let first = others.next().filter(|_| is_majority)?;
        // Several devices of one pod belong to the same rank.
        let same = others.all(|device| self.traces[device].pods == self.traces[first].pods);
        same.then_some(first)
    }
}

/// A log line that explains the end of a pod.
#[derive(Clone, Debug)]
pub struct LastMessage {
    pub text: String,
    /// Name of the pod whose log contains the first error. `None` for other lines.
    pub pod: Option<String>,
    pub at: Option<Timestamp>,
}

/// A pod without a node.
#[derive(Clone, Debug)]
pub struct PendingPod {
    pub name: String,
    pub created_at: Option<Timestamp>,
    pub rules: PodRules,
    pub requests: Amounts,
    /// Node on which the scheduler preempts pods for this pod.
    pub nominated: Option<String>,
    /// Reason and message of the scheduler's last attempt.
    pub unscheduled: Option<(String, String)>,
    /// Number of pods that must be scheduled together.
    pub together: u64,
    /// Verdict of the gang scheduler on the pod's group.
    pub group: Option<GroupVerdict>,
}

/// A PersistentVolumeClaim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFact {
    pub name: String,
    pub state: ClaimState,
}

/// Seconds for which the API server keeps events by default (kube-apiserver, `--event-ttl`).
pub(super) const EVENT_SECONDS: i64 = 3600;

impl RankAnswers {
    /// Returns the ranks' stack traces, or an empty slice if they are unknown.
    pub(super) fn places(&self) -> &[StackGroup] {
        self.stacks.as_deref().unwrap_or_default()
    }
}

impl Facts<'_> {
    /// Returns the job's name in the form that commands accept.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.job.namespace, self.job.name)
    }

    /// Returns the command that prints the log of a pod's container.
    pub(super) fn logs(&self, pod: &Pod, container: &str, previous: bool) -> String {
        let previous = if previous { " --previous" } else { "" };
        if !self.subject.is_managed {
            return format!(
                "kubectl logs {} -n {} -c {container}{previous}",
                pod.name, self.job.namespace
            );
        }
        let pod_option = match pod.rank {
            Some(rank) => format!(" --rank {rank}"),
            None if self.job.pods.len() > 1 => format!(" --pod {}", pod.name),
            None => String::new(),
        };
        let container = if container == pod.own_container() {
            String::new()
        } else {
            format!(" -c {container}")
        };
        format!(
            "gpuctl logs {}{pod_option}{container}{previous}",
            self.full_name()
        )
    }

    pub(super) fn listed(&self) -> Option<&[Node]> {
        match self.nodes {
            Nodes::Listed(nodes) => Some(nodes),
            Nodes::Published(_) | Nodes::Hidden => None,
        }
    }

    pub(super) fn known_nodes(&self) -> Option<usize> {
        self.listed().map(<[Node]>::len)
    }

    /// Returns the state of the events for `Basis::events`.
    pub(super) fn events_word(&self) -> &'static str {
        let age = self
            .job
            .created_at
            .map(|time| self.now.as_second() - time.as_second());
        match self.events {
            None => "forbidden",
            Some([]) if age.is_some_and(|age| age > EVENT_SECONDS) => "expired",
            Some([]) => "none",
            Some(_) => "seen",
        }
    }

    /// Returns the newest event with one of these reasons.
    pub(super) fn event(&self, reasons: &[&str]) -> Option<&Event> {
        self.events?
            .iter()
            .rev()
            .find(|event| reasons.contains(&event.reason.as_str()))
    }
}
