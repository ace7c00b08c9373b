//! Renders lists in columns: aligned for people, bare for pipes, CSV for programs.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};
use unicode_width::UnicodeWidthStr;

use super::text::clean;
use super::{Format, TextStyle, text};
use colored::Color;

/// One cell: what it says and how it may be colored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    #[must_use]
    pub(crate) fn colored(text: impl Into<String>, color: Option<Color>) -> Self {
        Self { text: text.into(), color }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), color: None }
    }
}

/// A column's title and side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub title: &'static str,
    pub right: bool,
    /// Left out where a terminal is too narrow for it.
    pub yields: bool,
}

impl Column {
    #[must_use]
    pub(crate) const fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }
}

#[must_use]
pub(crate) const fn left(title: &'static str) -> Column {
    Column { title, right: false, yields: false }
}

#[must_use]
pub(crate) const fn right(title: &'static str) -> Column {
    Column { title, right: true, yields: false }
}

/// Rows under titles.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    #[must_use]
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(cells);
    }

    /// Returns the table in the format asked for.
    #[must_use]
    pub(crate) fn show(&self, format: Format, headers: bool, look: TextStyle) -> String {
        if format == Format::Csv { self.csv(headers, look) } else { self.aligned(format, headers, look) }
    }

    /// Returns the columns that `width` has room for: those that yield go from the right on.
    fn fitting(&self, width: usize) -> Vec<usize> {
        let widest = |index: usize| {
            let cells = self.rows.iter().map(|row| clean(&row[index].text).width());
            cells.chain([self.columns[index].title.width()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while shown.iter().map(|index| widths[*index] + 1).sum::<usize>() > width + 1 {
            let Some(place) = shown.iter().rposition(|index| self.columns[*index].yields) else { break };
            shown.remove(place);
        }
        shown
    }

    fn aligned(&self, format: Format, headers: bool, look: TextStyle) -> String {
        let shown = match look.width.filter(|_| format == Format::Table) {
            Some(width) => self.fitting(width),
            None => (0..self.columns.len()).collect(),
        };
        let mut builder = Builder::default();
        if headers {
            builder.push_record(shown.iter().map(|index| self.columns[*index].title));
        }
        for row in &self.rows {
            builder.push_record(shown.iter().map(|index| {
                let cell = &row[*index];
                let text = clean(&cell.text);
                let text = if text.is_empty() { "-" } else { &text };
                text::paint(text, cell.color, look)
            }));
        }
        let mut table = builder.build();
        table.with(Style::empty()).with(Padding::new(0, 1, 0, 0));
        for (index, _) in shown.iter().enumerate().filter(|(_, column)| self.columns[**column].right) {
            table.modify(Columns::one(index), Alignment::right());
        }
        let mut result = String::new();
        for line in table.to_string().lines() {
            result.push_str(line.trim_end());
            result.push('\n');
        }
        if self.rows.is_empty() && !headers { String::new() } else { result }
    }

    /// Formats as CSV. Unknown cells are empty: `-` is for people.
    fn csv(&self, headers: bool, look: TextStyle) -> String {
        let titles = || self.columns.iter().map(|column| column.title.to_lowercase().replace(' ', "_")).collect();
        let cells =
            |row: &Vec<Cell>| row.iter().map(|cell| if cell.text == "-" { String::new() } else { cell.text.clone() }).collect();
        super::csv::records(headers.then(titles).into_iter().chain(self.rows.iter().map(cells)), look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: TextStyle = TextStyle { width: None, color: false, plain: false };

    fn table() -> Table {
        let mut table = Table::new([left("NAME"), right("GPU")]);
        table.row(vec!["qwen2".into(), "16".into()]);
        table.row(vec!["模型,a\u{1b}".into(), "-".into()]);
        table
    }

    #[test]
    fn columns_align_by_what_a_terminal_shows() {
        assert_eq!(table().show(Format::Table, true, LOOK), "NAME         GPU\nqwen2         16\n模型,a\\u{1b}   -\n");
        assert_eq!(table().show(Format::Table, false, LOOK).lines().count(), 2);
    }

    #[test]
    fn columns_that_yield_go_where_there_is_no_room() {
        let mut table = Table::new([left("NAME"), right("CPU").yielding(), right("GPU"), left("ABOUT").yielding()]);
        table.row(vec!["模型".into(), "12%".into(), "8".into(), "text".into()]);
        let first = |width| {
            let text = table.show(Format::Table, true, TextStyle { width: Some(width), ..LOOK });
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        // 4 + 3 + 3 + 5 characters and a space between each.
        assert_eq!((first(18), first(17)), ("NAME CPU GPU ABOUT".to_owned(), "NAME CPU GPU".to_owned()));
        assert_eq!((first(11), first(5)), ("NAME GPU".to_owned(), "NAME GPU".to_owned()));
        assert!(table.show(Format::Wide, true, TextStyle { width: Some(5), ..LOOK }).contains("ABOUT"));
    }

    #[test]
    fn csv_quotes_and_leaves_unknown_empty() {
        assert_eq!(table().show(Format::Csv, true, LOOK), "name,gpu\nqwen2,16\n\"模型,a\u{1b}\",\n");
    }
}
