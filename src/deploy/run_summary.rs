//! Collects the documents of a run by outcome, and determines the run's kind of failure.

use gpuctl_core::error::ErrorKind;
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument};

#[derive(Default)]
pub(crate) struct RunSummary {
    pub done: Vec<Created>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
    /// Signal that interrupted the run while it was writing.
    pub interruption: Option<ErrorKind>,
}

impl RunSummary {
    /// Returns the kind of failure, if the run failed. An interruption is a separate kind.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        let worst = |failed: &FailedDocument| match failed.error.kind {
            kind @ (ErrorKind::Interrupted | ErrorKind::Terminated) => kind,
            _ => ErrorKind::Request,
        };
        let worst = self
            .failed
            .iter()
            .map(worst)
            .max_by_key(|kind| kind.exit_code());
        // Documents that were not tried, without any failure, mean an interruption.
        worst.or_else(|| {
            let kind = self.interruption.unwrap_or(ErrorKind::Interrupted);
            (!self.not_tried.is_empty()).then_some(kind)
        })
    }
}
