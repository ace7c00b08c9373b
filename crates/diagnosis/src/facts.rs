//! What is known of a job before its causes are looked for. Whatever could not be read is `None`,
//! and no cause rests on it.

use jiff::Timestamp;

use super::answer::HolderTime;
use gpuctl_core::model::counting::candidates::Room;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_demand::DeviceClaims;
use gpuctl_core::model::{ClaimState, Event, GroupVerdict, Job, Node, Nodes, Pod, Queue, QuotaUse};
use gpuctl_core::stats::history::curves::Trace;
use gpuctl_core::stats::logs::progress::Cadence;
use gpuctl_core::stats::logs::ras::RasReport;
use gpuctl_core::stats::logs::stacks::StackGroup;
use gpuctl_core::stats::score::bottlenecks::Bottlenecks;
use gpuctl_core::stats::score::peers::PeerReport;
use gpuctl_manifest::render::PodRules;

/// What was asked about.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `training`, `inference`, …, or the kind of an object of others: `deployment`, `pod`.
    pub kind: String,
    /// True for what gpuctl made.
    pub ours: bool,
}

/// Everything that is known.
pub struct Facts<'f> {
    pub now: Timestamp,
    pub subject: &'f Subject,
    pub job: &'f Job,
    /// Of the job and its pods, the newest last; `None` where they may not be listed.
    pub events: Option<&'f [Event]>,
    /// The first pod that has no node.
    pub pending: Option<PendingPod>,
    pub nodes: &'f Nodes,
    /// What is free; `None` where not all pods may be listed.
    pub room: Option<&'f Room>,
    /// Volume claims of the pending pod, or of the job.
    pub claims: Vec<ClaimFact>,
    /// What the pending pod claims of devices.
    pub devices: DeviceClaims,
    /// Of the namespace; empty where they may not be listed.
    pub quotas: Vec<QuotaUse>,
    /// Its queue, where that is one of Volcano's, whose scheduler tells only that the pods are not
    /// placed.
    pub queue: Option<Queue>,
    /// When the holders of what it waits for began and must end, by NAMESPACE/NAME.
    pub holders: Vec<HolderTime>,
    /// Errors that devices of the pod that ended first told around its end: (device, XID).
    pub faults: Vec<(String, u32)>,
    /// Of a job that runs.
    pub running: Option<RunningFacts>,
    /// What the logs of the pods that ended tell of their end.
    pub last_words: Vec<LastWord>,
    /// What its ranks told when they were asked.
    pub asked: RankAnswers,
}

/// What ranks tell themselves.
#[derive(Clone, Debug, Default)]
pub struct RankAnswers {
    pub ras: Option<RasReport>,
    /// Where they stand; `None` when nobody asked, or the job does not run.
    pub stacks: Option<Vec<StackGroup>>,
    /// Pods whose stacks are not known, or not all of them.
    pub unread: usize,
    /// What was asked and not answered, and why.
    pub silent: Vec<String>,
}

/// What is known of a job that runs.
#[derive(Clone, Debug, Default)]
pub struct RunningFacts {
    /// Of its devices; empty where no metrics tell.
    pub traces: Vec<Trace>,
    pub report: PeerReport,
    /// `None` where nobody answered.
    pub bottlenecks: Option<Bottlenecks>,
    /// When it told its last step, and how long a step takes.
    pub cadence: Option<Cadence>,
    /// The last line of the rank that differs: (when, text).
    pub last_line: Option<(Option<Timestamp>, String)>,
}

/// Steps after which a job without a further one has stalled.
const STEPS: f64 = 10.0;
/// Seconds that it has to be silent at least.
const LEAST: f64 = 120.0;

impl RunningFacts {
    /// Returns the seconds since the last step where that is far longer than a step takes.
    pub(super) fn stalled(&self, now: Timestamp) -> Option<f64> {
        let cadence = self.cadence.as_ref()?;
        let since = now.duration_since(cadence.last).as_secs_f64();
        (since > (cadence.seconds * STEPS).max(LEAST)).then_some(since)
    }

    /// Returns the device whose rank the others wait for: the one that neither spins like them nor
    /// was silent before.
    pub fn waited_for(&self) -> Option<usize> {
        let report = &self.report;
        // A device without samples may spin as well.
        if report.sampled != self.traces.len() {
            return None;
        }
        let most = report.spinning.len() * 2 > report.sampled;
        let mut others = (0..self.traces.len()).filter(|device| !report.spinning.contains(device));
        let first = others.next().filter(|_| most)?;
        // Several devices of one pod are one rank.
        let same = others.all(|other| self.traces[other].pods == self.traces[first].pods);
        same.then_some(first)
    }
}

/// Something that a log tells of an end.
#[derive(Clone, Debug)]
pub struct LastWord {
    pub text: String,
    pub at: Option<Timestamp>,
}

/// A pod that no scheduler has placed.
#[derive(Clone, Debug)]
pub struct PendingPod {
    pub name: String,
    pub created_at: Option<Timestamp>,
    pub rules: PodRules,
    pub requests: Amounts,
    /// The node that is being freed for it.
    pub nominated: Option<String>,
    /// What the scheduler said last: (reason, message).
    pub unscheduled: Option<(String, String)>,
    /// How many pods must find room together.
    pub together: u64,
    /// What the scheduler of gangs says of its group.
    pub group: Option<GroupVerdict>,
}

/// A volume claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFact {
    pub name: String,
    pub state: ClaimState,
}

/// Seconds for which the API server keeps events unless it is told otherwise (kube-apiserver,
/// `--event-ttl`).
pub(super) const EVENTS_KEPT: i64 = 3600;

impl RankAnswers {
    /// Returns where the ranks stand, as far as they told.
    pub(super) fn places(&self) -> &[StackGroup] {
        self.stacks.as_deref().unwrap_or_default()
    }
}

impl Facts<'_> {
    /// Returns the name of the job as commands take it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.job.namespace, self.job.name)
    }

    /// Returns the command that prints the log of a pod.
    pub(super) fn logs(&self, pod: &Pod, previous: bool) -> String {
        let previous = if previous { " --previous" } else { "" };
        if !self.subject.ours {
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

    /// Says what of the events was there.
    pub(super) fn events_word(&self) -> &'static str {
        let age = self
            .job
            .created_at
            .map(|at| self.now.as_second() - at.as_second());
        match self.events {
            None => "forbidden",
            Some([]) if age.is_some_and(|age| age > EVENTS_KEPT) => "expired",
            Some([]) => "none",
            Some(_) => "seen",
        }
    }

    /// Returns the newest event of one of these reasons.
    pub(super) fn event(&self, reasons: &[&str]) -> Option<&Event> {
        self.events?
            .iter()
            .rev()
            .find(|event| reasons.contains(&event.reason.as_str()))
    }
}
