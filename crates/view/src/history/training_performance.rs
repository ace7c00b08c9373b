//! Renders `get metrics training-performance`: metrics in the log of a training.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::Point;
use gpuctl_core::stats::logs::training::{Measure, TrainingCurves};

use crate::TextStyle;
use crate::format::chart::{ChartFrame, spark};
use crate::format::coverage::rounded;

/// A value of a training metric.
#[derive(JsonSchema, Serialize)]
pub struct Performance {
    metric: &'static str,
    value: f64,
    /// Time in Unix milliseconds.
    timestamp: i64,
}

/// Returns the values of each metric, sorted by time.
pub fn performance(curves: &TrainingCurves) -> Vec<Performance> {
    let performance_of = |measure: Measure| {
        let points = curves.get(&measure).into_iter().flatten();
        points.map(move |point| Performance {
            metric: measure.name(),
            value: point.value,
            timestamp: point.at,
        })
    };
    Measure::ALL
        .iter()
        .copied()
        .flat_map(performance_of)
        .collect()
}

/// Renders a line for each metric with its name, last value and curve.
pub fn performance_text(curves: &TrainingCurves, from: i64, to: i64, style: TextStyle) -> String {
    let mut text = String::new();
    for &measure in Measure::ALL {
        let Some((points, last)) = curves
            .get(&measure)
            .and_then(|points| Some((points, points.last()?)))
        else {
            continue;
        };
        let lowest = points
            .iter()
            .map(|point| point.value)
            .fold(f64::INFINITY, f64::min);
        let highest = points
            .iter()
            .map(|point| point.value)
            .fold(f64::NEG_INFINITY, f64::max);
        let width = style
            .width
            .map_or(40, |width| width.saturating_sub(50).clamp(10, 60));
        // Draw the lowest value at the bottom, so that changes are visible.
        let raised: Vec<Point> = points
            .iter()
            .map(|point| Point {
                at: point.at,
                value: point.value - lowest,
            })
            .collect();
        let frame = ChartFrame {
            from,
            to,
            // The range of a constant curve is 0, but heights are divided by it.
            top: (highest - lowest).max(f64::MIN_POSITIVE),
            height: 2,
            width,
        };
        let curve = spark(&raised, frame, style);
        text.push_str(&format!(
            "{:<20} {:>12}  {}\n",
            measure.name(),
            figure(last.value),
            curve.trim_end()
        ));
    }
    text
}

/// Formats a number, with an exponent if it is small, such as a learning rate.
fn figure(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.01 {
        format!("{value:.2e}")
    } else {
        format!("{}", rounded(value))
    }
}
