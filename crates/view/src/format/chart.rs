//! Draws curves on a terminal with braille dots, or with `#` in ASCII.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use gpuctl_core::model::Point;

use crate::TextStyle;

/// The axes and the size of a chart.
#[derive(Clone, Copy, Debug)]
pub struct ChartFrame {
    /// Start of the time axis in Unix milliseconds.
    pub from: i64,
    pub to: i64,
    /// Value at the upper edge. The lower edge is 0.
    pub top: f64,
    /// Height of the plot in lines, without the time axis.
    pub height: usize,
    /// Width in columns, including the value axis.
    pub width: usize,
}

/// Width of the value axis in columns.
const AXIS: usize = 7;

/// Draws a chart as lines of text, with `note` in the middle of the time axis.
pub fn chart(points: &[Point], frame: ChartFrame, note: &str, style: TextStyle) -> String {
    let columns = frame.width.saturating_sub(AXIS).max(10);
    // A braille character has two columns of four dots each.
    let spans = spans(&levels(points, frame, columns * 2), frame.height * 4);
    let mut text = String::new();
    for row in (0..frame.height).rev() {
        let label = match row {
            row if row + 1 == frame.height => number(frame.top),
            row if row * 2 + 1 == frame.height => number(frame.top / 2.0),
            _ => String::new(),
        };
        let axis = if style.plain { '|' } else { '┤' };
        text.push_str(&format!("{label:>5} {axis}"));
        let cells: String = (0..columns)
            .map(|column| cell(&spans[column * 2..column * 2 + 2], row, style))
            .collect();
        text.push_str(cells.trim_end());
        text.push('\n');
    }
    let (corner, line) = if style.plain {
        ("+", "-")
    } else {
        ("┴", "─")
    };
    text.push_str(&format!("{:>5} {corner}{}\n", 0, line.repeat(columns)));
    let (start, end) = (clock(frame.from, frame), clock(frame.to, frame));
    let label_width = columns.saturating_sub(start.len() + end.len());
    let middle = format!("{note:^label_width$}");
    let middle = if middle.chars().count() > label_width {
        " ".repeat(label_width)
    } else {
        middle
    };
    text.push_str(&format!("{}{start}{middle}{end}\n", " ".repeat(AXIS)));
    // Print the note on its own line if it does not fit on the time axis.
    if middle.trim().is_empty() && !note.is_empty() {
        text.push_str(&format!("{}{note}\n", " ".repeat(AXIS)));
    }
    text
}

/// Returns the height of the curve in each half column in dots, or `None` without samples.
fn levels(points: &[Point], frame: ChartFrame, halves: usize) -> Vec<Option<usize>> {
    let span = (frame.to - frame.from).max(1) as f64;
    let mut sums = vec![(0.0, 0_u32); halves];
    for point in points
        .iter()
        .filter(|point| point.at >= frame.from && point.at <= frame.to)
    {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the columns"
        )]
        let half = ((point.at - frame.from) as f64 / span * halves as f64) as usize;
        // A point on the right edge belongs to the last half column.
        let sum = &mut sums[half.min(halves - 1)];
        *sum = (sum.0 + point.value, sum.1 + 1);
    }
    // With fewer samples than half columns, extend each sample to the next one. Take the smallest
    // distance between two samples as the sampling interval.
    let step = points
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .min()
        .unwrap_or(0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the columns"
    )]
    let reach = (step as f64 / span * halves as f64).ceil() as usize;
    let dots = (frame.height * 4) as f64;
    let (mut last_level, mut age) = (None, 0);
    sums.into_iter()
        .map(|(sum, count)| {
            if count > 0 {
                (last_level, age) = (Some(sum / f64::from(count)), 0);
            } else {
                age += 1;
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and the dots"
            )]
            last_level
                .filter(|_| age < reach.max(1))
                .map(|value: f64| (value / frame.top * dots).clamp(0.0, dots).round() as usize)
        })
        .collect()
}

/// Converts heights to ranges of dots. Each range starts at the height before it, so that jumps
/// become vertical lines.
fn spans(levels: &[Option<usize>], dots: usize) -> Vec<Option<(usize, usize)>> {
    let mut previous = None;
    let span = |level: &Option<usize>| {
        let dot = level.map(|level| level.saturating_sub(1).min(dots - 1));
        let last_dot = std::mem::replace(&mut previous, dot);
        dot.map(|dot| match last_dot {
            Some(last_dot) if last_dot < dot => (last_dot + 1, dot),
            Some(last_dot) if last_dot > dot => (dot, last_dot - 1),
            _ => (dot, dot),
        })
    };
    levels.iter().map(span).collect()
}

/// Renders two half columns as one character. Height 0 has the lowest dot, and a missing value
/// none.
fn cell(pair: &[Option<(usize, usize)>], row: usize, style: TextStyle) -> char {
    // Bits of the dots from bottom to top. A braille character is U+2800 plus its bits.
    const LEFT: [u32; 4] = [0x40, 0x04, 0x02, 0x01];
    const RIGHT: [u32; 4] = [0x80, 0x20, 0x10, 0x08];
    let drawn = |span: Option<(usize, usize)>, bits: [u32; 4]| -> u32 {
        let here =
            |dot: &usize| span.is_some_and(|(low, high)| (low..=high).contains(&(row * 4 + dot)));
        (0..4).filter(here).map(|dot| bits[dot]).sum()
    };
    let bits = drawn(pair[0], LEFT) + drawn(pair[1], RIGHT);
    match (bits, style.plain) {
        (0, _) => ' ',
        (_, true) => '#',
        (_, false) => char::from_u32(0x2800 + bits).unwrap_or(' '),
    }
}

/// Returns the upper edge of a chart: `highest`, rounded up to 1, 2, 2.5, 5 or 10 times a power of
/// ten.
pub(crate) fn round_top(highest: f64) -> f64 {
    let power = 10_f64.powf(highest.max(1.0).log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= highest)
        .unwrap_or(power * 10.0)
}

/// Draws a curve in one line of block characters for lists, such as `▂▅█▇`.
pub(crate) fn spark(points: &[Point], frame: ChartFrame, style: TextStyle) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const PLAIN: [char; 4] = ['_', '.', 'o', '#'];
    // Use two rows of four dots, because block characters have eight heights.
    let levels = levels(points, ChartFrame { height: 2, ..frame }, frame.width);
    levels
        .into_iter()
        .map(|level| match level {
            None => ' ',
            Some(level) if style.plain => PLAIN[(level / 2).min(3)],
            Some(level) => BLOCKS[level.saturating_sub(1).min(7)],
        })
        .collect()
}

fn number(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Formats a time of day, preceded by the date if the chart is longer than a day.
fn clock(millis: i64, frame: ChartFrame) -> String {
    let format = if frame.to - frame.from > 86_400_000 {
        "%m-%d %H:%M"
    } else {
        "%H:%M"
    };
    let zone = TimeZone::system();
    Timestamp::from_millisecond(millis).map_or_else(
        |_| String::new(),
        |time| time.to_zoned(zone).strftime(format).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<Point> {
        values
            .iter()
            .zip(0..)
            .map(|(value, index)| Point {
                at: index * 1000,
                value: *value,
            })
            .collect()
    }

    #[test]
    fn a_chart_draws_values_as_lines() {
        let frame = ChartFrame {
            from: 0,
            to: 20_000,
            top: 100.0,
            height: 2,
            width: AXIS + 10,
        };
        let text = chart(
            &points(&[100.0; 20]),
            frame,
            "",
            TextStyle {
                width: Some(80),
                color: false,
                plain: true,
            },
        );
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!((rows[0], rows[1]), ("  100 |##########", "      |"));
        let text = chart(
            &points(&[0.0; 20]),
            frame,
            "",
            TextStyle {
                width: Some(80),
                color: false,
                plain: false,
            },
        );
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!((rows[0], rows[1]), ("  100 ┤", "      ┤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀"));
        assert_eq!(rows[2], "    0 ┴──────────");
        // The curve jumps from the bottom to the top and back.
        let values: Vec<f64> = (0..20)
            .map(|index| if (4..8).contains(&index) { 100.0 } else { 0.0 })
            .collect();
        let text = chart(
            &points(&values),
            frame,
            "",
            TextStyle {
                width: Some(80),
                color: false,
                plain: false,
            },
        );
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!((rows[0], rows[1]), ("  100 ┤  ⡏⠉⡆", "      ┤⣀⣀⠇ ⣇⣀⣀⣀⣀⣀"));
    }

    #[test]
    fn the_upper_edge_is_a_round_number_above_all_values() {
        for (highest, top) in [
            (0.2, 1.0),
            (1.0, 1.0),
            (39.0, 50.0),
            (245.0, 250.0),
            (1001.0, 2000.0),
            (7e4, 1e5),
        ] {
            assert!(
                (round_top(highest) - top).abs() < 1e-6,
                "{highest}: {}",
                round_top(highest)
            );
        }
    }

    #[test]
    fn gaps_without_samples_stay_empty() {
        let frame = ChartFrame {
            from: 0,
            to: 20_000,
            top: 100.0,
            height: 1,
            width: 20,
        };
        let mut late = points(&[50.0; 20]);
        late.retain(|point| point.at >= 10_000);
        let line = spark(
            &late,
            frame,
            TextStyle {
                width: None,
                color: false,
                plain: false,
            },
        );
        assert_eq!(line, "          ▄▄▄▄▄▄▄▄▄▄");
    }
}
