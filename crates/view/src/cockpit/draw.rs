//! Draws the cockpit: a summary line, the tabs, one list or the output of a command, and the keys.

mod help;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::cells::{Tint, style};
use super::columns::{CockpitColumn, columns};
use super::heat::map;
use super::lists::Tab;
use super::rows::Row;
use super::{Cockpit, CockpitSnapshot, Pane};
use crate::format::coverage::{basis, percent};
use crate::format::text::{clean, count, or_dash};
use crate::nodes::numbers::withheld_text;
use help::draw_help;

/// Keys shown in the last line.
const KEYS: &str = "? keys  q back  Enter step into  w why  l logs  d describe  g GPUs  e exec  o open  / filter  s sort";

/// Draws the screen. Records the position of the list, which maps mouse clicks to rows.
pub fn draw(cockpit: &mut Cockpit, frame: &mut Frame<'_>) {
    let [head, tabs, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    // `Cockpit::answer` wraps new panes at this width.
    cockpit.width = usize::from(body.width);
    frame.render_widget(
        Paragraph::new(head_line(cockpit, usize::from(head.width))),
        head,
    );
    frame.render_widget(Paragraph::new(tab_line(cockpit)), tabs);
    let color = cockpit.style.color;
    if let Some(pane) = &mut cockpit.pane {
        draw_pane(pane, frame, body, color);
    } else {
        draw_list(cockpit, frame, body);
    }
    let width = usize::from(keys.width);
    frame.render_widget(Paragraph::new(last_line(cockpit, width)), keys);
    if cockpit.is_helping {
        draw_help(frame);
    }
}

/// Renders the summary line: cluster, nodes, held GPUs, utilization, waiting jobs, and the
/// snapshot's time.
fn head_line(cockpit: &Cockpit, width: usize) -> Line<'static> {
    let snapshot = &cockpit.snapshot;
    let (waiting, lacking) = snapshot.waiting();
    let mut parts = vec![clean(&cockpit.title).into_owned()];
    match snapshot.count {
        Some(gpus) => parts.extend([
            count(snapshot.nodes.len() as u64, "node"),
            format!(
                "{} of {} held{}",
                or_dash(gpus.used),
                count(gpus.total, "GPU"),
                withheld_text(gpus)
            ),
        ]),
        None => parts.push("nodes not visible".to_owned()),
    }
    parts.push(use_of_held(snapshot));
    if waiting > 0 {
        let (verb, noun) = if waiting == 1 {
            ("waits", "job")
        } else {
            ("wait", "jobs")
        };
        let lacking = count(lacking.0, "GPU");
        parts.push(format!("{waiting} {noun} {verb} for {lacking}"));
    }
    parts.extend(
        snapshot
            .narrowed_to
            .iter()
            .map(|namespace| format!("jobs in {} only", clean(namespace))),
    );
    let time = snapshot
        .at
        .to_zoned(jiff::tz::TimeZone::system())
        .strftime("%H:%M:%S")
        .to_string();
    // Cut by characters instead of bytes, because names can contain non-ASCII text.
    let left = format!(" {}", parts.join("   "));
    let left: String = left
        .chars()
        .take(width.saturating_sub(time.len() + 2))
        .collect();
    let gap = width.saturating_sub(left.width() + time.len() + 1);
    Line::from(format!("{left}{}{time} ", " ".repeat(gap)))
        .style(Style::new().add_modifier(Modifier::REVERSED))
}

/// Formats the mean utilization of the held GPUs, and how many of them were sampled.
fn use_of_held(snapshot: &CockpitSnapshot) -> String {
    let held_use = &snapshot.held_use;
    match held_use.utilization() {
        Some(utilization) => {
            format!("{} used, {}", percent(Some(utilization)), basis(held_use))
        }
        None if snapshot.gpus.is_empty() => "no metrics".to_owned(),
        None => "no held GPU is measured".to_owned(),
    }
}

fn tab_line(cockpit: &Cockpit) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (tab, text, ..) in cockpit.tabs() {
        let style = if tab == cockpit.tab {
            Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        } else {
            Style::new()
        };
        spans.extend([Span::styled(text, style), Span::raw("  ")]);
    }
    if let Some(scope) = &cockpit.scope {
        spans.push(Span::raw(format!("› {}", clean(scope.name()))));
    }
    Line::from(spans)
}

fn last_line(cockpit: &Cockpit, width: usize) -> Line<'static> {
    let cursor = if cockpit.is_typing { "▏" } else { "" };
    let text = match (&cockpit.trouble, &cockpit.remark) {
        // Show active filters and outages all the time, except that a remark replaces the filter
        // until the next key press.
        _ if cockpit.is_typing
            || (!cockpit.filter.is_empty()
                && cockpit.pane.is_none()
                && cockpit.remark.is_none()) =>
        {
            let error_note = cockpit.trouble.as_ref().map_or_else(String::new, |error| {
                format!("   as of the time above: {error}")
            });
            format!(
                " /{}{cursor}   Esc clears the filter{}",
                clean(&cockpit.filter),
                clean(&error_note)
            )
        }
        (_, Some(remark)) => format!(" {}", clean(remark)),
        (Some(error), None) => format!(" as of the time above: {}", clean(error)),
        (None, None) if cockpit.pane.is_some() => {
            " ↑ ↓ PgUp PgDn scroll  End follow  q back".to_owned()
        }
        (None, None) => whole_keys(width),
    };
    Line::from(text).style(Style::new().add_modifier(Modifier::DIM))
}

/// Returns the keys that fit. A truncated key would look like another key.
fn whole_keys(width: usize) -> String {
    let mut text = String::new();
    for key in KEYS.split("  ") {
        let separator = if text.is_empty() { " " } else { "  " };
        if text.width() + separator.len() + key.width() > width {
            break;
        }
        text.push_str(separator);
        text.push_str(key);
    }
    text
}

fn draw_pane(pane: &mut Pane, frame: &mut Frame<'_>, area: Rect, color: bool) {
    let [title, text] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let ending = pane
        .ended
        .as_ref()
        .map_or_else(String::new, |ending| format!("   {ending}"));
    let heading = Line::from(format!(" $ {}{}", clean(&pane.title), clean(&ending)));
    frame.render_widget(
        Paragraph::new(heading.style(style(Tint::Dim, color))),
        title,
    );
    let lines: Vec<Line<'_>> = pane
        .visible_lines(usize::from(text.width), usize::from(text.height))
        .iter()
        .map(|line| Line::from(line.as_str()))
        .collect();
    frame.render_widget(Paragraph::new(lines), text);
}

fn draw_list(cockpit: &mut Cockpit, frame: &mut Frame<'_>, area: Rect) {
    let rows = cockpit.rows();
    let selected = cockpit.place(&rows);
    let mut area = area;
    if cockpit.tab == Tab::Gpus && !rows.is_empty() {
        // Show the same GPUs in the map as in the list below it.
        let shown_gpus: std::collections::BTreeSet<&str> =
            rows.iter().map(|row| row.key.as_str()).collect();
        let gpus = cockpit
            .snapshot
            .gpus
            .iter()
            .filter(|gpu| shown_gpus.contains(super::gpu_name(gpu).as_str()));
        // Give the map at most half of the screen, so that some rows of the list remain visible.
        let size = (usize::from(area.width), usize::from(area.height / 2));
        let lines = map(
            gpus,
            &cockpit.snapshot.nodes_by_name(),
            rows.get(selected).map(|row| row.key.as_str()),
            size,
            cockpit.style.color,
        );
        let height = u16::try_from(lines.len()).unwrap_or(0);
        let [map_area, table_area] =
            Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
        frame.render_widget(Paragraph::new(lines), map_area);
        area = table_area;
    }
    // Subtract the row with the column titles.
    let height = usize::from(area.height.saturating_sub(1));
    // Keep the scroll position unless the selected row is outside the screen.
    let first = cockpit
        .viewport
        .0
        .min(selected)
        .max((selected + 1).saturating_sub(height))
        .min(rows.len().saturating_sub(height));
    cockpit.viewport = (first, height.min(rows.len()));
    cockpit.list_row = area.y + 1;
    if rows.is_empty() {
        frame.render_widget(Paragraph::new(format!("\n {}", nothing(cockpit))), area);
        return;
    }
    let (columns, widths) = fitted(cockpit.tab, &rows, usize::from(area.width));
    let title = |column: &CockpitColumn| (column.title.to_owned(), Tint::Dim);
    let titles = line(
        &columns,
        &widths,
        |index, _| title(&columns[index].1),
        cockpit.style.color,
        false,
    );
    let visible = rows.iter().enumerate().skip(first).take(height);
    let lines = visible.map(|(index, row)| {
        line(
            &columns,
            &widths,
            |_, column| row.cells[column].clone(),
            cockpit.style.color,
            index == selected,
        )
    });
    let lines: Vec<Line<'_>> = std::iter::once(titles).chain(lines).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the text shown instead of an empty list.
fn nothing(cockpit: &Cockpit) -> &'static str {
    match cockpit.tab {
        _ if !cockpit.filter.is_empty() => "nothing matches the filter",
        Tab::Jobs => "no workload holds GPUs or waits for them",
        Tab::Waiting => "no job is waiting",
        Tab::Nodes | Tab::Overview => "no nodes with GPUs are visible",
        Tab::Gpus if cockpit.snapshot.gpus.is_empty() => {
            "no GPU metrics; run `gpuctl doctor` to find out why"
        }
        Tab::Gpus => "no known GPUs in this scope",
        Tab::Queues if cockpit.snapshot.queues.is_none() => {
            "no queueing system is visible (Kueue, Volcano)"
        }
        Tab::Queues => "no queues",
    }
}

/// The visible columns with their indexes, and their widths.
type Fitted = (Vec<(usize, CockpitColumn)>, Vec<usize>);

/// Selects the columns that fit into `width`, and their widths. Hides columns before shortening
/// names.
fn fitted(tab: Tab, rows: &[Row], width: usize) -> Fitted {
    let mut columns: Vec<(usize, CockpitColumn)> = columns(tab).into_iter().enumerate().collect();
    let natural = |(cell_index, column): &(usize, CockpitColumn)| {
        let widest = rows
            .iter()
            .map(|row| row.cells[*cell_index].0.width())
            .max()
            .unwrap_or(0);
        widest.max(column.title.width())
    };
    loop {
        let widths: Vec<usize> = columns.iter().map(natural).collect();
        // Reserve a column for the selection mark, and a space after each cell.
        let surplus =
            (1 + widths.iter().map(|width| width + 1).sum::<usize>()).saturating_sub(width);
        if surplus == 0 {
            return (columns, widths);
        }
        let first = columns
            .iter()
            .enumerate()
            .filter(|(_, (_, column))| column.yields > 0);
        match first
            .max_by_key(|(_, (_, column))| column.yields)
            .map(|(index, _)| index)
        {
            Some(index) => drop(columns.remove(index)),
            None => {
                let mut widths = widths;
                // Shorten left-aligned cells from left to right, to 12 columns at least.
                for index in (0..columns.len())
                    .filter(|index| !columns[*index].1.right)
                    .collect::<Vec<_>>()
                {
                    let lack = (1 + widths.iter().map(|width| width + 1).sum::<usize>())
                        .saturating_sub(width);
                    widths[index] = widths[index]
                        .saturating_sub(lack)
                        .max(widths[index].min(12));
                }
                return (columns, widths);
            }
        }
    }
}

fn line(
    columns: &[(usize, CockpitColumn)],
    widths: &[usize],
    cell: impl Fn(usize, usize) -> (String, Tint),
    color: bool,
    selected: bool,
) -> Line<'static> {
    let mut spans = vec![Span::raw(if selected { ">" } else { " " })];
    for (index, ((cell_index, column), width)) in columns.iter().zip(widths).enumerate() {
        let (text, tint) = cell(index, *cell_index);
        let text = shortened(&text, *width);
        let pad = " ".repeat(width.saturating_sub(text.width()));
        let text = if column.right {
            format!("{pad}{text}")
        } else {
            format!("{text}{pad}")
        };
        spans.extend([Span::styled(text, style(tint, color)), Span::raw(" ")]);
    }
    let line = Line::from(spans);
    if selected {
        line.style(Style::new().add_modifier(Modifier::BOLD))
    } else {
        line
    }
}

/// Truncates a text to `width` terminal columns and ends it with `…`.
fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        if short.width() + unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0) + 1 > width {
            break;
        }
        short.push(letter);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
