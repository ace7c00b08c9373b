//! A pane of the cockpit, with the output of a command as it arrives.

use std::borrow::Cow;

use crate::format::text::clean;

/// Maximum number of lines. Older lines are dropped.
const MOST: usize = 10_000;

/// The output of a command.
#[derive(Clone, Debug, Default)]
pub struct Pane {
    /// The command line, as a user would type it.
    pub title: String,
    lines: Vec<String>,
    /// Index of the first visible line, or `None` while the pane follows the output.
    top: Option<usize>,
    /// How the command ended, or `None` while it runs.
    pub ended: Option<String>,
    /// Size of the pane when it was last drawn.
    width: usize,
    rows: usize,
}

impl Pane {
    /// Creates an empty pane. With `follows`, it scrolls to new output, as suits logs.
    pub fn new(title: String, width: usize, follows: bool) -> Self {
        Self {
            title,
            width,
            top: (!follows).then_some(0),
            ..Self::default()
        }
    }

    /// Appends a line, wrapped at the pane's width.
    pub fn push(&mut self, line: &str) {
        // Indent continuation lines like the line itself, up to half the width.
        let indent = " ".repeat(
            line.chars()
                .take_while(|letter| *letter == ' ')
                .count()
                .min(self.width / 2),
        );
        let options = textwrap::Options::new(self.width.max(20)).subsequent_indent(&indent);
        self.lines.extend(
            textwrap::wrap(&clean(line), options)
                .into_iter()
                .map(Cow::into_owned),
        );
        let surplus = self.lines.len().saturating_sub(MOST);
        if surplus > 0 {
            // Adjust the scroll position, so that the same lines remain visible.
            self.lines.drain(..surplus);
            self.top = self.top.map(|top| top.saturating_sub(surplus));
        }
    }

    /// Scrolls by a number of lines. Scrolling past the end makes the pane follow the output.
    pub(crate) fn scroll(&mut self, offset: isize) {
        let last = self.last();
        let top = self.top.unwrap_or(last).saturating_add_signed(offset);
        self.top = (top < last || offset <= 0).then_some(top.min(last));
    }

    pub(crate) fn show_start(&mut self) {
        self.top = Some(0);
    }

    pub(crate) fn show_end(&mut self) {
        self.top = None;
    }

    /// Returns the number of lines that a page scrolls.
    pub fn page(&self) -> isize {
        isize::try_from(self.rows.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Returns the lines visible in a pane of this size, and stores the size.
    pub(crate) fn visible_lines(&mut self, width: usize, rows: usize) -> &[String] {
        (self.width, self.rows) = (width, rows);
        let top = self.top.unwrap_or_else(|| self.last()).min(self.last());
        &self.lines[top..(top + rows).min(self.lines.len())]
    }

    fn last(&self) -> usize {
        self.lines.len().saturating_sub(self.rows.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_stops_when_the_user_scrolls_back() {
        let mut pane = Pane::new("gpuctl logs a".to_owned(), 40, true);
        (0..10).for_each(|number| pane.push(&number.to_string()));
        assert_eq!(pane.visible_lines(40, 3), ["7", "8", "9"]);
        pane.scroll(-2);
        assert_eq!(pane.visible_lines(40, 3), ["5", "6", "7"]);
        pane.push("10");
        assert_eq!(
            pane.visible_lines(40, 3),
            ["5", "6", "7"],
            "it stays where it was put"
        );
        pane.scroll(100);
        pane.push("11");
        assert_eq!(pane.visible_lines(40, 3), ["9", "10", "11"]);
        pane.show_start();
        assert_eq!(pane.visible_lines(40, 3), ["0", "1", "2"]);
        (0..MOST).for_each(|_| pane.push("x"));
        assert_eq!(
            (pane.lines.len(), pane.visible_lines(40, 2)),
            (MOST, &["x".to_owned(), "x".to_owned()][..])
        );
    }
}
