//! Renders preempted jobs and their preemptors.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::table::{Cell, Table, left, right};
use crate::format::text::clean;
use crate::{Format, TextStyle};
use gpuctl_core::model::Preemption;

/// The JSON output of `get queues --preemptions`.
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
    /// NAMESPACE/NAME of the job that it was preempted for; `null` when that is unknown, or when
    /// that job was deleted.
    preempted_by: Option<&'a str>,
    queue: Option<&'a str>,
    /// `null` when the job was admitted again, because Kueue then overwrites the time.
    preempted_at: Option<Timestamp>,
    /// Number of times that this job was preempted; `null` when nothing counts them.
    times: Option<u64>,
    /// `null` for pods that the scheduler preempted.
    admitted_again: Option<bool>,
    message: &'a str,
}

/// The data that the list is based on.
#[derive(Clone, Copy, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionCoverage {
    /// Number of Kueue workloads that were read; `null` when there are none, or when the user is
    /// not allowed to read them.
    pub workloads: Option<usize>,
    /// Time of the oldest preemption event. The API server deletes events after an hour by default.
    pub events_since: Option<Timestamp>,
}

pub fn list(
    preemptions: &[Preemption],
    total: usize,
    coverage: PreemptionCoverage,
) -> PreemptionList<'_> {
    PreemptionList {
        total,
        items: preemptions.iter().map(item).collect(),
        coverage,
    }
}

fn item(preemption: &Preemption) -> PreemptionItem<'_> {
    PreemptionItem {
        job_id: &preemption.job,
        namespace: &preemption.namespace,
        preempted_by: preemption.by.as_deref(),
        queue: preemption.queue.as_deref(),
        preempted_at: preemption.at,
        times: preemption.times,
        admitted_again: preemption.admitted_again,
        message: &preemption.message,
    }
}

pub fn names(preemptions: &[Preemption]) -> Vec<String> {
    preemptions
        .iter()
        .map(|preemption| {
            format!(
                "{}/{}",
                clean(&preemption.namespace),
                clean(&preemption.job)
            )
        })
        .collect()
}

pub fn table(
    preemptions: &[Preemption],
    format: Format,
    headers: bool,
    style: TextStyle,
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
    for preemption in preemptions {
        let state = match preemption.admitted_again {
            Some(true) => "admitted again",
            Some(false) => "waits",
            None => "-",
        };
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let mut cells: Vec<Cell> = vec![
            preemption.namespace.clone().into(),
            preemption.job.clone().into(),
            dash(&preemption.by).into(),
            dash(&preemption.queue).into(),
            Cell::age(preemption.at, now),
            preemption
                .times
                .map_or_else(|| "-".to_owned(), |times| times.to_string())
                .into(),
            state.into(),
        ];
        cells.extend(wide.then(|| preemption.message.clone().into()));
        table.row(cells);
    }
    table.show(format, headers, style)
}
