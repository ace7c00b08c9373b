//! What `doctor` found of one thing. Scripts read it as JSON, so names of fields are kept.

use schemars::JsonSchema;
use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

impl CheckStatus {
    /// Its word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Check")]
pub struct DoctorCheck {
    pub check: &'static str,
    pub status: CheckStatus,
    /// Null for what is of the whole cluster.
    pub node: Option<String>,
    pub message: String,
    /// What repairs it, or shows more.
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
