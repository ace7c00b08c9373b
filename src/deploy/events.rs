//! What a workflow says while it runs. Its caller decides what becomes of it: text on a terminal,
//! objects for programs, or nothing.

use gpuctl_core::error::Error;
use gpuctl_core::model::contract::submission::{Created, Made};
use gpuctl_manifest::spec::Problems;

/// Something that happened on the way.
#[derive(Clone, Copy)]
pub(crate) enum DeployEvent<'e> {
    /// What is done from now on, as `auth check` names it. Refusals need the rights for it.
    Task(Option<&'static str>),
    /// From now on the workflow only looks: it says the same again when it does it.
    LookingBegins,
    LookingEnds,
    /// Something may be wrong.
    Warning(&'e str),
    /// Something is left out for lack of a right.
    Lack(&'e str),
    /// For people.
    Note(&'e str),
    /// For people and programs alike.
    Report(&'e str),
    /// For people, and for programs that want details.
    Announcement(&'e str),
    /// For those who want details.
    Detail(&'e str),
    /// Warnings about a file.
    Problems(&'e Problems),
    /// A part failed; the whole goes on, or fails with another error.
    Failed(&'e Error),
    /// Something in the cluster is awaited.
    WaitBegins,
    /// What the wait is for now.
    Waiting(&'e str),
    WaitEnds,
}

/// A document that is done.
#[derive(Clone, Copy)]
pub(crate) enum Done<'d> {
    /// A pool, a quota or defaults.
    Shared(&'d Made),
    /// A job that would be written.
    Foreseen(&'d Created),
    /// A job that is written.
    Written(&'d Created),
}

/// Whoever called a workflow.
pub(crate) trait Reporter {
    fn tell(&self, event: DeployEvent<'_>);

    /// Takes a document as soon as it is done. Returns false when nobody reads any more.
    fn done(&self, document: Done<'_>) -> Result<bool, Error>;

    /// Asks a person. Anything but a clear yes is false.
    fn confirm(&self, question: &str) -> bool;

    fn warn(&self, message: &str) {
        self.tell(DeployEvent::Warning(message));
    }

    fn note(&self, message: &str) {
        self.tell(DeployEvent::Note(message));
    }
}

/// Says that something is awaited, until it is dropped.
pub(crate) struct WaitingLine<'r>(&'r dyn Reporter);

impl<'r> WaitingLine<'r> {
    pub(crate) fn begin(reporter: &'r dyn Reporter) -> Self {
        reporter.tell(DeployEvent::WaitBegins);
        Self(reporter)
    }

    pub(crate) fn show(&self, what: &str) {
        self.0.tell(DeployEvent::Waiting(what));
    }
}

impl Drop for WaitingLine<'_> {
    fn drop(&mut self) {
        self.0.tell(DeployEvent::WaitEnds);
    }
}
