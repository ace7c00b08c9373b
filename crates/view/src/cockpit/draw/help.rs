//! Draws the help popup with the list of keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use crate::cockpit::keys::HELP;

pub(super) fn draw_help(frame: &mut Frame<'_>) {
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(key, action)| Line::from(format!(" {key:<12} {action}")))
        .collect();
    let widest = HELP
        .iter()
        .map(|(_, action)| action.width() + 16)
        .max()
        .unwrap_or(40);
    let area = frame.area();
    let (width, height) = (
        u16::try_from(widest).unwrap_or(u16::MAX).min(area.width),
        u16::try_from(HELP.len() + 2)
            .unwrap_or(u16::MAX)
            .min(area.height),
    );
    let popup = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    // Clear the area first, because the list would show through the popup.
    frame.render_widget(Clear, popup);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" keys ")),
        popup,
    );
}
