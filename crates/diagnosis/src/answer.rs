//! A diagnosis: the situation of a job, the causes with their weights and evidence, and possible
//! remedies.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::causes::CAUSES;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::{State, Status};
use gpuctl_core::stats::logs::stacks::StackGroup;

/// The class of a `why` answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Situation {
    Waiting,
    Dead,
    Stuck,
    Slow,
    Fine,
    #[default]
    Unknown,
}

impl Situation {
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A diagnosis of a job.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub situation: Situation,
    pub since: Option<Timestamp>,
    pub sentence: String,
    /// The causes, with the largest weight first.
    pub causes: Vec<Cause>,
    /// The expected start of a job that waits for capacity.
    pub start: Option<StartForecast>,
    /// The ranks' stack traces, or `None` if they were not collected.
    pub stacks: Option<Vec<StackGroup>>,
    pub not_evaluated: Vec<String>,
    /// Whether a running job has no known problem, but some checks were not possible. Its situation
    /// is then `unknown`.
    pub is_unchecked: bool,
    pub coverage: Basis,
}

/// The data that an answer is based on.
#[derive(Clone, Debug, Default)]
pub struct Basis {
    /// Number of nodes compared with the pod, or `None` if the user cannot list nodes.
    pub nodes: Option<usize>,
    /// State of the events: `seen`, `none`, `expired` or `forbidden`.
    pub events: &'static str,
}

/// A cause with its evidence.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    /// A name from [`CAUSES`].
    pub word: &'static str,
    /// A number from 0 to 1. The weights of an answer sum to 1.
    pub weight: f64,
    /// Number of affected nodes.
    pub nodes: Option<u64>,
    pub evidence: Vec<Evidence>,
    pub holders: Vec<HolderTime>,
    pub helps: Vec<Help>,
}

/// An observation that supports a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    pub text: String,
    /// The source: `inventory`, `pod`, `job`, `events`, `scheduler`, `queue`, `prometheus`, `logs`,
    /// `ras` or `stacks`.
    pub seen_in: &'static str,
    pub at: Option<Timestamp>,
}

/// A holder of GPUs that the job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderTime {
    /// NAMESPACE/NAME.
    pub name: String,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    /// The deadline of the holder.
    pub ends_by: Option<Timestamp>,
}

/// A possible remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    pub text: String,
    pub command: Option<String>,
    /// Whether a computation shows that the job starts with this remedy.
    pub proven: bool,
}

impl Cause {
    /// Creates a cause with its first piece of evidence.
    ///
    /// # Panics
    ///
    /// In debug builds, if [`CAUSES`] does not contain `word`.
    pub fn new(word: &'static str, text: impl Into<String>, seen_in: &'static str) -> Self {
        debug_assert!(
            CAUSES.iter().any(|(listed, _)| *listed == word),
            "{word} is not explained"
        );
        let evidence = vec![Evidence {
            text: text.into(),
            seen_in,
            at: None,
        }];
        Self {
            word,
            evidence,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn when(mut self, at: Option<Timestamp>) -> Self {
        if let Some(last) = self.evidence.last_mut() {
            last.at = at;
        }
        self
    }

    #[must_use]
    pub fn and(mut self, text: impl Into<String>, seen_in: &'static str) -> Self {
        self.evidence.push(Evidence {
            text: text.into(),
            seen_in,
            at: None,
        });
        self
    }

    #[must_use]
    pub fn helps(mut self, text: impl Into<String>, command: Option<String>) -> Self {
        self.helps.push(Help {
            text: text.into(),
            command,
            proven: false,
        });
        self
    }

    #[must_use]
    pub fn proven(mut self, text: impl Into<String>, command: Option<String>) -> Self {
        self.helps.push(Help {
            text: text.into(),
            command,
            proven: true,
        });
        self
    }
}

/// Maximum number of causes in an answer.
const MOST: usize = 5;

/// Removes duplicate causes and sets the weights: each cause gets half the weight of the previous
/// one unless it already has a weight, and then all are normalized to a sum of 1.
pub(super) fn weighed(mut causes: Vec<Cause>) -> Vec<Cause> {
    let mut seen = BTreeSet::new();
    // Ranks often have the same cause, so keep only the first occurrence.
    causes.retain(|cause| seen.insert(cause.word));
    causes.truncate(MOST);
    let mut next = 1.0;
    for cause in &mut causes {
        if cause.weight == 0.0 {
            cause.weight = next;
        }
        next = cause.weight / 2.0;
    }
    let sum: f64 = causes.iter().map(|cause| cause.weight).sum();
    causes
        .iter_mut()
        .for_each(|cause| cause.weight = (cause.weight / sum * 100.0).round() / 100.0);
    causes
}

/// Summarizes the answer in one sentence.
pub(super) fn sentence(name: &str, state: &State, answer: &Answer) -> String {
    let first = answer.causes.first();
    let cause_text = first.map(|cause| {
        cause
            .evidence
            .first()
            .map_or(cause.word, |evidence| evidence.text.as_str())
    });
    match (answer.situation, cause_text) {
        (Situation::Waiting, Some(cause_text)) => format!("{name} waits: {cause_text}"),
        (Situation::Dead, Some(cause_text)) if state.status == Status::Failed => {
            format!("{name} failed: {cause_text}")
        }
        (Situation::Stuck, Some(cause_text)) => format!("{name} hangs: {cause_text}"),
        (Situation::Slow, Some(cause_text)) => {
            format!("{name} is slower than it could be: {cause_text}")
        }
        (_, Some(cause_text)) => format!("{name}: {cause_text}"),
        (Situation::Fine, None) => match state.status {
            Status::Succeeded => format!("{name} succeeded"),
            _ => format!("{name} is running without known problems"),
        },
        (_, None) => {
            let reason = state.message.as_ref().or(state.reason.as_ref());
            let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
            format!("{name} is {}{reason}; the cause is unknown", state.status)
        }
    }
}
