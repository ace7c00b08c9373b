//! Renders `report` as JSON, a table, CSV and Markdown. Hours have two decimals; unknown is null.

use jiff::Timestamp;
use serde::Serialize;

use super::coverage::{percent, rounded};
use super::parts::PartHoursItem;
use super::table::{Column, Table, left, percentages, right};
use super::text::clean;
use super::{Format, TextStyle};
use crate::model::Percent;
use crate::stats::gpu_hours::GpuHours;

/// A group with its account.
pub(crate) struct Group {
    /// `None` for pods that are in no group.
    pub name: Option<String>,
    /// Devices that it may request.
    pub quota: Option<f64>,
    pub cost: Option<f64>,
    pub account: GpuHours,
}

/// All of them.
pub(crate) struct GpuHourReport<'a> {
    pub by: &'a str,
    pub from: Timestamp,
    pub to: Timestamp,
    pub currency: Option<String>,
    pub groups: Vec<Group>,
    pub total: Group,
}

/// The answer of `report -o json`.
#[derive(Serialize)]
pub(crate) struct ReportDocument<'a> {
    by: &'a str,
    from: Timestamp,
    to: Timestamp,
    currency: Option<&'a str>,
    groups: Vec<GroupItem<'a>>,
    total: GroupItem<'a>,
}

/// An account in JSON. Hours have two decimals.
#[derive(Serialize)]
struct GroupItem<'a> {
    group: Option<&'a str>,
    quota_gpus: Option<f64>,
    waited_gpu_hours: f64,
    held_gpu_hours: f64,
    requested_gpu_hours: f64,
    used_gpu_hours: Option<f64>,
    wasted_gpu_hours: Option<f64>,
    unknown_gpu_hours: f64,
    utilization: Option<Percent>,
    energy_kwh: Option<f64>,
    cost: Option<f64>,
    workload_count: usize,
    /// Parts of devices, which are in none of the hours above.
    gpu_parts: Vec<PartHoursItem>,
    /// What they are worth in GPU-hours; `null` where the fraction of one is not known.
    part_gpu_equivalent_hours: Option<f64>,
    /// How much of all that was held was measured, parts by their fraction.
    coverage_percent: Option<Percent>,
}

impl<'a> From<&'a Group> for GroupItem<'a> {
    fn from(group: &'a Group) -> Self {
        let Group { name, quota, cost, account } = group;
        Self {
            group: name.as_deref(),
            quota_gpus: *quota,
            waited_gpu_hours: rounded(account.waited),
            held_gpu_hours: rounded(account.held),
            requested_gpu_hours: rounded(account.held + account.waited),
            used_gpu_hours: account.used().map(rounded),
            wasted_gpu_hours: account.wasted().map(rounded),
            unknown_gpu_hours: rounded(account.unknown()),
            utilization: account.utilization().map(rounded),
            energy_kwh: account.energy.map(rounded),
            cost: cost.map(rounded),
            workload_count: account.workloads.len(),
            gpu_parts: account.parts.iter().map(PartHoursItem::from).collect(),
            part_gpu_equivalent_hours: account.part_equivalent().map(rounded),
            coverage_percent: account.covered().map(rounded),
        }
    }
}

impl<'a> From<&'a GpuHourReport<'a>> for ReportDocument<'a> {
    fn from(report: &'a GpuHourReport<'a>) -> Self {
        Self {
            by: report.by,
            from: report.from,
            to: report.to,
            currency: report.currency.as_deref(),
            groups: report.groups.iter().map(GroupItem::from).collect(),
            total: (&report.total).into(),
        }
    }
}

const COLUMNS: [Column; 13] = [
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

/// Cells of a row, in the order of the columns.
fn cells(group: &Group, none: &str, shown: bool) -> Vec<String> {
    let Group { name, quota, cost, account } = group;
    let hours = |value: f64| if shown { format!("{value:.1}") } else { rounded(value).to_string() };
    let optional = |value: Option<f64>| value.map_or_else(|| if shown { "-".to_owned() } else { String::new() }, hours);
    let share = |value: Option<Percent>| if shown { percent(value) } else { optional(value.map(|Percent(value)| value)) };
    vec![
        name.clone().unwrap_or_else(|| none.to_owned()),
        quota.map_or_else(|| if shown { "-".to_owned() } else { String::new() }, |quota| quota.to_string()),
        hours(account.waited),
        hours(account.held),
        optional(account.used()),
        optional(account.wasted()),
        hours(account.unknown()),
        share(account.utilization()),
        if shown && account.parts.is_empty() { "-".to_owned() } else { optional(account.part_equivalent()) },
        share(account.covered()),
        optional(account.energy),
        optional(*cost),
        account.workloads.len().to_string(),
    ]
}

/// Formats it for people with the sum below; CSV has the groups alone.
#[must_use]
pub(crate) fn table(report: &GpuHourReport<'_>, format: Format, headers: bool, look: TextStyle) -> String {
    let mut table = Table::new(COLUMNS);
    let shown = format != Format::Csv;
    let none = if shown { "(none)" } else { "" };
    for group in &report.groups {
        table.row(cells(group, none, shown).into_iter().map(Into::into).collect());
    }
    if shown && report.groups.len() > 1 {
        table.row(cells(&report.total, "total", shown).into_iter().map(Into::into).collect());
    }
    table.show(format, headers, look)
}

/// Returns a table for a wiki or an issue.
#[must_use]
pub(crate) fn markdown(report: &GpuHourReport<'_>) -> String {
    // Names come from the cluster: no control characters, and a bar would begin a new cell.
    let line = |cells: Vec<String>| cells.into_iter().map(|cell| clean(&cell).replace('|', "\\|")).collect::<Vec<_>>();
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN).set_header(COLUMNS.map(|column| column.title.to_lowercase()));
    for group in &report.groups {
        table.add_row(line(cells(group, "(none)", true)));
    }
    table.add_row(line(cells(&report.total, "**total**", true)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    format!("GPU-hours by {}, {} to {}\n\n{table}\n", report.by, report.from, report.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_shows_no_control_characters_and_keeps_its_cells() {
        let group = |name: &str| Group { name: Some(name.to_owned()), quota: None, cost: None, account: GpuHours::default() };
        let at = Timestamp::UNIX_EPOCH;
        let groups = vec![group("a|b\u{1b}[31m")];
        let report = GpuHourReport { by: "team", from: at, to: at, currency: None, groups, total: group("") };
        let text = markdown(&report);
        assert!(!text.contains('\u{1b}') && text.contains("a\\|b"), "{text}");
        assert!(text.lines().nth(2).unwrap().starts_with("| group"), "{text}");
    }
}
