//! Resolves the settings for scores. The environment overrides the file, which overrides the
//! defaults.

use std::time::Duration;

use super::resolve::Config;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScoreSettings {
    pub window_seconds: f64,
    pub step_seconds: f64,
    /// Weights of utilization, memory copy, used memory and power.
    pub weights: [f64; 4],
    pub idle: f64,
    pub low: f64,
    pub high: f64,
    /// Time between analyses.
    pub interval: Duration,
    /// Maximum number of concurrent calls to other systems.
    pub workers: usize,
    /// Address of the server that publishes the scores.
    pub listen: Option<String>,
    /// Host names that requests to the server may use.
    pub hosts: Vec<String>,
    /// The label `cluster` of exported scores.
    pub cluster: Option<String>,
    /// One of debug, info, warning, error and critical.
    pub level: String,
}

/// Config keys of the weights, in the order of `weights`.
const WEIGHTS: [&str; 4] = [
    "scoring.gpu_util_weight",
    "scoring.mem_copy_weight",
    "scoring.mem_used_weight",
    "scoring.power_weight",
];

impl ScoreSettings {
    /// Reads the settings. Errors name the invalid key or variable.
    pub(crate) fn read(config: &Config) -> anyhow::Result<Self> {
        let mut weights = [0.0; 4];
        for (weight, key) in weights.iter_mut().zip(WEIGHTS) {
            *weight = config.number(key)?;
        }
        Ok(Self {
            window_seconds: config.number("prometheus.time_window_min")? * 60.0,
            step_seconds: config.duration("prometheus.step")?.as_secs_f64(),
            weights,
            idle: config.number("thresholds.idle")?,
            low: config.number("thresholds.low_utilization")?,
            high: config.number("thresholds.high")?,
            interval: config.duration("scheduler.interval")?,
            workers: config.integer("scheduler.max_workers")?,
            listen: config.text("server.listen")?,
            hosts: hosts(&config.text("server.allow_hosts")?.unwrap_or_default()),
            cluster: config.text("cluster.name")?,
            level: config.text("log.level")?.unwrap_or_default(),
        })
    }
}

/// Splits a list such as `a.example.com, b.example.com`.
fn hosts(text: &str) -> Vec<String> {
    text.split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}
