//! Request metrics of servers, with the same fields in `eff` and `report`.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::stats::history::serving_hours::ServingHours;

use crate::format::coverage::rounded;

#[derive(JsonSchema, Serialize)]
pub(crate) struct ServingHoursItem {
    held_gpu_hours: f64,
    /// GPU-hours during which no request was running, waiting or answered.
    idle_gpu_hours: f64,
    prompt_tokens: f64,
    generated_tokens: f64,
    generated_tokens_per_gpu_hour: Option<f64>,
}

impl From<&ServingHours> for ServingHoursItem {
    fn from(sum: &ServingHours) -> Self {
        Self {
            held_gpu_hours: rounded(sum.held),
            idle_gpu_hours: rounded(sum.idle),
            prompt_tokens: sum.prompt_tokens,
            generated_tokens: sum.generated_tokens,
            generated_tokens_per_gpu_hour: sum.tokens_per_gpu_hour().map(rounded),
        }
    }
}
