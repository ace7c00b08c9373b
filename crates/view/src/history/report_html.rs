//! Renders `report -o html` as a self-contained file with inline plots and styles.

use std::fmt::Write as _;

use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    ChartBuilder, Color, IntoDrawingArea, IntoSegmentedCoord, RGBColor, Rectangle, SVGBackend,
    SegmentValue, TRANSPARENT,
};

use super::report::{GpuHourReport, Group, HourPoint};
use crate::format::text::clean;
use gpuctl_core::model::values::units::total;

const USED: RGBColor = RGBColor(46, 125, 50);
const WASTED: RGBColor = RGBColor(198, 40, 40);
const UNKNOWN: RGBColor = RGBColor(158, 158, 158);

/// Maximum number of groups in a plot. Only the groups with the most held GPU-hours are shown.
const MOST_GROUPS: usize = 20;
/// Maximum number of bars in the plot over time. With more hours, a bar covers several hours.
const MOST_BARS: usize = 96;

/// Width and height of a plot in pixels.
const SIZE: (u32, u32) = (960, 320);

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1000px;padding:0 1em;color:#222;background:#fff}\
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:1.6em}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.3em .6em;border-bottom:1px solid #ddd;text-align:right}th:first-child,td:first-child{text-align:left}\
tr:last-child td{font-weight:600}svg{max-width:100%;height:auto}.key span{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em}";

pub fn page(report: &GpuHourReport<'_>) -> String {
    let title = format!("GPU-hours by {}", report.by);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>{}</h1>\n<p>{} to {}</p>\n",
        escaped(&title),
        escaped(&title),
        report.from,
        report.to
    );
    let key = [
        ("used", USED),
        ("wasted", WASTED),
        ("not measured", UNKNOWN),
    ]
    .map(|(label, RGBColor(r, g, b))| {
        format!("<span style=\"background:rgb({r},{g},{b})\"></span>{label}")
    });
    let mut groups: Vec<&Group> = report.groups.iter().collect();
    groups.sort_by(|a, b| b.account.held.total_cmp(&a.account.held));
    groups.truncate(MOST_GROUPS);
    let bars: Vec<Bar> = groups.iter().map(|group| Bar::from_group(group)).collect();
    // Ignore the result, because writing to a `String` cannot fail.
    let _ = writeln!(page, "<p class=\"key\">{}</p>", key.concat());
    let _ = writeln!(
        page,
        "<h2>GPU-hours by {}</h2>\n{}",
        escaped(report.by),
        plot(&bars)
    );
    let _ = writeln!(
        page,
        "<h2>GPU-hours over time</h2>\n{}",
        plot(&over_time(report))
    );
    page.push_str("<h2>All groups</h2>\n<table id=\"groups\"><thead><tr>");
    for column in report.columns() {
        let _ = write!(page, "<th>{}</th>", escaped(&column.title.to_lowercase()));
    }
    page.push_str("</tr></thead><tbody>\n");
    for (group, unnamed) in report
        .groups
        .iter()
        .map(|group| (group, "(none)"))
        .chain([(&report.total, "total")])
    {
        let cells: String = report
            .cells(group, unnamed, true)
            .iter()
            .map(|cell| format!("<td>{}</td>", escaped(cell)))
            .collect();
        let _ = writeln!(page, "<tr>{cells}</tr>");
    }
    page.push_str("</tbody></table>\n</body></html>\n");
    page
}

/// A bar of a plot, with its parts from bottom to top.
struct Bar {
    name: String,
    parts: [(f64, RGBColor); 3],
}

impl Bar {
    fn new(name: String, used: f64, wasted: f64, unknown: f64) -> Self {
        Self {
            name,
            parts: [(used, USED), (wasted, WASTED), (unknown, UNKNOWN)],
        }
    }

    fn from_group(group: &Group) -> Self {
        let account = &group.account;
        let name = clean(group.name.as_deref().unwrap_or("(none)")).into_owned();
        Self::new(
            name,
            account.used().unwrap_or(0.0),
            account.wasted().unwrap_or(0.0),
            account.unknown(),
        )
    }

    fn height(&self) -> f64 {
        total(self.parts.iter().map(|(part, _)| *part))
    }
}

/// Groups the hours into at most `MOST_BARS` bars of the same number of hours.
fn over_time(report: &GpuHourReport<'_>) -> Vec<Bar> {
    let hours_per_bar = report.over_time.len().div_ceil(MOST_BARS).max(1);
    let bar = |hours: &[HourPoint]| {
        let sum = |field: fn(&HourPoint) -> f64| total(hours.iter().map(field));
        let (held, used, unknown) = (
            sum(|hour| hour.held),
            sum(|hour| hour.used),
            sum(|hour| hour.unknown),
        );
        let name = format!("{}h", hours.first().map_or(0, |hour| hour.hour));
        Bar::new(name, used, (held - used - unknown).max(0.0), unknown)
    };
    report.over_time.chunks(hours_per_bar).map(bar).collect()
}

/// Draws a plot as SVG, or returns a sentence if there is nothing to plot.
fn plot(bars: &[Bar]) -> String {
    let highest = bars.iter().map(Bar::height).fold(0.0, f64::max);
    if highest <= 0.0 {
        return "<p>No GPU was held.</p>".to_owned();
    }
    let mut svg = String::new();
    match draw(&mut svg, bars, highest) {
        Ok(()) => svg,
        Err(error) => format!(
            "<p>The plot could not be drawn: {}</p>",
            escaped(&error.to_string())
        ),
    }
}

/// The error type of the plotting library.
type PlotError = DrawingAreaErrorKind<std::io::Error>;

fn draw(svg: &mut String, bars: &[Bar], highest: f64) -> Result<(), PlotError> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    // End at the last index, because plotters includes the end of an integer range.
    let positions = (0..bars.len().saturating_sub(1)).into_segmented();
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(positions, 0.0..highest * 1.05)?;
    let name = |position: &SegmentValue<usize>| match position {
        SegmentValue::CenterOf(index) | SegmentValue::Exact(index) => bars
            .get(*index)
            .map_or_else(String::new, |bar| bar.name.chars().take(14).collect()),
        SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .x_labels(bars.len().min(12))
        .x_label_formatter(&name)
        .y_desc("GPU-hours")
        .draw()?;
    for (index, bar) in bars.iter().enumerate() {
        let mut below = 0.0;
        for (part, color) in bar.parts.into_iter().filter(|(part, _)| *part > 0.0) {
            let corners = [
                (SegmentValue::Exact(index), below),
                (SegmentValue::Exact(index + 1), below + part),
            ];
            let mut rectangle = Rectangle::new(corners, color.filled());
            rectangle.set_margin(0, 0, 1, 1);
            chart.draw_series([rectangle])?;
            below += part;
        }
    }
    // Drop the chart, which borrows the area that `present` needs.
    drop(chart);
    area.present()
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
mod tests {
    use super::*;
    use gpuctl_core::stats::history::gpu_hours::GpuHours;

    #[test]
    fn the_page_escapes_names_and_loads_nothing() {
        let name = "<script>alert(1)</script>&\"";
        let mut account = GpuHours::default();
        account.held = 4.0;
        let group = || Group {
            name: Some(name.to_owned()),
            account: account.clone(),
            ..Group::default()
        };
        let time = jiff::Timestamp::UNIX_EPOCH;
        let over_time = (0..200)
            .map(|hour| HourPoint {
                hour,
                held: 2.0,
                used: 1.0,
                unknown: 0.5,
            })
            .collect();
        let report = GpuHourReport {
            over_time,
            ..GpuHourReport::new(time, vec![group()], group())
        };
        let page = page(&report);
        assert!(
            !page.contains("<script") && page.contains("&lt;script&gt;"),
            "{page}"
        );
        assert_eq!(page.matches("<svg").count(), 2);
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        // 200 hours make 67 bars of up to three hours. Each hour has 2 held and 1 used GPU-hours.
        assert_eq!(super::over_time(&report).len(), 67);
        assert_eq!(
            super::over_time(&report)[0].parts.map(|(part, _)| part),
            [3.0, 1.5, 1.5]
        );
        assert!(plot(&[]).contains("No GPU was held"));
        // The plotting library must handle any number of bars of any height.
        for count in (1..=MOST_BARS).chain([500]) {
            for height in [1e-6, 0.01, 3.0, 1e7] {
                let bars: Vec<Bar> = (0..count)
                    .map(|_| Bar::new("x".to_owned(), height, 0.0, 0.0))
                    .collect();
                assert!(plot(&bars).contains("<svg"), "{count} {height}");
            }
        }
    }
}
