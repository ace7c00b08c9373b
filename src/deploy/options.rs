//! How documents are submitted, as a command decided it. The command line that says so is in `cli/args/submit.rs`.

use std::time::Duration;

use super::decide::Mode;

/// How documents are submitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubmitOptions {
    /// What is done about jobs that exist.
    pub mode: Mode,
    /// Shows what would be written instead of writing it.
    pub dry_run: Option<DryRun>,
    /// Keeps the objects of a document that fails part way.
    pub keep_partial: bool,
    /// Moves nodes that are in another pool.
    pub force: bool,
    /// Lets only administrators read the definitions of pools.
    pub private: bool,
    /// Waits for the jobs.
    pub wait: Option<WaitGoal>,
    /// Longest time to wait.
    pub timeout: Option<Duration>,
}

/// Who judges a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    Client,
    Server,
}

/// The state of a job that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitGoal {
    Running,
    Complete,
}
