//! JSON output of `version`: the program, and settings that affect its abilities.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The JSON output of `version`.
#[derive(JsonSchema, Serialize)]
pub struct Version<'a> {
    pub service: &'static str,
    pub version: &'static str,
    pub features: Features,
    pub config: Configured<'a>,
}

/// The enabled features. Settings are shown as they are written, even if they are invalid.
#[derive(JsonSchema, Serialize)]
pub struct Features {
    pub ai_analysis: Value,
    pub prometheus_metrics: bool,
    pub control_api: Value,
}

/// Settings that affect the output of other commands.
#[derive(JsonSchema, Serialize)]
pub struct Configured<'a> {
    /// The URL of Prometheus without user, password and parameters.
    pub prometheus_url: Option<&'a str>,
    /// A GPU below this percentage is reported as underused.
    pub threshold: Value,
    /// Seconds between two analyses.
    pub interval: Option<u64>,
}
