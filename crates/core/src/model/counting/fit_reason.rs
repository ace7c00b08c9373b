//! The reason why a job does not fit, as its nodes, volumes and queue report it.

use std::borrow::Cow;

/// Reason why a job does not fit, or why that is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitReason {
    /// Id of a cause of `why`, such as `claim-missing`, or name of an error, such as
    /// `SecretNotFound`.
    pub cause: Cow<'static, str>,
    pub text: String,
}

impl FitReason {
    pub fn new(cause: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            text: text.into(),
        }
    }
}
