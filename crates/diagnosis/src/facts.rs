//! The facts that a diagnosis is based on. If some data could not be read, its field is `None`, and
//! no cause relies on it.

use jiff::Timestamp;

use super::answer::HolderTime;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_claims::DeviceClaims;
use gpuctl_core::model::{ClaimState, Event, GroupVerdict, Job, Node, Nodes, Pod, Queue, QuotaUse};
use gpuctl_core::stats::history::curves::Trace;
use gpuctl_core::stats::logs::progress::Cadence;
use gpuctl_core::stats::logs::ras::RasReport;
use gpuctl_core::stats::logs::stacks::StackGroup;
use gpuctl_core::stats::score::bottlenecks::Bottlenecks;
use gpuctl_core::stats::score::peers::PeerReport;
use gpuctl_manifest::render::PodRules;

/// The object of the diagnosis.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `training`, `inference`, …, or the kind of another object: `deployment`, `pod`.
    pub kind: String,
    /// True for objects that gpuctl created.
    pub is_managed: bool,
}

/// All facts about a job.
pub struct Facts<'f> {
    pub now: Timestamp,
    pub subject: &'f Subject,
    pub job: &'f Job,
    /// Events of the job and its pods, oldest first; `None` if the user cannot list events.
    pub events: Option<&'f [Event]>,
    /// The first pod without a node.
    pub pending: Option<PendingPod>,
    pub nodes: &'f Nodes,
    /// Free resources; `None` if the user cannot list all pods.
    pub capacity: Option<&'f ClusterCapacity>,
    /// PersistentVolumeClaims of the pending pod, or else of the job.
    pub claims: Vec<ClaimFact>,
    /// The device claims of the pending pod.
    pub devices: DeviceClaims,
    /// ResourceQuotas of the namespace; empty if the user cannot list them.
    pub quotas: Vec<QuotaUse>,
    /// The job's Volcano queue. It is read because Volcano's scheduler reports only that the pods
    /// are not scheduled, and not why.
    pub queue: Option<Queue>,
    /// When the pods that hold the needed resources started, and when they must end.
    pub holders: Vec<HolderTime>,
    /// Device errors that occurred near the end of the pod that ended first, as (device, XID).
    pub faults: Vec<(String, u32)>,
    /// Only for a running job.
    pub running: Option<RunningFacts>,
    /// Log messages of ended pods that explain why they ended.
    pub last_messages: Vec<LastMessage>,
    /// Information collected from the job's ranks.
    pub rank_answers: RankAnswers,
}

/// Information that ranks provide about themselves.
#[derive(Clone, Debug, Default)]
pub struct RankAnswers {
    pub ras: Option<RasReport>,
    /// Their stacks; `None` if they were not collected, or if the job is not running.
    pub stacks: Option<Vec<StackGroup>>,
    /// Number of pods with missing or incomplete stacks.
    pub unread: usize,
    /// Requests for information that were not answered, with the reason.
    pub silent: Vec<String>,
}

/// Facts about a running job.
#[derive(Clone, Debug, Default)]
pub struct RunningFacts {
    /// Measurements of its devices; empty without metrics.
    pub traces: Vec<Trace>,
    pub report: PeerReport,
    /// `None` if no metrics source answered.
    pub bottlenecks: Option<Bottlenecks>,
    /// When the job logged its last step, and how long a step takes.
    pub cadence: Option<Cadence>,
    /// The last log line of the rank that differs from the others, as (time, text).
    pub last_line: Option<(Option<Timestamp>, String)>,
}

/// A job has stalled after this many step durations without a step.
const STEPS: f64 = 10.0;
/// Minimum silence in seconds before a job counts as stalled.
const LEAST: f64 = 120.0;

impl RunningFacts {
    /// Returns the seconds since the last step if they far exceed the duration of a step.
    pub(super) fn stalled(&self, now: Timestamp) -> Option<f64> {
        let cadence = self.cadence.as_ref()?;
        let since = now.duration_since(cadence.last).as_secs_f64();
        (since > (cadence.seconds * STEPS).max(LEAST)).then_some(since)
    }

    /// The device whose rank the other ranks wait for. Unlike the others, it is not spinning, and
    /// it was not idle before.
    pub fn blocking_device(&self) -> Option<usize> {
        let report = &self.report;
        // A device without samples may be spinning too.
        if report.sampled != self.traces.len() {
            return None;
        }
        let is_majority = report.spinning.len() * 2 > report.sampled;
        let mut others = (0..self.traces.len()).filter(|device| !report.spinning.contains(device));
        let first = others.next().filter(|_| is_majority)?;
        // Several devices of the same pod count as one rank.
        let same = others.all(|device| self.traces[device].pods == self.traces[first].pods);
        same.then_some(first)
    }
}

/// A log message about the end of a pod.
#[derive(Clone, Debug)]
pub struct LastMessage {
    pub text: String,
    pub at: Option<Timestamp>,
}

/// A pod that is not scheduled.
#[derive(Clone, Debug)]
pub struct PendingPod {
    pub name: String,
    pub created_at: Option<Timestamp>,
    pub rules: PodRules,
    pub requests: Amounts,
    /// The node on which the scheduler preempts pods for it.
    pub nominated: Option<String>,
    /// The scheduler's last reason and message.
    pub unscheduled: Option<(String, String)>,
    /// The number of pods that must be scheduled together.
    pub together: u64,
    /// The status of its pod group, from the gang scheduler.
    pub group: Option<GroupVerdict>,
}

/// A PersistentVolumeClaim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFact {
    pub name: String,
    pub state: ClaimState,
}

/// Default time in seconds for which the API server keeps events (kube-apiserver, `--event-ttl`).
pub(super) const EVENT_SECONDS: i64 = 3600;

impl RankAnswers {
    /// The stacks of the ranks; empty if they are unknown.
    pub(super) fn places(&self) -> &[StackGroup] {
        self.stacks.as_deref().unwrap_or_default()
    }
}

impl Facts<'_> {
    /// The name of the job as commands accept it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.job.namespace, self.job.name)
    }

    /// The command that prints the log of a pod.
    pub(super) fn logs(&self, pod: &Pod, previous: bool) -> String {
        let previous = if previous { " --previous" } else { "" };
        if !self.subject.is_managed {
            return format!(
                "kubectl logs {} -n {}{previous}",
                pod.name, self.job.namespace
            );
        }
        let rank = pod
            .rank
            .map_or(String::new(), |rank| format!(" --rank {rank}"));
        format!("gpuctl logs {}{rank}{previous}", self.full_name())
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

    /// Classifies the availability of events.
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

    /// The newest event with one of these reasons.
    pub(super) fn event(&self, reasons: &[&str]) -> Option<&Event> {
        self.events?
            .iter()
            .rev()
            .find(|event| reasons.contains(&event.reason.as_str()))
    }
}
