//! Events that a workflow reports while it runs. The caller decides whether to print them as text,
//! encode them as objects, or drop them.

use std::time::Instant;

use gpuctl_core::error::Error;
use gpuctl_core::model::contract::submission::{Created, Made};
use gpuctl_manifest::spec::Problems;

/// Something that happened during a workflow.
#[derive(Clone, Copy)]
pub(crate) enum DeployEvent<'e> {
    /// A task is starting. Holds its name in `auth check`, which errors about missing permissions
    /// use.
    Task(Option<&'static str>),
    /// From here on, the workflow only reads. It repeats these reports when it writes.
    ReadingBegins,
    ReadingEnds,
    /// Something may be wrong.
    Warning(&'e str),
    /// Something was omitted because a permission is missing.
    MissingRight(&'e str),
    /// For people only.
    Note(&'e str),
    /// For people and programs.
    Report(&'e str),
    /// For people. Programs get it only if they request details.
    Announcement(&'e str),
    /// Only for people and programs that request details.
    Detail(&'e str),
    /// Warnings about a file.
    Problems(&'e Problems),
    /// One part failed. The rest continues, or fails with a different error.
    Failed(&'e Error),
    /// The workflow starts to wait for something in the cluster.
    WaitBegins,
    /// The current reason for waiting.
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

    /// Receives each document as soon as it is done. Returns false if nobody reads the output
    /// anymore.
    fn done(&self, document: Done<'_>) -> Result<bool, Error>;

    /// Asks the user. Any answer except a clear yes counts as false.
    fn confirm(&self, question: &str) -> bool;

    /// The time when a wait must call `show` again, so that a CI system sees that it continues.
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

/// A waiting line that is shown until this value is dropped.
pub(crate) struct WaitingLine<'r>(&'r dyn Reporter);

impl<'r> WaitingLine<'r> {
    pub(crate) fn begin(reporter: &'r dyn Reporter) -> Self {
        reporter.report(DeployEvent::WaitBegins);
        Self(reporter)
    }

    pub(crate) fn show(&self, message: &str) {
        self.0.report(DeployEvent::Waiting(message));
    }

    /// The time of the next line, if the output is not a terminal.
    pub(crate) fn next_beat(&self) -> Option<Instant> {
        self.0.next_beat()
    }
}

impl Drop for WaitingLine<'_> {
    fn drop(&mut self) {
        self.0.report(DeployEvent::WaitEnds);
    }
}
