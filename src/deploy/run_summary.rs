//! Collects the documents of a run by outcome, and determines in what way the run failed.

use gpuctl_core::error::ErrorKind;
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument};

#[derive(Default)]
pub(crate) struct RunSummary {
    pub done: Vec<Created>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
}

impl RunSummary {
    /// Returns the kind of failure, if the run failed. An interruption is a separate kind.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        let worst = |failed: &FailedDocument| match failed.error.kind {
            ErrorKind::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Request,
        };
        let worst = self
            .failed
            .iter()
            .map(worst)
            .max_by_key(|kind| kind.exit_code());
        // If nothing failed but some documents were not tried, the run was interrupted.
        worst.or_else(|| (!self.not_tried.is_empty()).then_some(ErrorKind::Interrupted))
    }
}
