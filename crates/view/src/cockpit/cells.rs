//! Builds the cells of the cockpit's lists, each a text with a color.

use ratatui::style::{Color, Style};

use crate::format::coverage::{memory_of, percent};
use gpuctl_core::model::{Figures, Percent, Watts};

/// The meaning of a cell's color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tint {
    #[default]
    Usual,
    Good,
    Waiting,
    Bad,
    Dim,
}

/// Converts a tint to a ratatui style. Without colors, every tint has the default style.
pub(super) fn style(tint: Tint, color: bool) -> Style {
    match tint {
        _ if !color => Style::new(),
        Tint::Usual => Style::new(),
        Tint::Good => Style::new().fg(Color::Green),
        Tint::Waiting => Style::new().fg(Color::Yellow),
        Tint::Bad => Style::new().fg(Color::Red),
        Tint::Dim => Style::new().fg(Color::DarkGray),
    }
}

/// Returns the tint of a utilization: red below 5 %, yellow below 40 %, green above, dim if
/// unknown.
pub(super) fn tint_of(utilization: Option<Percent>) -> Tint {
    match utilization {
        None => Tint::Dim,
        Some(Percent(value)) if value < 5.0 => Tint::Bad,
        Some(Percent(value)) if value < 40.0 => Tint::Waiting,
        Some(_) => Tint::Good,
    }
}

pub(super) fn utilization(figures: &Figures) -> (String, Tint) {
    (percent(figures.utilization), tint_of(figures.utilization))
}

pub(super) fn watts(figures: &Figures) -> (String, Tint) {
    (
        figures
            .power_in_all
            .map_or_else(|| "-".to_owned(), |Watts(watts)| format!("{watts:.0}")),
        Tint::Usual,
    )
}

pub(super) fn memory(figures: &Figures) -> (String, Tint) {
    (
        memory_of(figures).unwrap_or_else(|| "-".to_owned()),
        Tint::Usual,
    )
}

pub(super) fn plain(text: impl Into<String>) -> (String, Tint) {
    (text.into(), Tint::Usual)
}
