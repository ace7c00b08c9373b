//! What `version` answers programs: the program, and the settings that decide what it can do.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The answer of `version`.
#[derive(JsonSchema, Serialize)]
pub struct Version<'a> {
    pub service: &'static str,
    pub version: &'static str,
    pub features: Features,
    pub config: Configured<'a>,
}

/// Which parts are at work. Settings are shown as they are written, which may be wrong.
#[derive(JsonSchema, Serialize)]
pub struct Features {
    pub ai_analysis: Value,
    pub prometheus_metrics: bool,
    pub control_api: Value,
}

/// Settings that decide what other commands answer.
#[derive(JsonSchema, Serialize)]
pub struct Configured<'a> {
    /// Without user, password and parameters.
    pub prometheus_url: Option<&'a str>,
    /// Percent below which a GPU is told to be used little.
    pub threshold: Value,
    /// Seconds between two analyses.
    pub interval: Option<u64>,
}
