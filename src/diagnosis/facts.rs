//! What is known of a job before its causes are looked for. Whatever could not be read is `None`, and no cause rests on it.

use jiff::Timestamp;

use super::answer::HolderTime;
use crate::model::capacity::Amounts;
use crate::model::room::Room;
use crate::model::{Event, Job, Node, Nodes, QuotaUse};
use crate::render::PodRules;

/// What was asked about.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// `training`, `inference`, …, or the kind of an object of others: `deployment`, `pod`.
    pub kind: String,
    /// True for what gpuctl made.
    pub ours: bool,
}

/// Everything that is known.
pub(crate) struct Facts<'f> {
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
    /// Of the namespace; empty where they may not be listed.
    pub quotas: Vec<QuotaUse>,
    /// When the holders of what it waits for began and must end, by NAMESPACE/NAME.
    pub holders: Vec<HolderTime>,
    /// What the logs of the pods that ended tell of their end.
    pub last_words: Vec<LastWord>,
}

/// Something that a log tells of an end.
#[derive(Clone, Debug)]
pub(crate) struct LastWord {
    pub text: String,
    pub at: Option<Timestamp>,
}

/// A pod that no scheduler has placed.
#[derive(Clone, Debug)]
pub(crate) struct PendingPod {
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
}

/// A volume claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimFact {
    pub name: String,
    pub state: ClaimState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    Bound,
    Missing,
    /// Waits for a volume.
    Unbound {
        class: Option<String>,
        /// `Some(false)`: there is no such class; `None`: may not be read.
        class_exists: Option<bool>,
        /// It is bound when its first pod is placed.
        with_first_pod: bool,
    },
    Unreadable,
}

/// Seconds for which the API server keeps events unless it is told otherwise (kube-apiserver, `--event-ttl`).
const EVENTS_KEPT: i64 = 3600;

impl Facts<'_> {
    /// Returns the name of the job as commands take it.
    #[must_use]
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.job.namespace, self.job.name)
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
        let age = self.job.created_at.map(|at| self.now.as_second() - at.as_second());
        match self.events {
            None => "forbidden",
            Some([]) if age.is_some_and(|age| age > EVENTS_KEPT) => "expired",
            Some([]) => "none",
            Some(_) => "seen",
        }
    }

    /// Returns the newest event of one of these reasons.
    pub(super) fn event(&self, reasons: &[&str]) -> Option<&Event> {
        self.events?.iter().rev().find(|event| reasons.contains(&event.reason.as_str()))
    }
}
