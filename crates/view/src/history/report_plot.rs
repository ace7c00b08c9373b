//! Draws the plots of the HTML report as SVG: horizontal bars for groups, vertical bars over time.
//! The SVG contains no scripts, fonts or images.

use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    ChartBuilder, Color, IntoDrawingArea, IntoSegmentedCoord, RGBColor, Rectangle, SVGBackend,
    SegmentValue, TRANSPARENT,
};

use super::report::{Group, UNNAMED};
use super::report_bars::TimeBars;
use crate::format::text::clean;
use gpuctl_core::model::values::units::total;

pub(crate) const USED: RGBColor = RGBColor(46, 125, 50);
pub(crate) const WASTED: RGBColor = RGBColor(198, 40, 40);
pub(crate) const UNKNOWN: RGBColor = RGBColor(158, 158, 158);

/// Maximum number of groups in a plot. The groups that held the most are shown.
pub(crate) const MOST_GROUPS: usize = 20;

/// Width of a plot in pixels. The page scales it to the available width.
const WIDTH: u32 = 960;
/// Height of the plot over time in pixels.
const HEIGHT: u32 = 320;
/// Height of a group's bar, and of the space around all bars, in pixels.
const ROW: u32 = 28;
const AROUND_ROWS: u32 = 70;
/// Minimum number of bars that a plot of groups has room for, so that its axis stays legible.
const LEAST_ROWS: u32 = 3;
/// Maximum length of a group's name in letters. They fit into `NAME_WIDTH` pixels.
const NAME_LENGTH: usize = 30;
const NAME_WIDTH: u32 = 250;
/// Height of the text in pixels, so that it is legible on a page that is half as wide.
const TEXT: (&str, u32) = ("sans-serif", 15);

/// The error type of the plotting library.
type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// One bar of a plot. Its parts follow each other, from the axis.
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

    fn length(&self) -> f64 {
        total(self.parts.iter().map(|(part, _)| *part))
    }
}

/// Draws the groups that held the most.
pub(crate) fn of_groups(groups: &[Group]) -> String {
    let mut largest: Vec<&Group> = groups.iter().collect();
    largest.sort_by(|a, b| b.account.held.total_cmp(&a.account.held));
    largest.truncate(MOST_GROUPS);
    let bar = |group: &&Group| {
        let account = &group.account;
        Bar::new(
            shortened(&clean(group.name.as_deref().unwrap_or(UNNAMED))),
            account.used().unwrap_or(0.0),
            account.wasted().unwrap_or(0.0),
            account.unknown(),
        )
    };
    // The axis begins at the bottom.
    plot(
        &largest.iter().rev().map(bar).collect::<Vec<_>>(),
        draw_rows,
    )
}

/// Draws the bars over time.
pub(crate) fn over_time(bars: &TimeBars) -> String {
    let length = bars.length_name();
    let unit = format!("GPU-hours per {length}");
    let bars: Vec<Bar> = bars
        .bars
        .iter()
        .map(|bar| Bar::new(bar.date.clone(), bar.used, bar.wasted, bar.unknown))
        .collect();
    plot(&bars, |svg, bars, longest| {
        draw_columns(svg, bars, longest, &unit)
    })
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LENGTH {
        return name.to_owned();
    }
    let begin: String = name.chars().take(NAME_LENGTH - 1).collect();
    format!("{begin}…")
}

/// Draws a plot as SVG, or returns a sentence when there is nothing to plot.
fn plot(
    bars: &[Bar],
    draw: impl FnOnce(&mut String, &[Bar], f64) -> Result<(), PlotError>,
) -> String {
    let longest = bars.iter().map(Bar::length).fold(0.0, f64::max);
    if longest <= 0.0 {
        return "<p>No GPU was held.</p>".to_owned();
    }
    let mut svg = String::new();
    match draw(&mut svg, bars, longest) {
        Ok(()) => svg,
        Err(error) => format!("<p>The plot could not be drawn: {error}</p>"),
    }
}

/// Formats a number of the axis.
fn tick(longest: f64) -> impl Fn(&f64) -> String {
    let decimals = match longest {
        longest if longest >= 10.0 => 0,
        longest if longest >= 1.0 => 1,
        _ => 3,
    };
    move |value: &f64| format!("{value:.decimals$}")
}

/// The name of the bar at a position.
fn name_at(bars: &[Bar], position: &SegmentValue<usize>) -> String {
    match position {
        SegmentValue::CenterOf(index) | SegmentValue::Exact(index) => bars
            .get(*index)
            .map_or_else(String::new, |bar| bar.name.clone()),
        SegmentValue::Last => String::new(),
    }
}

fn draw_columns(svg: &mut String, bars: &[Bar], longest: f64, unit: &str) -> Result<(), PlotError> {
    let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    // plotters treats the end of an integer range as inclusive.
    let positions = (0..bars.len().saturating_sub(1)).into_segmented();
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_right(40)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(positions, 0.0..longest * 1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(TEXT)
        .x_labels(bars.len())
        .x_label_formatter(&|position| name_at(bars, position))
        .y_label_formatter(&tick(longest))
        .y_desc(unit)
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
    // The chart borrows the area, which `present` needs.
    drop(chart);
    area.present()
}

fn draw_rows(svg: &mut String, bars: &[Bar], longest: f64) -> Result<(), PlotError> {
    let rows = u32::try_from(bars.len()).unwrap_or(u32::MAX);
    let height = rows
        .max(LEAST_ROWS)
        .saturating_mul(ROW)
        .saturating_add(AROUND_ROWS);
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    let positions = (0..bars.len().saturating_sub(1)).into_segmented();
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_right(40)
        .x_label_area_size(45)
        .y_label_area_size(NAME_WIDTH)
        .build_cartesian_2d(0.0..longest * 1.05, positions)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(TEXT)
        .y_labels(bars.len())
        .y_label_formatter(&|position| name_at(bars, position))
        .x_label_formatter(&tick(longest))
        .x_desc("GPU-hours")
        .draw()?;
    for (index, bar) in bars.iter().enumerate() {
        let mut before = 0.0;
        for (part, color) in bar.parts.into_iter().filter(|(part, _)| *part > 0.0) {
            let corners = [
                (before, SegmentValue::Exact(index)),
                (before + part, SegmentValue::Exact(index + 1)),
            ];
            let mut rectangle = Rectangle::new(corners, color.filled());
            rectangle.set_margin(3, 3, 0, 0);
            chart.draw_series([rectangle])?;
            before += part;
        }
    }
    drop(chart);
    area.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_draws_any_number_of_bars_of_any_length() {
        for count in (1..=70).chain([500]) {
            for length in [1e-6, 0.01, 3.0, 1e7] {
                let bars: Vec<Bar> = (0..count)
                    .map(|_| Bar::new("x".to_owned(), length, 0.0, 0.0))
                    .collect();
                for svg in [
                    plot(&bars, draw_rows),
                    plot(&bars, |svg, bars, longest| {
                        draw_columns(svg, bars, longest, "GPU-hours")
                    }),
                ] {
                    assert!(svg.contains("<svg"), "{count} {length}");
                }
            }
        }
        assert!(of_groups(&[]).contains("No GPU was held"));
    }

    #[test]
    fn long_names_are_shortened() {
        assert_eq!(shortened("research"), "research");
        let long = shortened(&"ä".repeat(40));
        assert!(
            long.chars().count() == NAME_LENGTH && long.ends_with('…'),
            "{long}"
        );
    }
}
