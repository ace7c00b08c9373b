//! Events that a workflow reports while it runs. The reporter decides how to print each event.

use std::time::Instant;

use gpuctl_core::error::Error;
use gpuctl_core::model::contract::submission::{Created, Made};
use gpuctl_manifest::spec::Problems;

/// Something that happened during a workflow.
#[derive(Clone, Copy)]
pub(crate) enum DeployEvent<'e> {
    /// A task is starting. Contains its name in `auth check`, which errors about missing
    /// permissions mention.
    Task(Option<&'static str>),
    /// The workflow starts a phase that only reads. Its reports are not printed, because writing
    /// repeats them.
    ReadingBegins,
    ReadingEnds,
    /// Something may be wrong.
    Warning(&'e str),
    /// Something was omitted because a permission is missing.
    MissingRight(&'e str),
    /// A note that only text output contains.
    Note(&'e str),
    /// A note in text output, and a warning in JSON output.
    Report(&'e str),
    /// A note in text output. JSON output contains it only with `-v`.
    Announcement(&'e str),
    /// A note that is printed only with `-v`.
    Detail(&'e str),
    /// Warnings about one file.
    Problems(&'e Problems),
    /// A part of the workflow failed. The rest continues, or fails with another error.
    Failed(&'e Error),
    /// The workflow starts to wait for the cluster.
    WaitBegins,
    /// The reason for waiting, which may change.
    Waiting(&'e str),
    WaitEnds,
}

/// A document that has been processed.
#[derive(Clone, Copy)]
pub(crate) enum Done<'d> {
    /// A pool, a quota or the defaults.
    Shared(&'d Made),
    /// A job in a dry run.
    DryRun(&'d Created),
    /// A job that was written.
    Written(&'d Created),
}

/// Receives the events of a workflow.
pub(crate) trait Reporter {
    fn report(&self, event: DeployEvent<'_>);

    /// Receives each document once it is done. Returns false if the reader has closed the output.
    fn done(&self, document: Done<'_>) -> Result<bool, Error>;

    /// Asks the user a question. Returns true only for a clear yes.
    fn confirm(&self, question: &str) -> bool;

    /// Returns the deadline for the next call of `show`, so that CI logs show progress.
    fn next_beat(&self) -> Option<Instant> {
        None
    }

    fn warn(&self, message: &str) {
        self.report(DeployEvent::Warning(message));
    }

    fn note(&self, message: &str) {
        self.report(DeployEvent::Note(message));
    }
}

/// A line about the wait, which is visible until this value is dropped.
pub(crate) struct WaitingLine<'r>(&'r dyn Reporter);

impl<'r> WaitingLine<'r> {
    pub(crate) fn begin(reporter: &'r dyn Reporter) -> Self {
        reporter.report(DeployEvent::WaitBegins);
        Self(reporter)
    }

    pub(crate) fn show(&self, message: &str) {
        self.0.report(DeployEvent::Waiting(message));
    }

    /// Returns the time of the next line, if the output is not a terminal.
    pub(crate) fn next_beat(&self) -> Option<Instant> {
        self.0.next_beat()
    }
}

impl Drop for WaitingLine<'_> {
    fn drop(&mut self) {
        self.0.report(DeployEvent::WaitEnds);
    }
}
