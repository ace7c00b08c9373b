//! Renders `report` as a table, CSV or Markdown, with the GPU-hours of groups or how their jobs
//! spent their time.

use jiff::SignedDuration;

use super::report::{GpuHourReport, Group, UNNAMED};
use super::report_capacity::{OF_CAPACITY, capacity_note, numbers};
use crate::format::coverage::{percent, rounded};
use crate::format::table::{Column, Table, left, percentages, right};
use crate::format::text::{in_markdown, span};
use crate::{Format, TextStyle};
use gpuctl_core::model::Percent;

/// Columns of GPU-hours.
const OF_HOURS: [Column; 13] = [
    left("GROUP"),
    right("QUOTA"),
    right("WAITED"),
    right("HELD"),
    right("USED"),
    right("WASTED"),
    right("UNKNOWN"),
    percentages("UTIL"),
    right("PARTS"),
    percentages("COVERED"),
    right("KWH"),
    right("COST"),
    right("WORKLOADS"),
];

/// Columns of budgets, which follow the name of the group.
const OF_BUDGETS: [Column; 4] = [
    right("HOUR-BUDGET").in_csv("budget"),
    right("HOURS-LEFT").in_csv("left"),
    right("COST-BUDGET").in_csv("cost_budget"),
    right("COST-LEFT").in_csv("cost_left"),
];

/// Columns that show how jobs spent their time. Hours are GPU-hours, and waiting times in CSV are
/// in seconds.
const OF_JOBS: [Column; 12] = [
    left("GROUP"),
    right("ETTR"),
    right("GOODPUT"),
    right("JOBS"),
    right("SUCCEEDED"),
    right("INTERRUPTIONS"),
    right("WAIT-P50").in_csv("wait_p50_seconds"),
    right("WAIT-P90").in_csv("wait_p90_seconds"),
    right("WAITING"),
    right("STARTING"),
    right("RUNNING"),
    right("LOST"),
];

/// Describes the units of the columns, because titles with units would not fit into 80 columns.
pub fn units(report: &GpuHourReport<'_>) -> String {
    if report.of_jobs {
        return "WAITING, STARTING, RUNNING and LOST are GPU-hours".to_owned();
    }
    let mut text = match (report.has_capacity(), report.budgeted) {
        (false, false) => "WAITED to UNKNOWN are GPU-hours, and so is PARTS".to_owned(),
        (false, true) => "HOUR-BUDGET, HOURS-LEFT, and WAITED to UNKNOWN are GPU-hours, and so is \
                          PARTS"
            .to_owned(),
        (true, false) => {
            "CAPACITY to UNSEEN and WAITED to UNKNOWN are GPU-hours, and so is PARTS; \
                          CAPACITY is ALLOCATED, IDLE and UNSEEN, and IDLE includes CORDONED and \
                          LOST"
                .to_owned()
        }
        (true, true) => "HOUR-BUDGET, HOURS-LEFT, CAPACITY to UNSEEN, and WAITED to UNKNOWN are \
                         GPU-hours, and so is PARTS; CAPACITY is ALLOCATED, IDLE and UNSEEN, and \
                         IDLE includes CORDONED and LOST"
            .to_owned(),
    };
    text.push_str("; UTIL weights by GPU-hours, and that of `stats` by five minutes");
    if let Some(Percent(share)) = report.total.account.partial_energy() {
        text.push_str(&format!("; KWH covers {share:.0}% of HELD and PARTS"));
    }
    if let Some(note) = currency_note(report) {
        text.push_str(&format!("; {note}"));
    }
    text
}

fn currency_note(report: &GpuHourReport<'_>) -> Option<String> {
    let currency = report.currency.as_deref().filter(|text| !text.is_empty())?;
    Some(format!("costs are in {currency}"))
}

impl GpuHourReport<'_> {
    pub(crate) fn columns(&self) -> Vec<Column> {
        let mut columns = match self.of_jobs {
            true => OF_JOBS.to_vec(),
            false => self.hour_columns(),
        };
        if self.has_contexts() {
            columns.insert(0, left("CONTEXT"));
        }
        columns
    }

    fn hour_columns(&self) -> Vec<Column> {
        let mut columns = OF_HOURS.to_vec();
        if self.has_capacity() {
            columns.splice(1..1, OF_CAPACITY);
        }
        if self.budgeted {
            columns.splice(1..1, OF_BUDGETS);
        }
        columns
    }

    /// Returns the cells of a row in the order of the columns, as text if `shown` is true and
    /// otherwise for CSV.
    pub(crate) fn cells(&self, group: &Group, unnamed: &str, shown: bool) -> Vec<String> {
        let mut cells = match self.of_jobs {
            true => job_cells(group, unnamed, shown),
            false => self.cells_of_hours(group, unnamed, shown),
        };
        if self.has_contexts() {
            // The total belongs to no context, so its name is in the first column.
            let first = match &group.context {
                Some(context) => context.clone(),
                None => cells.first_mut().map(std::mem::take).unwrap_or_default(),
            };
            cells.insert(0, first);
        }
        cells
    }

    fn cells_of_hours(&self, group: &Group, unnamed: &str, shown: bool) -> Vec<String> {
        let mut cells = hour_cells(group, unnamed, shown);
        let optional = |value: Option<f64>| optional(value, shown);
        if self.has_capacity() {
            let numbers = numbers(group).unwrap_or_default();
            cells.splice(1..1, numbers.map(optional));
        }
        if self.budgeted {
            cells.splice(1..1, budget_numbers(group).map(optional));
        }
        cells
    }
}

/// Formats a number, or an unknown value as `-` in text and as an empty cell in CSV.
fn optional(value: Option<f64>, shown: bool) -> String {
    value.map_or_else(
        || if shown { "-".to_owned() } else { String::new() },
        |value| hours(value, shown),
    )
}

fn hours(value: f64, shown: bool) -> String {
    if shown {
        let text = format!("{value:.1}");
        // A budget exceeded by less than 0.05 would be shown as -0.0.
        if text == "-0.0" {
            "0.0".to_owned()
        } else {
            text
        }
    } else {
        rounded(value).to_string()
    }
}

/// Returns the values of the columns of budgets.
fn budget_numbers(group: &Group) -> [Option<f64>; 4] {
    let (hours_left, cost_left) = group.remaining_budget();
    let allowance = group.allowance.unwrap_or_default();
    [allowance.gpu_hours, hours_left, allowance.cost, cost_left]
}

fn hour_cells(group: &Group, unnamed: &str, shown: bool) -> Vec<String> {
    let Group {
        name,
        quota,
        cost,
        account,
        ..
    } = group;
    let optional = |value: Option<f64>| optional(value, shown);
    let share = |value: Option<Percent>| {
        if shown {
            percent(value)
        } else {
            optional(value.map(|Percent(value)| value))
        }
    };
    vec![
        name.clone().unwrap_or_else(|| unnamed.to_owned()),
        quota.map_or_else(
            || if shown { "-".to_owned() } else { String::new() },
            |quota| quota.to_string(),
        ),
        hours(account.waited, shown),
        hours(account.held, shown),
        optional(account.used()),
        optional(account.wasted()),
        hours(account.unknown(), shown),
        share(account.utilization()),
        if shown && account.parts.is_empty() {
            "-".to_owned()
        } else {
            optional(account.part_equivalent())
        },
        share(account.covered()),
        optional(account.energy),
        optional(*cost),
        account.workloads.len().to_string(),
    ]
}

fn job_cells(group: &Group, unnamed: &str, shown: bool) -> Vec<String> {
    let jobs = &group.jobs;
    let ratio = |value: Option<f64>| match value {
        Some(value) if shown => format!("{value:.3}"),
        Some(value) => format!("{value:.4}"),
        None => optional(None, shown),
    };
    let wait = |quantile: f64| match jobs.wait(quantile) {
        #[expect(clippy::cast_possible_truncation, reason = "a wait in seconds")]
        Some(seconds) if shown => span(SignedDuration::from_secs(seconds as i64)),
        other => optional(other, shown),
    };
    vec![
        group.name.clone().unwrap_or_else(|| unnamed.to_owned()),
        ratio(jobs.effective_ratio()),
        ratio(jobs.goodput()),
        jobs.jobs.to_string(),
        jobs.succeeded.to_string(),
        jobs.interruptions.to_string(),
        wait(0.5),
        wait(0.9),
        hours(jobs.waiting, shown),
        hours(jobs.starting, shown),
        hours(jobs.running, shown),
        hours(jobs.lost, shown),
    ]
}

/// Renders a table, or CSV without the total row.
pub fn table(
    report: &GpuHourReport<'_>,
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let mut table = Table::new(report.columns()).with_all_columns_in("csv");
    let shown = format != Format::Csv;
    let unnamed = if shown { UNNAMED } else { "" };
    for group in &report.groups {
        table.row(
            report
                .cells(group, unnamed, shown)
                .into_iter()
                .map(Into::into)
                .collect(),
        );
    }
    if shown && report.groups.len() > 1 {
        table.row(
            report
                .cells(&report.total, "total", shown)
                .into_iter()
                .map(Into::into)
                .collect(),
        );
    }
    table.show(format, headers, style)
}

/// Renders a Markdown table, for example for an issue.
pub fn markdown(report: &GpuHourReport<'_>) -> String {
    // Names come from the cluster and may contain markup.
    let line = |cells: Vec<String>| {
        cells
            .iter()
            .map(|cell| in_markdown(cell))
            .collect::<Vec<_>>()
    };
    let mut table = comfy_table::Table::new();
    table
        .load_preset(comfy_table::presets::ASCII_MARKDOWN)
        .set_header(
            report
                .columns()
                .iter()
                .map(|column| column.title.to_lowercase()),
        );
    for group in &report.groups {
        table.add_row(line(report.cells(group, UNNAMED, true)));
    }
    table.add_row(totals(report));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    let notes = [capacity_note(report), currency_note(report)];
    let notes = notes.into_iter().flatten();
    let notes: String = notes
        .map(|note| format!("\n{}\n", in_markdown(&note)))
        .collect();
    format!(
        "GPU-hours by {}, {} to {}\n\n{table}\n{notes}",
        in_markdown(report.by),
        report.from,
        report.to
    )
}

/// Returns the cells of the total row. Only the title may contain markup.
fn totals(report: &GpuHourReport<'_>) -> Vec<String> {
    let mut cells = report.cells(&report.total, "total", true);
    if let Some(first_cell) = cells.first_mut() {
        "**total**".clone_into(first_cell);
    }
    cells
}

#[cfg(test)]
mod tests;
