//! Renders the expected start of a waiting job.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::{count, span};
use gpuctl_core::model::counting::start::StartForecast;
use gpuctl_core::model::values::whole;

/// Expected remaining time until the job starts. Times are `null` when too few similar jobs have
/// started before.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartItem {
    /// Remaining seconds within which 10 % of similar jobs started.
    p10_seconds: Option<f64>,
    /// Remaining seconds within which 50 % of similar jobs started.
    p50_seconds: Option<f64>,
    /// Remaining seconds within which 90 % of similar jobs started.
    p90_seconds: Option<f64>,
    /// Number of similar jobs that waited at least as long before they started.
    similar_starts: u64,
    days: i64,
    /// Seconds after which the deadlines of running jobs have freed enough capacity. `null` when
    /// they do not free enough, or when other jobs are waiting too.
    latest_seconds: Option<f64>,
}

pub(crate) fn start_item(start: &StartForecast) -> StartItem {
    let quantile =
        |pick: fn((f64, f64, f64)) -> f64| start.quantiles.map(|quantiles| pick(quantiles).round());
    StartItem {
        p10_seconds: quantile(|quantiles| quantiles.0),
        p50_seconds: quantile(|quantiles| quantiles.1),
        p90_seconds: quantile(|quantiles| quantiles.2),
        similar_starts: start.similar,
        days: start.days,
        latest_seconds: start.latest.map(f64::round),
    }
}

/// Formats the forecast on one line.
pub(crate) fn start_text(start: &StartForecast) -> String {
    let basis = format!(
        "{} within {}",
        count(start.similar, "similar start"),
        count(start.days.unsigned_abs(), "day")
    );
    let time = |seconds: f64| span(SignedDuration::from_secs(whole::to_i64(seconds)));
    let latest = start.latest.map(|seconds| {
        format!(
            "within {} at the latest, based on the deadlines of running jobs",
            time(seconds)
        )
    });
    match (start.quantiles, latest) {
        (Some((_, p50, p90)), None) => {
            format!("start: P50 {}, P90 {}, from {basis}", time(p50), time(p90))
        }
        (Some((_, p50, p90)), Some(latest)) => {
            format!(
                "start: P50 {}, P90 {}, from {basis}; {latest}",
                time(p50),
                time(p90)
            )
        }
        (None, Some(latest)) => format!("start: {latest}"),
        (None, None) => format!("start: unknown, because only {basis} were found"),
    }
}
