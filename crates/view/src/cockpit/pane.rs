//! A text in the cockpit: what another command answers, line by line as it comes.

use std::borrow::Cow;

use crate::format::text::clean;

/// Lines that are kept; older ones are forgotten.
const MOST: usize = 10_000;

/// What a command says.
#[derive(Clone, Debug, Default)]
pub struct Pane {
    /// The command as it would be typed.
    pub title: String,
    lines: Vec<String>,
    /// The first line that is shown; `None` follows the end.
    top: Option<usize>,
    /// How it ended; `None` while it goes on.
    pub ended: Option<String>,
    /// Columns and rows that it had when it was drawn last.
    width: usize,
    rows: usize,
}

impl Pane {
    /// Begins one. `follows` stays at the end, as for logs.
    pub fn new(title: String, width: usize, follows: bool) -> Self {
        Self {
            title,
            width,
            top: (!follows).then_some(0),
            ..Self::default()
        }
    }

    /// Adds a line, in pieces where it is too long.
    pub fn push(&mut self, line: &str) {
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
            self.lines.drain(..surplus);
            self.top = self.top.map(|top| top.saturating_sub(surplus));
        }
    }

    /// Scrolls by lines; past the end it follows again what comes.
    pub(crate) fn scroll(&mut self, by: isize) {
        let last = self.last();
        let top = self.top.unwrap_or(last).saturating_add_signed(by);
        self.top = (top < last || by <= 0).then_some(top.min(last));
    }

    pub(crate) fn show_start(&mut self) {
        self.top = Some(0);
    }

    pub(crate) fn show_end(&mut self) {
        self.top = None;
    }

    /// Rows of a page.
    pub fn page(&self) -> isize {
        isize::try_from(self.rows.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Returns the lines that are in sight where there is room for `rows`.
    pub(crate) fn in_sight(&mut self, width: usize, rows: usize) -> &[String] {
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
    fn it_follows_until_somebody_looks_back() {
        let mut pane = Pane::new("gpuctl logs a".to_owned(), 40, true);
        (0..10).for_each(|number| pane.push(&number.to_string()));
        assert_eq!(pane.in_sight(40, 3), ["7", "8", "9"]);
        pane.scroll(-2);
        assert_eq!(pane.in_sight(40, 3), ["5", "6", "7"]);
        pane.push("10");
        assert_eq!(
            pane.in_sight(40, 3),
            ["5", "6", "7"],
            "it stays where it was put"
        );
        pane.scroll(100);
        pane.push("11");
        assert_eq!(pane.in_sight(40, 3), ["9", "10", "11"]);
        pane.show_start();
        assert_eq!(pane.in_sight(40, 3), ["0", "1", "2"]);
        (0..MOST).for_each(|_| pane.push("x"));
        assert_eq!(
            (pane.lines.len(), pane.in_sight(40, 2)),
            (MOST, &["x".to_owned(), "x".to_owned()][..])
        );
    }
}
