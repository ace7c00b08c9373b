//! Renders who was preempted for whom.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Cell, Table, left, right};
use crate::format::text::clean;
use crate::{Format, TextStyle};
use gpuctl_core::model::Preemption;

/// The answer of `get queues --preemptions`.
#[derive(JsonSchema, Serialize)]
pub struct PreemptionList<'a> {
    total: usize,
    items: Vec<PreemptionItem<'a>>,
    coverage: PreemptionCoverage,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct PreemptionItem<'a> {
    job_id: &'a str,
    namespace: &'a str,
    /// NAMESPACE/NAME of the job that it made room for; `null` where that is not told, or the job
    /// is gone.
    preempted_by: Option<&'a str>,
    queue: Option<&'a str>,
    /// `null` for one that is over, of which only the end is told.
    preempted_at: Option<Timestamp>,
    /// How often this job was; `null` where nobody counts.
    times: Option<u64>,
    /// `null` for pods that the scheduler preempted.
    admitted_again: Option<bool>,
    message: &'a str,
}

/// What the list rests on.
#[derive(Clone, Copy, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionCoverage {
    /// Workloads of Kueue's that were looked at; `null` where there are none to look at.
    pub workloads: Option<usize>,
    /// Time of the oldest event that tells of a preemption; events are kept for an hour.
    pub events_since: Option<Timestamp>,
}

pub fn list(
    found: &[Preemption],
    total: usize,
    coverage: PreemptionCoverage,
) -> PreemptionList<'_> {
    PreemptionList {
        total,
        items: found.iter().map(item).collect(),
        coverage,
    }
}

fn item(one: &Preemption) -> PreemptionItem<'_> {
    PreemptionItem {
        job_id: &one.job,
        namespace: &one.namespace,
        preempted_by: one.by.as_deref(),
        queue: one.queue.as_deref(),
        preempted_at: one.at,
        times: one.times,
        admitted_again: one.admitted_again,
        message: &one.message,
    }
}

pub fn names(found: &[Preemption]) -> Vec<String> {
    found
        .iter()
        .map(|one| format!("{}/{}", clean(&one.namespace), clean(&one.job)))
        .collect()
}

pub fn table(
    found: &[Preemption],
    format: Format,
    headers: bool,
    look: TextStyle,
    now: Timestamp,
) -> String {
    let wide = matches!(format, Format::Wide | Format::Csv);
    let mut columns = vec![
        left("NAMESPACE").yielding(),
        left("JOB"),
        left("PREEMPTED BY"),
        left("QUEUE").yielding(),
        right("AGE").in_csv("age_seconds"),
        right("TIMES").yielding(),
        left("NOW"),
    ];
    columns.extend(wide.then_some(left("MESSAGE")));
    let mut table = Table::new(columns).with_wide();
    for one in found {
        let state = match one.admitted_again {
            Some(true) => "admitted again",
            Some(false) => "waits",
            None => "-",
        };
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let mut cells: Vec<Cell> = vec![
            one.namespace.clone().into(),
            one.job.clone().into(),
            dash(&one.by).into(),
            dash(&one.queue).into(),
            Cell::age(one.at, now),
            one.times
                .map_or_else(|| "-".to_owned(), |times| times.to_string())
                .into(),
            state.into(),
        ];
        cells.extend(wide.then(|| one.message.clone().into()));
        table.row(cells);
    }
    table.show(format, headers, look)
}
