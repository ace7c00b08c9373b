//! How scores are computed: flags over environment over file over the document's defaults.

use std::path::Path;

use super::Environment;
use super::file::ConfigFile;

/// What was set somewhere; the rest is as the document has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoreSettings {
    pub window_seconds: Option<f64>,
    pub step_seconds: Option<f64>,
    /// Of utilization, memory copy, memory used, power.
    pub weights: [Option<f64>; 4],
    pub idle: Option<f64>,
    pub low: Option<f64>,
}

/// The document's keys of the weights, in their order.
const WEIGHTS: [&str; 4] = ["gpu_util_weight", "mem_copy_weight", "mem_used_weight", "power_weight"];

impl ScoreSettings {
    /// What environment and file say; an error names the key or variable.
    pub fn read(file: Option<&Path>, duration: impl Fn(&str) -> Option<f64>) -> Result<Self, String> {
        let file = ConfigFile::read(file)?;
        let threshold = match Environment::variable("THRESHOLD").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| format!("THRESHOLD is `{text}`, which is no number"))?),
        };
        let step = match file.text("prometheus", "step") {
            None => file.number("prometheus", "step")?,
            Some(text) => Some(duration(&text).ok_or("`prometheus.step` of the config file is no duration such as 30s")?),
        };
        let mut weights = [None; 4];
        for (weight, key) in weights.iter_mut().zip(WEIGHTS) {
            *weight = file.number("scoring", key)?;
        }
        Ok(Self {
            window_seconds: file.number("prometheus", "time_window_min")?.map(|minutes| minutes * 60.0),
            step_seconds: step,
            weights,
            idle: file.number("thresholds", "idle")?,
            low: threshold.or(file.number("thresholds", "low_utilization")?),
        })
    }
}
