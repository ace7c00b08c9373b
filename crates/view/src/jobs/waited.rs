//! Renders the result of `wait`.

use schemars::JsonSchema;
use serde::Serialize;

/// The result of `wait`, with the state of each job at its end.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WaitResult {
    /// The condition, as given with `--for`.
    pub condition: String,
    /// Whether the condition was met: by all jobs, or by one with `--any`.
    pub met: bool,
    pub items: Vec<WaitedJob>,
    pub total: usize,
}

/// A job of `wait`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitedJob {
    pub job_id: String,
    pub namespace: String,
    /// `met`, `waiting`, or `impossible` if the job ended in another way.
    pub outcome: &'static str,
    /// The status as in `get jobs`; `null` if the job does not exist.
    pub status: Option<&'static str>,
    pub reason: Option<String>,
    pub message: Option<String>,
}

impl WaitedJob {
    /// Formats the state with its reason, such as `running 2/2` or `deleted`.
    pub fn state(&self) -> String {
        match (self.status, &self.reason) {
            (None, _) => "deleted".to_owned(),
            (Some(status), None) => status.to_owned(),
            (Some(status), Some(reason)) => format!("{status} {reason}"),
        }
    }
}

/// Renders one line per job.
pub fn text(result: &WaitResult) -> String {
    let line = |job: &WaitedJob| format!("{}: {}\n", job.job_id, job.state());
    result.items.iter().map(line).collect()
}
