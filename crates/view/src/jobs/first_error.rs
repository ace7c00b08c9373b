//! Renders the first error in the logs of a job.

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::TextStyle;
use crate::format::text::{clean, count, paint};
use gpuctl_core::stats::logs::first_error::LogError;

/// The JSON output of `logs --first-error`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstErrorItem<'a> {
    /// Number of pods whose logs were read, out of `pods`.
    pub pods_read: usize,
    pub pods: usize,
    /// `null` when no line states an error that ended a pod.
    pub first: Option<FirstErrorLine<'a>>,
}

/// The line with the error, and where it comes from.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstErrorLine<'a> {
    pub pod: &'a str,
    pub rank: Option<u32>,
    pub node: Option<&'a str>,
    pub timestamp: Option<Timestamp>,
    pub line: &'a str,
    pub before: &'a [String],
    /// Number of other pods with the same error. `others_on` counts those with a different error.
    pub same_on: usize,
    pub others_on: usize,
}

impl<'a> FirstErrorLine<'a> {
    pub fn new(
        pod: &'a gpuctl_core::model::Pod,
        error: &'a LogError,
        same_on: usize,
        others_on: usize,
    ) -> Self {
        let (line, before) = (error.line.as_str(), error.before.as_slice());
        Self {
            pod: &pod.name,
            rank: pod.rank,
            node: pod.node.as_deref(),
            timestamp: error.at,
            line,
            before,
            same_on,
            others_on,
        }
    }
}

/// Renders the error and the preceding lines.
pub fn text(line: &FirstErrorLine<'_>, style: TextStyle) -> String {
    let source = line.rank.map_or_else(
        || clean(line.pod).into_owned(),
        |rank| format!("rank {rank}"),
    );
    let node = line
        .node
        .map_or(String::new(), |node| format!(" on {}", clean(node)));
    let time = line
        .timestamp
        .map_or(String::new(), |time| format!(" at {time:.0}"));
    let elsewhere = match (line.same_on, line.others_on) {
        (0, 0) => String::new(),
        (same, 0) => format!("; the same on {}", count(same as u64, "other pod")),
        (0, others) => format!(
            "; a different error later on {}",
            count(others as u64, "other pod")
        ),
        (same, others) => format!(
            "; the same on {}, a different error on {others}",
            count(same as u64, "other pod")
        ),
    };
    let mut text = format!("{source}{node}{time}{elsewhere}\n");
    line.before
        .iter()
        .for_each(|line_before| text.push_str(&format!("  {}\n", clean(line_before))));
    text.push_str(&format!(
        "{}\n",
        paint(&format!("> {}", clean(line.line)), Some(Color::Red), style)
    ));
    text
}
