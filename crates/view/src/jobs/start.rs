//! Renders when a waiting job starts.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::{count, span};
use gpuctl_core::model::counting::start::StartForecast;

/// How long it still takes; numbers are `null` where too few similar starts are known.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartItem {
    /// A tenth of similar jobs waited no longer.
    p10_seconds: Option<f64>,
    /// Half of similar jobs waited no longer.
    p50_seconds: Option<f64>,
    /// Nine tenths of similar jobs waited no longer.
    p90_seconds: Option<f64>,
    /// Jobs that this rests on.
    similar_starts: u64,
    days: i64,
    /// Within which deadlines of those that run make room; `null` where they do not, or where
    /// others wait as well.
    latest_seconds: Option<f64>,
}

pub(crate) fn start_item(start: &StartForecast) -> StartItem {
    let at = |pick: fn((f64, f64, f64)) -> f64| start.quantiles.map(|all| pick(all).round());
    StartItem {
        p10_seconds: at(|all| all.0),
        p50_seconds: at(|all| all.1),
        p90_seconds: at(|all| all.2),
        similar_starts: start.similar,
        days: start.days,
        latest_seconds: start.latest.map(f64::round),
    }
}

/// Says it in one line.
pub(crate) fn start_text(start: &StartForecast) -> String {
    let from = format!(
        "{} within {}",
        count(start.similar, "similar start"),
        count(start.days.unsigned_abs(), "day")
    );
    let time = |seconds: f64| span(SignedDuration::from_secs(seconds as i64));
    let latest = start.latest.map(|seconds| {
        format!(
            "within {} at the latest, by deadlines of jobs that run",
            time(seconds)
        )
    });
    match (start.quantiles, latest) {
        (Some((_, half, most)), None) => {
            format!("start: P50 {}, P90 {}, from {from}", time(half), time(most))
        }
        (Some((_, half, most)), Some(latest)) => {
            format!(
                "start: P50 {}, P90 {}, from {from}; {latest}",
                time(half),
                time(most)
            )
        }
        (None, Some(latest)) => format!("start: {latest}"),
        (None, None) => format!("start: unknown, {from} are too few"),
    }
}
