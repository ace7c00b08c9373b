//! What became of the documents of a run.

use gpuctl_core::error::ErrorKind;
use gpuctl_core::model::contract::submission::{Created, DocumentName, FailedDocument};

/// What became of the documents of a run.
#[derive(Default)]
pub(crate) struct RunSummary {
    pub done: Vec<Created>,
    pub failed: Vec<FailedDocument>,
    pub not_tried: Vec<DocumentName>,
}

impl RunSummary {
    /// Returns how the run failed, if it did. An interruption differs from a failure.
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
        // Documents that were not tried although none failed were stopped by an interruption.
        worst.or_else(|| (!self.not_tried.is_empty()).then_some(ErrorKind::Interrupted))
    }
}
