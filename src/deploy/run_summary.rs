//! Collects the documents of a run by outcome, and determines in what way the run failed.

use gpuctl_core::error::ErrorKind;
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument};

#[derive(Default)]
pub(crate) struct RunSummary {
    pub done: Vec<Created>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
    /// The signal that ended the run while it wrote.
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
        // If nothing failed but some documents were not tried, the run was interrupted.
        worst.or_else(|| {
            let kind = self.interruption.unwrap_or(ErrorKind::Interrupted);
            (!self.not_tried.is_empty()).then_some(kind)
        })
    }
}
