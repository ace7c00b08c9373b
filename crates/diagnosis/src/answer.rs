//! The answer: a situation, its causes by weight, what each rests on and what would help.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::causes::CAUSES;
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::{State, Status};
use gpuctl_core::stats::logs::stacks::StackGroup;

/// What is the matter with a job.
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

/// Why a job does what it does.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub situation: Situation,
    pub since: Option<Timestamp>,
    pub sentence: String,
    /// By weight.
    pub causes: Vec<Cause>,
    /// When it starts, for one that waits for room.
    pub start: Option<StartForecast>,
    /// Where its ranks stand; `None` when they were not asked.
    pub stacks: Option<Vec<StackGroup>>,
    pub not_evaluated: Vec<String>,
    pub coverage: Basis,
}

/// What the answer rests on.
#[derive(Clone, Debug, Default)]
pub struct Basis {
    /// Nodes that were looked at; `None` where they may not be listed.
    pub nodes: Option<usize>,
    /// `seen`, `none`, `expired`, `forbidden`.
    pub events: &'static str,
}

/// One cause.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    /// A word of [`CAUSES`].
    pub word: &'static str,
    /// From 0 to 1; those of one answer add up to 1.
    pub weight: f64,
    /// Nodes on which it holds.
    pub nodes: Option<u64>,
    pub evidence: Vec<Evidence>,
    pub holders: Vec<HolderTime>,
    pub helps: Vec<Help>,
}

/// Something that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    pub what: String,
    /// `inventory`, `pod`, `job`, `events`, `scheduler`, `queue`, `prometheus`, `logs`, `ras`,
    /// `stacks`.
    pub seen_in: &'static str,
    pub at: Option<Timestamp>,
}

/// Who holds what the job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderTime {
    /// NAMESPACE/NAME.
    pub name: String,
    pub gpus: u64,
    pub since: Option<Timestamp>,
    /// When its deadline ends it at the latest.
    pub ends_by: Option<Timestamp>,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    pub text: String,
    pub command: Option<String>,
    /// True where it was computed that the job starts then.
    pub proven: bool,
}

impl Cause {
    /// Makes a cause with what it rests on.
    ///
    /// # Panics
    /// In tests, for a word that docs/why.md does not explain.
    pub fn new(word: &'static str, what: impl Into<String>, seen_in: &'static str) -> Self {
        debug_assert!(
            CAUSES.iter().any(|(known, _)| *known == word),
            "{word} is not explained"
        );
        let evidence = vec![Evidence {
            what: what.into(),
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
    pub fn at(mut self, at: Option<Timestamp>) -> Self {
        if let Some(last) = self.evidence.last_mut() {
            last.at = at;
        }
        self
    }

    #[must_use]
    pub fn and(mut self, what: impl Into<String>, seen_in: &'static str) -> Self {
        self.evidence.push(Evidence {
            what: what.into(),
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

/// Causes that one answer names.
const MOST: usize = 5;

/// Gives each cause half the weight of the one before it, unless it has a weight of its own; all
/// add up to 1.
pub(super) fn weighed(mut causes: Vec<Cause>) -> Vec<Cause> {
    let mut seen = BTreeSet::new();
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

/// Says it in one sentence.
pub(super) fn sentence(name: &str, state: &State, answer: &Answer) -> String {
    let first = answer.causes.first();
    let told = first.map(|cause| {
        cause
            .evidence
            .first()
            .map_or(cause.word, |one| one.what.as_str())
    });
    match (answer.situation, told) {
        (Situation::Waiting, Some(told)) => format!("{name} waits: {told}"),
        (Situation::Dead, Some(told)) if state.status == Status::Failed => {
            format!("{name} failed: {told}")
        }
        (Situation::Stuck, Some(told)) => format!("{name} hangs: {told}"),
        (Situation::Slow, Some(told)) => format!("{name} is slower than it could be: {told}"),
        (_, Some(told)) => format!("{name}: {told}"),
        (Situation::Fine, None) => match state.status {
            Status::Succeeded => format!("{name} succeeded"),
            _ => format!("{name} runs; nothing stands in its way"),
        },
        (_, None) => {
            let reason = state.message.as_ref().or(state.reason.as_ref());
            let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
            format!(
                "{name} is {}{reason}; nothing that was seen tells why",
                state.status
            )
        }
    }
}
