//! The result of one check of `doctor`. Scripts read it as JSON, so field names must not change.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

impl CheckStatus {
    /// The name of this status in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Check")]
pub struct DoctorCheck {
    pub check: &'static str,
    pub status: CheckStatus,
    /// Null for checks of the whole cluster.
    pub node: Option<String>,
    pub message: String,
    /// A command or an action that repairs the problem, or shows more about it.
    pub fix: Option<String>,
}

impl DoctorCheck {
    pub fn new(status: CheckStatus, check: &'static str, message: String) -> Self {
        Self {
            check,
            status,
            node: None,
            message,
            fix: None,
        }
    }

    #[must_use]
    pub fn on(self, node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..self
        }
    }

    #[must_use]
    pub fn fix(self, fix: &str) -> Self {
        Self {
            fix: Some(fix.to_owned()),
            ..self
        }
    }
}
