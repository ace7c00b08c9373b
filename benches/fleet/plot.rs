//! Draws the growth of time and memory from the table in RESULTS.md, so that the picture always
//! matches the table.

use std::fs;
use std::path::Path;

use plotters::prelude::{
    ChartBuilder, Circle, Color, IntoDrawingArea, IntoFont, PathElement, RGBColor, SVGBackend,
    TRANSPARENT, Text, WHITE,
};

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 320);
/// Target for the peak memory of `get nodes` and `get overview`, in MiB.
const GOAL: f64 = 48.0;
const COMMANDS: [(&str, RGBColor); 3] = [
    ("gpuctl get overview", RGBColor(46, 125, 50)),
    ("gpuctl get nodes", RGBColor(21, 101, 192)),
    ("gpuctl get workloads", RGBColor(198, 40, 40)),
];

/// A row of the table: pods, command, time in ms, peak memory in MiB.
type Row = (f64, String, f64, f64);

/// Selects the rows with a thousand nodes and protobuf.
fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace([',', '`'], ""))
            .collect();
        let number = |index: usize| cells.get(index)?.parse::<f64>().ok();
        let is_selected = cells.len() == 7 && cells[0] == "1000" && cells[3] == "protobuf";
        is_selected
            .then(|| Some((number(1)?, cells[2].clone(), number(4)?, number(6)?)))
            .flatten()
    };
    text.lines().filter_map(row).collect()
}

/// Writes the picture to the folder that contains the table.
pub fn draw() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    let rows = rows(&fs::read_to_string(folder.join("RESULTS.md")).expect("RESULTS.md exists"));
    assert!(
        !rows.is_empty(),
        "RESULTS.md has no rows with a thousand nodes"
    );
    let path = folder.join("growth.svg");
    let area = SVGBackend::new(&path, SIZE).into_drawing_area();
    area.fill(&WHITE).expect("the picture can be drawn");
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    let max_pods = rows.iter().map(|row| row.0).fold(0.0, f64::max);
    for (part, unit, value) in [
        (left, "ms", (|row| row.2) as fn(&Row) -> f64),
        (right, "MiB", |row| row.3),
    ] {
        let max_value = rows.iter().map(value).fold(0.0, f64::max) * 1.1;
        let mut chart = ChartBuilder::on(&part)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..max_pods * 1.02, 0.0..max_value)
            .expect("the picture can be drawn");
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 13))
            .x_labels(5)
            .x_label_formatter(&|pods| format!("{pods:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .x_desc("pods")
            .y_desc(unit)
            .draw()
            .expect("the picture can be drawn");
        for (index, (command, color)) in COMMANDS.iter().enumerate() {
            let points: Vec<(f64, f64)> = rows
                .iter()
                .filter(|row| row.1 == *command)
                .map(|row| (row.0, value(row)))
                .collect();
            let dots = points
                .iter()
                .map(|point| Circle::new(*point, 3, color.filled()));
            chart.draw_series(dots).expect("the picture can be drawn");
            let line = PathElement::new(points, color.stroke_width(2));
            let name = Text::new(
                *command,
                (max_pods * 0.03, max_value * (0.95 - 0.07 * index as f64)),
                ("sans-serif", 14).into_font().color(color),
            );
            chart.draw_series([line]).expect("the picture can be drawn");
            chart.draw_series([name]).expect("the picture can be drawn");
        }
        if unit == "MiB" {
            let line = PathElement::new(
                vec![(0.0, GOAL), (max_pods, GOAL)],
                RGBColor(158, 158, 158).stroke_width(1),
            );
            chart.draw_series([line]).expect("the picture can be drawn");
        }
    }
    area.present().expect("the picture can be written");
}
