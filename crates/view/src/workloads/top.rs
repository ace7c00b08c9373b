//! Renders the table of `top`: the current use of each line with a bar, the busiest line first.

use gpuctl_core::model::values::units::UnitValue;
use gpuctl_core::model::{Figures, NodeUsage, Reading, Watts};

use crate::format::coverage::{memory_of, percent};
use crate::format::table::{Cell, Table, left, percentages, right};
use crate::format::text::{bar, joined};
use crate::{Format, TextStyle};

/// A line of the table.
#[derive(Clone, Debug)]
pub struct TopLine {
    pub name: String,
    /// The namespace, the GPU type or the node, which distinguishes the lines.
    pub about: String,
    /// Number of held devices, out of `total`.
    pub held: Option<u64>,
    pub total: u64,
    pub figures: Figures,
}

/// The sort key of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopOrder {
    #[default]
    Utilization,
    Memory,
    Power,
    Gpus,
    Name,
}

pub fn of_node(host: &NodeUsage) -> TopLine {
    TopLine {
        name: host.name().to_owned(),
        about: joined(&host.kinds()),
        held: host.gpus.used,
        total: host.gpus.total,
        figures: host.figures(),
    }
}

pub fn of_gpu(reading: &Reading) -> TopLine {
    let holder = reading
        .holders
        .first()
        .map(|(namespace, pod)| format!("{namespace}/{pod}"));
    TopLine {
        name: format!("{}/{}", reading.node, reading.id()),
        about: holder.unwrap_or_else(|| "-".to_owned()),
        held: reading.held.map(u64::from),
        total: 1,
        figures: Figures::from_readings(std::iter::once(reading)),
    }
}

/// Sorts lines from highest to lowest. Lines without a value come last.
pub fn sort(lines: &mut [TopLine], key: TopOrder) {
    let number = |line: &TopLine| match key {
        TopOrder::Utilization => line.figures.utilization.map(UnitValue::value),
        TopOrder::Memory => line.figures.memory_used.map(UnitValue::value),
        TopOrder::Power => line.figures.power_in_all.map(UnitValue::value),
        TopOrder::Gpus => line.held.map(|held| held as f64),
        TopOrder::Name => None,
    };
    lines.sort_by(|a, b| {
        // Unknown values become negative infinity, which comes last in descending order.
        let unknown_last = number(b)
            .unwrap_or(f64::NEG_INFINITY)
            .total_cmp(&number(a).unwrap_or(f64::NEG_INFINITY));
        unknown_last
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.about.cmp(&b.about))
    });
}

pub fn table(lines: &[TopLine], titles: (&'static str, &'static str), style: TextStyle) -> String {
    let mut columns = vec![left(titles.0), left(titles.1).yielding(), right("GPUS")];
    columns.push(if style.width.is_some() {
        left("UTIL")
    } else {
        percentages("UTIL")
    });
    columns.extend([right("MEMORY/GPU").yielding(), right("WATTS").yielding()]);
    let mut table = Table::new(columns);
    for line in lines {
        let gpus = line.held.map_or_else(
            || format!("-/{}", line.total),
            |held| format!("{held}/{}", line.total),
        );
        let utilization = match (line.figures.utilization, style.width) {
            (Some(value), Some(_)) => bar(value, 10, style),
            (value, _) => percent(value),
        };
        let mut cells: Vec<Cell> = vec![
            line.name.clone().into(),
            line.about.clone().into(),
            gpus.into(),
            utilization.into(),
        ];
        let watts = line
            .figures
            .power_in_all
            .map_or_else(|| "-".to_owned(), |Watts(watts)| format!("{watts:.0}"));
        cells.extend([
            memory_of(&line.figures).unwrap_or_default().into(),
            watts.into(),
        ]);
        table.row(cells);
    }
    table.show(Format::Table, true, style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::Percent;

    #[test]
    fn the_busiest_come_first_and_unknown_ones_last() {
        let line = |name: &str, utilization: Option<f64>| TopLine {
            name: name.into(),
            about: String::new(),
            held: Some(1),
            total: 1,
            figures: Figures {
                utilization: utilization.map(Percent),
                ..Figures::default()
            },
        };
        let mut lines = [
            line("unknown", None),
            line("idle", Some(0.0)),
            line("busy", Some(90.0)),
        ];
        sort(&mut lines, TopOrder::Utilization);
        assert_eq!(
            lines
                .iter()
                .map(|line| line.name.as_str())
                .collect::<Vec<_>>(),
            ["busy", "idle", "unknown"]
        );
        sort(&mut lines, TopOrder::Name);
        assert_eq!(lines[0].name, "busy");
    }
}
