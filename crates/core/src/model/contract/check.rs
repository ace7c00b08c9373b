//! Results of the checks of `doctor`, and its verdict about the cluster. Scripts read them as JSON,
//! so field names must not change.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::ResultCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

impl CheckStatus {
    /// Returns the status as it appears in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Name of the check of the GPU software on the nodes.
pub const GPU_STACK: &str = "gpu-stack";

/// What `doctor` concludes from all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterVerdict {
    /// Every check is `ok`.
    Healthy,
    /// The cluster responds, but a check is not `ok`.
    Degraded,
    /// The cluster does not respond, or the GPU software is incomplete on every node with GPUs.
    Broken,
}

impl ClusterVerdict {
    /// Derives the verdict from the checks of a cluster that responds.
    pub fn from_checks(checks: &[DoctorCheck]) -> Self {
        let breaks_cluster = |check: &DoctorCheck| {
            check.check == GPU_STACK && check.node.is_none() && check.status == CheckStatus::Fail
        };
        if checks.iter().any(breaks_cluster) {
            Self::Broken
        } else if checks.iter().all(|check| check.status == CheckStatus::Ok) {
            Self::Healthy
        } else {
            Self::Degraded
        }
    }

    /// Returns the verdict as it appears in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Broken => "broken",
        }
    }

    /// Returns the exit code of `doctor`, or `None` for success.
    pub fn result_code(self) -> Option<ResultCode> {
        match self {
            Self::Healthy => None,
            Self::Degraded => Some(ResultCode::Degraded),
            Self::Broken => Some(ResultCode::Broken),
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
