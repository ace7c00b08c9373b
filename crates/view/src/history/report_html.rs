//! Renders `report -o html` as one file with inline plots and styles, which loads nothing from the
//! network. Nothing is cut off on a narrow screen or in print.

use std::fmt::Write as _;

use plotters::prelude::RGBColor;

use super::report::{GpuHourReport, Group, UNNAMED};
use super::report_bars::TimeBars;
use super::report_capacity::capacity_note;
use super::report_page::{
    PreviousWindow, ReportPage, Trend, exceeded_budgets, in_currency, is_exceeded, owner,
};
use super::report_plot::{self, UNKNOWN, USED, WASTED};
use crate::format::text::clean;
use gpuctl_core::model::Percent;

/// Maximum number of columns in a table, apart from the name of the group. More do not fit on a
/// printed page.
const MOST_COLUMNS: usize = 12;

/// Maximum number of columns of a table that fits on a narrow screen.
const NARROW_COLUMNS: usize = 4;

/// Below 760 pixels, each row of a wide table becomes a list, because its columns do not fit.
const STYLE: &str = include_str!("report_html.css");

pub fn page(report: &GpuHourReport<'_>, facts: &ReportPage) -> String {
    let (title, window) = (facts.title(report), facts.window(report));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}, {window}</title>\n<style>\n{STYLE}</style></head>\n<body>\n\
         <h1>{title}</h1>\n<p class=\"window\">{window}</p>\n",
        title = escaped(&title),
        window = escaped(&window),
    );
    page.push_str(&warnings(report, facts));
    page.push_str(&summary(report, facts));
    page.push_str(&plots(report, facts));
    page.push_str(&wasters(facts));
    page.push_str(&groups(report));
    page.push_str("</body></html>\n");
    page
}

/// Lists what limits the numbers, and the budgets that are exceeded.
fn warnings(report: &GpuHourReport<'_>, facts: &ReportPage) -> String {
    let budgets = exceeded_budgets(report);
    let budgets = budgets
        .iter()
        .map(|text| format!("<li class=\"over\">{}</li>", escaped(text)));
    let warnings = facts
        .warnings
        .iter()
        .map(|text| format!("<li>{}</li>", escaped(text)));
    let items: String = budgets.chain(warnings).collect();
    if items.is_empty() {
        return String::new();
    }
    format!("<div class=\"warnings\"><ul>{items}</ul></div>\n")
}

/// Shows the totals and their change since the previous window.
fn summary(report: &GpuHourReport<'_>, facts: &ReportPage) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
    let row = |trend: Trend| {
        let cells = vec![
            trend.name.clone(),
            number(trend.now),
            number(trend.before),
            trend.change(),
        ];
        TableRow::new(cells)
    };
    let titles = ["", "This window", "Previous window", "Change"].map(ToOwned::to_owned);
    let rows: Vec<TableRow> = facts.trends(report).into_iter().map(row).collect();
    let note = match &facts.previous {
        PreviousWindow::Known { .. } => String::new(),
        PreviousWindow::Unknown { reason } => format!(
            "<p class=\"note\">The change is unknown: {}.</p>\n",
            escaped(reason)
        ),
    };
    let capacity = capacity_note(report).map_or(String::new(), |note| {
        let mut letters = note.chars();
        let first: String = letters
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        let note = format!("{first}{}.", letters.as_str());
        format!("<p class=\"note\">{}</p>\n", escaped(&note))
    });
    format!(
        "<h2>Summary</h2>\n{}{capacity}{note}",
        table("summary", &titles, &rows)
    )
}

fn plots(report: &GpuHourReport<'_>, facts: &ReportPage) -> String {
    let key = [
        ("used", USED),
        ("wasted", WASTED),
        ("not measured", UNKNOWN),
    ]
    .map(|(label, RGBColor(r, g, b))| {
        format!("<span style=\"background:rgb({r},{g},{b})\"></span>{label}")
    });
    let key = format!("<p class=\"key\">{}</p>", key.concat());
    let shown = match report.groups.len() {
        all if all > report_plot::MOST_GROUPS => format!(
            "<p class=\"note\">The {} groups of {all} that held the most.</p>\n",
            report_plot::MOST_GROUPS
        ),
        _ => String::new(),
    };
    let bars = TimeBars::new(report, &facts.zone);
    let length = match bars.length_name() {
        name if name.starts_with(|c: char| c.is_ascii_digit()) => name,
        name => format!("one {name}"),
    };
    let cut = if bars.is_cut {
        " The window cuts the first or the last bar, which covers less."
    } else {
        ""
    };
    format!(
        "<h2>GPU-hours by {}</h2>\n{key}\n{shown}{}\n\
         <h2>GPU-hours over time</h2>\n{key}\n\
         <p class=\"note\">A bar is {length} long. Dates are in {}.{cut}</p>\n{}\n",
        escaped(report.by),
        report_plot::of_groups(&report.groups),
        escaped(&facts.zone_name(report.from)),
        report_plot::over_time(&bars)
    )
}

/// Lists the workloads that wasted the most, with their owners.
fn wasters(facts: &ReportPage) -> String {
    if facts.wasters.is_empty() {
        return String::new();
    }
    let titles = [
        "Workload", "Kind", "Owner", "Held", "Used", "Wasted", "Util",
    ];
    let rows = facts.wasters.iter().map(|(top, work)| {
        let account = &work.account;
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        TableRow::new(vec![
            format!("{}/{}", top.namespace, top.name),
            top.kind.clone(),
            owner(work),
            number(Some(account.held)),
            number(account.used()),
            number(account.wasted()),
            account
                .utilization()
                .map_or("-".to_owned(), |Percent(value)| format!("{value:.0}%")),
        ])
    });
    format!(
        "<h2>Largest waste</h2>\n<p class=\"note\">Workloads by GPU-hours that were held, measured \
         and not used. An owner is the user, or else the team, in the labels of the pods.</p>\n{}",
        table(
            "wasters",
            &titles.map(ToOwned::to_owned),
            &rows.collect::<Vec<_>>()
        )
    )
}

/// Renders the columns of the report as tables that fit on the page, each with the group's name.
fn groups(report: &GpuHourReport<'_>) -> String {
    let currency = report.currency.as_deref().unwrap_or_default();
    let columns = report.columns();
    let has_money = report.currency.is_some() || report.budgeted;
    let is_budget = |title: &str| {
        is_money(title)
            || title.contains("BUDGET")
            || title.contains("LEFT")
            || (title == "KWH" && has_money)
    };
    // Without prices, every cost is unknown.
    let is_shown = |title: &str| report.currency.is_some() || !is_money(title);
    let titles: Vec<String> = columns
        .iter()
        .map(|column| shown_title(column.title, currency))
        .collect();
    let (money, usage): (Vec<usize>, Vec<usize>) = (1..columns.len())
        .filter(|index| is_shown(columns[*index].title))
        .partition(|index| is_budget(columns[*index].title));
    let mut page = "<h2>All groups</h2>\n".to_owned();
    let parts = usage.chunks(MOST_COLUMNS).chain(money.chunks(MOST_COLUMNS));
    for (number, part) in parts.enumerate() {
        let of_part = |cells: &[String]| -> Vec<String> {
            let chosen = std::iter::once(&0).chain(part);
            chosen
                .filter_map(|index| cells.get(*index).cloned())
                .collect()
        };
        let row = |group: &Group, unnamed: &str, is_total: bool| {
            let cells = report.cells(group, unnamed, true);
            let over: Vec<usize> = (0..part.len())
                .filter(|place| {
                    let index = part[*place];
                    columns[index].title.contains("LEFT")
                        && cells[index].parse().is_ok_and(is_exceeded)
                })
                .map(|place| place + 1)
                .collect();
            TableRow {
                cells: of_part(&cells),
                over,
                is_total,
            }
        };
        let rows: Vec<TableRow> = report
            .groups
            .iter()
            .map(|group| row(group, UNNAMED, false))
            .chain([row(&report.total, "total", true)])
            .collect();
        let id = match number {
            0 => "groups".to_owned(),
            number => format!("groups-{}", number + 1),
        };
        page.push_str(&table(&id, &of_part(&titles), &rows));
    }
    page
}

/// Whether the values of a column are amounts of money.
fn is_money(title: &str) -> bool {
    title.contains("COST")
}

/// Formats the title of a column for readers: `COST-LEFT` becomes `cost left, EUR`.
fn shown_title(title: &str, currency: &str) -> String {
    let shown = title.to_lowercase().replace('-', " ");
    match is_money(title) {
        true => in_currency(&shown, currency),
        false => shown,
    }
}

/// A row of a table on the page.
struct TableRow {
    cells: Vec<String>,
    /// The cells with a budget that is exceeded.
    over: Vec<usize>,
    is_total: bool,
}

impl TableRow {
    fn new(cells: Vec<String>) -> Self {
        Self {
            cells,
            over: Vec::new(),
            is_total: false,
        }
    }
}

fn table(id: &str, titles: &[String], rows: &[TableRow]) -> String {
    // Names and kinds are text, all other cells are numbers.
    let class = |index: usize| match titles[index].as_str() {
        "Kind" | "Owner" => " class=\"text\"",
        _ => "",
    };
    let kind = if titles.len() > NARROW_COLUMNS {
        " class=\"wide\""
    } else {
        ""
    };
    let mut text = format!("<table id=\"{id}\"{kind}><thead><tr>");
    for (index, title) in titles.iter().enumerate() {
        let _ = write!(text, "<th{}>{}</th>", class(index), escaped(title));
    }
    text.push_str("</tr></thead><tbody>\n");
    for row in rows {
        text.push_str(if row.is_total {
            "<tr class=\"total\">"
        } else {
            "<tr>"
        });
        for (index, cell) in row.cells.iter().enumerate() {
            let (title, cell) = (escaped(&titles[index]), escaped(cell));
            // Color alone would be lost on a black and white printer.
            let (class, mark) = match row.over.contains(&index) {
                true => (" class=\"over\"", " (exceeded)"),
                false => (class(index), ""),
            };
            let _ = write!(text, "<td{class} data-title=\"{title}\">{cell}{mark}</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table>\n");
    text
}

/// Escapes text for HTML, because names come from the cluster.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for letter in clean(text).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
