//! Renders failures of jobs by node, to find nodes that fail more often than others.

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::coverage::rounded;
use crate::format::table::{Cell, Table, left, right};
use crate::{Format, TextStyle};
use gpuctl_core::stats::history::blame::NodeBlame;

/// The JSON output of `get nodes --blame`.
#[derive(JsonSchema, Serialize)]
pub struct BlameList<'a> {
    pub total: usize,
    pub items: Vec<BlameItem<'a>>,
    pub from: Timestamp,
    pub to: Timestamp,
    /// Number of hours without data from kube-state-metrics. These hours are excluded.
    #[serde(rename = "hoursWithoutData")]
    pub hours_without_data: u64,
}

/// How often jobs failed on one node.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlameItem<'a> {
    node_name: &'a str,
    /// Jobs whose first failed pod ran on this node.
    jobs: u64,
    /// Pods on this node that were the first of their job to fail. Every try of a job counts.
    failures: u64,
    /// Pods on this node that failed after another pod of their job, or at the same time.
    followed: u64,
    /// Hours during which a pod held GPUs of this node.
    node_hours: f64,
    /// Failed jobs per 1,000 node-hours; `null` when no job ran on the node.
    jobs_per_thousand_hours: Option<f64>,
    /// Lower bound of the 95 % confidence interval of the rate; `null` with fewer than 24 node-hours,
    /// or if the upper bound is above 1,000.
    low: Option<f64>,
    /// Upper bound of the 95 % confidence interval of the rate; `null` like `low`.
    high: Option<f64>,
    stands_out: bool,
}

pub fn items(blames: &[NodeBlame]) -> Vec<BlameItem<'_>> {
    blames
        .iter()
        .map(|blame| BlameItem {
            node_name: &blame.node,
            jobs: blame.jobs,
            failures: blame.failures,
            followed: blame.followed,
            node_hours: rounded(blame.hours),
            jobs_per_thousand_hours: blame.rate.map(|rate| rounded(rate.value)),
            low: blame.interval().map(|(low, _)| rounded(low)),
            high: blame.interval().map(|(_, high)| rounded(high)),
            stands_out: blame.stands_out,
        })
        .collect()
}

pub fn table(blames: &[NodeBlame], format: Format, headers: bool, style: TextStyle) -> String {
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
    for blame in blames {
        let rate = blame
            .rate
            .map_or("-".to_owned(), |rate| format!("{:.1}", rate.value));
        let range = blame.interval().map_or("-".to_owned(), |(low, high)| {
            format!("{low:.1} to {high:.1}")
        });
        let note = if blame.stands_out { "stands out" } else { "" };
        table.row(vec![
            blame.node.clone().into(),
            blame.jobs.to_string().into(),
            blame.failures.to_string().into(),
            blame.followed.to_string().into(),
            format!("{:.0}", blame.hours).into(),
            rate.into(),
            range.into(),
            Cell::colored(note, blame.stands_out.then_some(Color::Yellow)),
        ]);
    }
    table.show(format, headers, style)
}
