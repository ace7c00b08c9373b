//! Renders `score stats`: totals and means over all devices.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::Band;

use crate::format::coverage::rounded;
use crate::format::text::{clean, count};

/// Totals and means over the devices that pods hold. Devices with an unknown score are counted, but
/// they do not lower a mean.
#[derive(JsonSchema, Serialize)]
pub struct ScoreStats {
    pub(crate) total_gpus: usize,
    pub(crate) avg_score: Option<f64>,
    min_score: Option<f64>,
    max_score: Option<f64>,
    pub(crate) low_utilization_count: usize,
    pub(crate) idle_count: usize,
    pub(crate) by_status: BTreeMap<&'static str, usize>,
    pub(crate) by_namespace: BTreeMap<String, OfNamespace>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct OfNamespace {
    pub(crate) count: usize,
    pub(crate) avg_score: Option<f64>,
    low_util_count: usize,
}

pub fn stats(rows: &[Scored]) -> ScoreStats {
    let held: Vec<&Scored> = rows
        .iter()
        .filter(|row| row.reading.held == Some(true))
        .collect();
    let known_scores = |rows: &[&Scored]| -> Vec<f64> {
        rows.iter()
            .filter(|row| row.score.band != Band::Unknown)
            .filter_map(|row| row.score.value)
            .collect()
    };
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| rounded(values.iter().sum::<f64>() / values.len() as f64))
    };
    let values = known_scores(&held);
    let mut namespaces: BTreeMap<String, Vec<&Scored>> = BTreeMap::new();
    for row in &held {
        namespaces
            .entry(row.holder().0.unwrap_or("unknown").to_owned())
            .or_default()
            .push(row);
    }
    ScoreStats {
        total_gpus: held.len(),
        avg_score: mean(&values),
        min_score: values.iter().copied().reduce(f64::min).map(rounded),
        max_score: values.iter().copied().reduce(f64::max).map(rounded),
        low_utilization_count: held.iter().filter(|row| row.score.band.is_low()).count(),
        idle_count: held
            .iter()
            .filter(|row| row.score.band == Band::Idle)
            .count(),
        by_status: Band::ALL
            .iter()
            .map(|band| {
                (
                    band.word(),
                    held.iter().filter(|row| row.score.band == *band).count(),
                )
            })
            .collect(),
        by_namespace: namespaces
            .into_iter()
            .map(|(namespace, rows)| {
                let low_util_count = rows.iter().filter(|row| row.score.band.is_low()).count();
                (
                    namespace,
                    OfNamespace {
                        count: rows.len(),
                        avg_score: mean(&known_scores(&rows)),
                        low_util_count,
                    },
                )
            })
            .collect(),
    }
}

/// Renders one line for the log of a watch.
pub fn line(stats: &ScoreStats, at: Timestamp, took: Duration) -> String {
    let mean = stats
        .avg_score
        .map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}"));
    format!(
        "{at}: {}, mean score {mean}; {} low, {} of them idle; {} unknown; took {:.1}s\n",
        count(stats.total_gpus as u64, "GPU"),
        stats.low_utilization_count,
        stats.idle_count,
        stats
            .by_status
            .get(Band::Unknown.word())
            .copied()
            .unwrap_or(0),
        took.as_secs_f64()
    )
}

/// Renders `score stats` for people.
pub fn stats_text(stats: &ScoreStats) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let unknown = stats
        .by_status
        .get(Band::Unknown.word())
        .copied()
        .unwrap_or(0);
    let unknown_text = match unknown {
        0 => count(stats.total_gpus as u64, "GPU"),
        _ => format!(
            "{}, {unknown} of them unknown: the others have",
            count(stats.total_gpus as u64, "GPU")
        ),
    };
    let mut text = format!(
        "{unknown_text}{} mean score {}, from {} to {}; {} low, {} of them idle\n",
        if unknown == 0 { ":" } else { "" },
        number(stats.avg_score),
        number(stats.min_score),
        number(stats.max_score),
        stats.low_utilization_count,
        stats.idle_count
    );
    for (namespace, namespace_stats) in &stats.by_namespace {
        let name = clean(namespace);
        text.push_str(&format!(
            "  {name:<24} {:>4}  mean {:>5}  {} low\n",
            namespace_stats.count,
            number(namespace_stats.avg_score),
            namespace_stats.low_util_count
        ));
    }
    text
}
