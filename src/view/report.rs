//! `report`: accounts of GPU-hours as JSON, a table, CSV and Markdown. Hours have two decimals; what is not known is null.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::stats::account::Account;

use super::coverage::{percent, rounded};
use super::table::{Table, left, right};
use super::{Format, Look};

/// A group with its account.
pub struct Group {
    /// `None` for pods that are in no group.
    pub name: Option<String>,
    /// Devices that it may request.
    pub quota: Option<f64>,
    pub cost: Option<f64>,
    pub account: Account,
}

/// All of them.
pub struct Report<'a> {
    pub by: &'a str,
    pub from: Timestamp,
    pub to: Timestamp,
    pub currency: Option<String>,
    pub groups: Vec<Group>,
    pub total: Group,
}

fn group(group: &Group) -> Value {
    let Group { name, quota, cost, account } = group;
    json!({
        "group": name,
        "quota_gpus": quota,
        "waited_gpu_hours": rounded(account.waited),
        "held_gpu_hours": rounded(account.held),
        "requested_gpu_hours": rounded(account.held + account.waited),
        "used_gpu_hours": account.used().map(rounded),
        "wasted_gpu_hours": account.wasted().map(rounded),
        "unknown_gpu_hours": rounded(account.unknown()),
        "utilization": account.utilization().map(rounded),
        "energy_kwh": account.energy.map(rounded),
        "cost": cost.map(rounded),
        "workload_count": account.workloads.len(),
    })
}

#[must_use]
pub fn json(report: &Report<'_>) -> Value {
    json!({
        "by": report.by,
        "from": report.from,
        "to": report.to,
        "currency": report.currency,
        "groups": report.groups.iter().map(group).collect::<Vec<_>>(),
        "total": group(&report.total),
    })
}

const TITLES: [&str; 11] = ["GROUP", "QUOTA", "WAITED", "HELD", "USED", "WASTED", "UNKNOWN", "UTIL", "KWH", "COST", "WORKLOADS"];

/// Cells of a row, in the order of the titles.
fn cells(group: &Group, none: &str, shown: bool) -> Vec<String> {
    let Group { name, quota, cost, account } = group;
    let hours = |value: f64| if shown { format!("{value:.1}") } else { rounded(value).to_string() };
    let optional = |value: Option<f64>| value.map_or_else(|| if shown { "-".to_owned() } else { String::new() }, hours);
    vec![
        name.clone().unwrap_or_else(|| none.to_owned()),
        quota.map_or_else(|| if shown { "-".to_owned() } else { String::new() }, |quota| quota.to_string()),
        hours(account.waited),
        hours(account.held),
        optional(account.used()),
        optional(account.wasted()),
        hours(account.unknown()),
        if shown { percent(account.utilization()) } else { optional(account.utilization()) },
        optional(account.energy),
        optional(*cost),
        account.workloads.len().to_string(),
    ]
}

/// For people with the sum below; CSV has the groups alone.
#[must_use]
pub fn table(report: &Report<'_>, format: Format, headers: bool, look: Look) -> String {
    let mut table = Table::new(TITLES.iter().map(|title| if *title == TITLES[0] { left(title) } else { right(title) }));
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

/// A table for a wiki or an issue.
#[must_use]
pub fn markdown(report: &Report<'_>) -> String {
    let line =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
    let mut text = format!("GPU-hours by {}, {} to {}\n\n", report.by, report.from, report.to);
    text.push_str(&line(&TITLES.map(|title| title.to_lowercase())));
    text.push_str(&format!("|---|{}\n", "---:|".repeat(TITLES.len() - 1)));
    for group in &report.groups {
        text.push_str(&line(&cells(group, "(none)", true)));
    }
    text.push_str(&line(&cells(&report.total, "**total**", true)));
    text
}
