//! Options for a submission, independent of the command line. `cli/args/submit.rs` fills them.

use std::time::Duration;

use gpuctl_cluster::DryRun;
use gpuctl_manifest::spec::Document;

/// How a submission treats existing objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Fails if an object exists.
    #[default]
    Create,
    /// Changes existing objects.
    Apply {
        force_conflicts: bool,
        replace: bool,
    },
}

impl Mode {
    pub(crate) fn changes(self) -> bool {
        self != Self::Create
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SubmitOptions {
    /// How to treat jobs that already exist.
    pub mode: Mode,
    /// Whether to show the objects instead of writing them.
    pub dry_run: Option<DryRun>,
    /// Whether to keep the objects of a document that fails midway.
    pub keep_partial: bool,
    /// Whether to move nodes from other pools.
    pub force: bool,
    /// Whether only administrators can read pool definitions.
    pub private: bool,
    /// Whether to submit jobs although the site's defaults cannot be read.
    pub ignore_defaults: bool,
    /// Whether to mark the namespace of the definitions, which requires an administrator.
    pub trust_namespace: bool,
    /// Whether jobs that can never run here cause only a warning.
    pub allow_pending: bool,
    /// Condition to wait for, if any.
    pub wait: Option<WaitGoal>,
    /// Whether to print the log of the run's only job until it ends.
    pub follow: bool,
    /// Maximum time to wait.
    pub timeout: Option<Duration>,
    /// If set, a document of another kind makes the whole run fail.
    pub only_kind: Option<DocumentKind>,
}

/// Kinds of documents for `--only-kind`. All jobs count as one kind, because a job only affects its
/// author. The other kinds affect all users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum DocumentKind {
    Job,
    Pool,
    Quota,
    Defaults,
}

impl DocumentKind {
    /// Values of `--only-kind`.
    pub(crate) const WORDS: [&str; 4] = ["job", "pool", "quota", "defaults"];

    /// Parses one of [`Self::WORDS`].
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        word.parse().ok()
    }

    pub(crate) fn word(self) -> &'static str {
        self.into()
    }

    pub(crate) fn from_document(document: &Document) -> Self {
        match document {
            Document::Job(_) => Self::Job,
            Document::Pool(_) => Self::Pool,
            Document::Quota(_) => Self::Quota,
            Document::Defaults(_) => Self::Defaults,
        }
    }
}

/// Condition of a job to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitGoal {
    Running,
    Complete,
    /// The containers have started, and may already have ended, so the log can be read.
    Started,
}
