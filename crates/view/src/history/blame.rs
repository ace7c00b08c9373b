//! Renders how often jobs failed on each node, to find nodes that fail more often than others.

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Cell, Table, left, right};
use crate::{Format, TextStyle};
use gpuctl_core::stats::history::blame::{NodeBlame, Rate};

/// The JSON output of `get nodes --blame`.
#[derive(JsonSchema, Serialize)]
pub struct BlameList<'a> {
    pub total: usize,
    pub items: Vec<BlameItem<'a>>,
    pub from: Timestamp,
    pub to: Timestamp,
    /// Hours without data from kube-state-metrics, which are excluded.
    #[serde(rename = "hoursWithoutData")]
    pub hours_without_data: u64,
}

/// The failures of jobs on one node.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlameItem<'a> {
    node_name: &'a str,
    /// Jobs whose first failed pod ran on this node.
    jobs: u64,
    /// Pods on this node that failed first in their job. Each try of a job counts.
    failures: u64,
    /// Pods on this node that failed after another pod of their job, or at the same time.
    followed: u64,
    /// Hours during which a pod held GPUs of this node.
    node_hours: f64,
    /// Jobs per 1,000 of these hours; `null` when the node held no job.
    jobs_per_thousand_hours: Option<f64>,
    /// Lower bound of the 95 % interval of the rate.
    low: Option<f64>,
    /// Upper bound of the 95 % interval of the rate.
    high: Option<f64>,
    stands_out: bool,
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

pub fn items(found: &[NodeBlame]) -> Vec<BlameItem<'_>> {
    let part = |one: &NodeBlame, pick: fn(Rate) -> f64| one.rate.map(|rate| rounded(pick(rate)));
    found
        .iter()
        .map(|one| BlameItem {
            node_name: &one.node,
            jobs: one.jobs,
            failures: one.failures,
            followed: one.followed,
            node_hours: rounded(one.hours),
            jobs_per_thousand_hours: part(one, |rate| rate.value),
            low: part(one, |rate| rate.low),
            high: part(one, |rate| rate.high),
            stands_out: one.stands_out,
        })
        .collect()
}

pub fn table(found: &[NodeBlame], format: Format, headers: bool, look: TextStyle) -> String {
    let titles = [
        left("NODE"),
        right("JOBS"),
        right("FAILURES"),
        right("FOLLOWED"),
        right("HOURS"),
        right("JOBS/1000H"),
        left("95 %"),
        left(""),
    ];
    let mut table = Table::new(titles);
    for one in found {
        let rate = one
            .rate
            .map_or("-".to_owned(), |rate| format!("{:.1}", rate.value));
        let range = one.rate.map_or("-".to_owned(), |rate| {
            format!("{:.1} to {:.1}", rate.low, rate.high)
        });
        let word = if one.stands_out { "stands out" } else { "" };
        table.row(vec![
            one.node.clone().into(),
            one.jobs.to_string().into(),
            one.failures.to_string().into(),
            one.followed.to_string().into(),
            format!("{:.0}", one.hours).into(),
            rate.into(),
            range.into(),
            Cell::colored(word, one.stands_out.then_some(Color::Yellow)),
        ]);
    }
    table.show(format, headers, look)
}
