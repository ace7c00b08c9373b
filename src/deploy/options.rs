//! Options for a submission. They do not depend on the command line, which `cli/args/submit.rs`
//! parses.

use std::time::Duration;

use gpuctl_cluster::DryRun;
use gpuctl_manifest::spec::Document;

/// How to treat objects that already exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An existing object is an error.
    #[default]
    Create,
    /// An existing object is changed.
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
    /// Shows what would be written instead of writing it.
    pub dry_run: Option<DryRun>,
    /// Keeps the objects of a document that fails midway.
    pub keep_partial: bool,
    /// Moves nodes that are in another pool.
    pub force: bool,
    /// Makes pool definitions readable only by administrators.
    pub private: bool,
    /// Submits jobs even if the site's defaults cannot be read.
    pub ignore_defaults: bool,
    /// Adds the administrator's mark to the namespace that holds the definitions.
    pub trust_namespace: bool,
    /// Submits jobs that can never run here, with only a warning.
    pub allow_pending: bool,
    /// The state to wait for, if any.
    pub wait: Option<WaitGoal>,
    /// Prints the log of the run's only job until it ends.
    pub follow: bool,
    /// How long to wait.
    pub timeout: Option<Duration>,
    /// Refuses the whole run if it contains a document of another kind.
    pub only_kind: Option<DocumentKind>,
}

/// Kinds of documents, by the users whom they affect: a job affects its author, and all other kinds
/// affect everyone.
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

    /// The kind of a parsed document.
    pub(crate) fn from_document(document: &Document) -> Self {
        match document {
            Document::Job(_) => Self::Job,
            Document::Pool(_) => Self::Pool,
            Document::Quota(_) => Self::Quota,
            Document::Defaults(_) => Self::Defaults,
        }
    }
}

/// The state of a job to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitGoal {
    Running,
    Complete,
    /// The containers have started, and may already have ended. The log can be read.
    Started,
}
