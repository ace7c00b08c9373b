//! Renders a report as a short text for chats and mail: totals, warnings, and the groups and
//! workloads at the top.

use super::report::{GpuHourReport, Group, UNNAMED};
use super::report_page::{PreviousWindow, ReportPage, Trend, exceeded_budgets, owner};
use crate::format::text::in_chat;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::workload_use::WorkloadUse;

/// Maximum number of groups and of workloads.
const MOST: usize = 10;

/// Renders the text in at most `max_length` bytes. Lines that do not fit are left out.
pub fn message(report: &GpuHourReport<'_>, facts: &ReportPage, max_length: usize) -> String {
    let mut lines = vec![
        in_chat(&facts.title(report)),
        in_chat(&facts.window(report)),
    ];
    lines.extend(facts.trends(report).iter().filter_map(total_line));
    if let PreviousWindow::Unknown { reason } = &facts.previous {
        lines.push(format!(
            "the change since the previous window is unknown: {}",
            in_chat(reason)
        ));
    }
    let budgets = exceeded_budgets(report);
    let warnings = facts.warnings.iter().chain(&budgets);
    lines.extend(warnings.map(|text| format!("! {}", in_chat(text))));
    lines.extend(group_lines(report));
    lines.extend(waster_lines(facts));
    let rest = "…\n";
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() + 1 + rest.len() > max_length {
            text.push_str(rest);
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// One total with its change. `None` if it is unknown.
fn total_line(trend: &Trend) -> Option<String> {
    let now = trend.now?;
    let change = match trend.change().as_str() {
        "-" => String::new(),
        change => format!(" ({change})"),
    };
    Some(format!("{}: {now:.1}{change}", trend.name))
}

fn group_lines(report: &GpuHourReport<'_>) -> Vec<String> {
    let mut groups: Vec<&Group> = report.groups.iter().collect();
    groups.sort_by(|a, b| b.account.held.total_cmp(&a.account.held));
    let line = |group: &&Group| {
        let account = &group.account;
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        format!(
            "- {}: {:.1} held, {} used, {} wasted",
            in_chat(group.name.as_deref().unwrap_or(UNNAMED)),
            account.held,
            number(account.used()),
            number(account.wasted())
        )
    };
    let lines: Vec<String> = groups.iter().take(MOST).map(line).collect();
    titled(format!("GPU-hours by {}:", in_chat(report.by)), lines)
}

fn waster_lines(facts: &ReportPage) -> Vec<String> {
    let line = |(top, work): &(TopOwner, WorkloadUse)| {
        format!(
            "- {}/{} ({}): {:.1} wasted of {:.1} held",
            in_chat(&top.namespace),
            in_chat(&top.name),
            in_chat(&owner(work)),
            work.account.wasted().unwrap_or_default(),
            work.account.held
        )
    };
    let lines = facts.wasters.iter().take(MOST).map(line).collect();
    titled("Largest waste:".to_owned(), lines)
}

/// Puts a title above lines, if there are any.
fn titled(title: String, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() {
        return lines;
    }
    [title].into_iter().chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::stats::history::gpu_hours::GpuHours;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    #[test]
    fn a_message_fits_and_contains_no_mentions() {
        let group = |name: &str| Group {
            name: Some(name.to_owned()),
            account: GpuHours::of_one_gpu(10.0, Some(40.0)),
            ..Group::default()
        };
        let groups = vec![group("@all"), group("research")];
        let report = GpuHourReport::new(Timestamp::UNIX_EPOCH, groups, group(""));
        let facts = ReportPage {
            cluster: "prod".to_owned(),
            zone: TimeZone::UTC,
            warnings: vec!["1 of 2 hours have no data".to_owned()],
            wasters: Vec::new(),
            previous: PreviousWindow::Known {
                total: GpuHours::of_one_gpu(8.0, Some(40.0)),
                cost: None,
                capacity: None,
            },
        };
        let text = message(&report, &facts, 10_000);
        for line in [
            "GPU-hours by team in prod\n",
            // 10 after 8 is 25 % more.
            "GPU-hours held: 10.0 (+25\u{a0}%)\n",
            "! 1 of 2 hours have no data\n",
            "- research: 10.0 held, 4.0 used, 6.0 wasted\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains('@'), "{text}");
        let short = message(&report, &facts, 100);
        assert!(short.len() <= 100 && short.ends_with("…\n"), "{short}");
    }
}
