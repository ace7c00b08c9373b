//! Renders lists as tables: aligned for a terminal, one row per line for pipes, or CSV.

use jiff::Timestamp;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};
use unicode_width::UnicodeWidthStr;

use super::row_contexts::RowContexts;
use super::text;
use super::text::clean;
use crate::{Format, TextStyle};
use colored::Color;

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    color: Option<Color>,
    /// Value for CSV: a number in the unit of the column's header.
    number: Option<String>,
}

impl Cell {
    pub fn colored(text: impl Into<String>, color: Option<Color>) -> Self {
        Self {
            text: text.into(),
            color,
            number: None,
        }
    }

    /// Creates a cell with a number for CSV. The CSV value of `None` is empty.
    pub fn measured(text: impl Into<String>, number: Option<impl ToString>) -> Self {
        let number = number.map(|number| number.to_string());
        Self {
            text: text.into(),
            color: None,
            number: Some(number.unwrap_or_default()),
        }
    }

    /// Creates a cell with the age of a time: in one unit as text, and in seconds in CSV.
    pub fn age(from: Option<Timestamp>, now: Timestamp) -> Self {
        Self::measured(
            text::age(from, now),
            from.map(|from| now.duration_since(from).as_secs().max(0)),
        )
    }

    /// Returns the value for CSV, whose header names the unit.
    fn plain(&self, column: &Column) -> String {
        match &self.number {
            Some(number) => number.clone(),
            None if self.text == "-" => String::new(),
            None if column.percentage => self.text.trim_end_matches('%').to_owned(),
            None => self.text.clone(),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            color: None,
            number: None,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    pub right: bool,
    /// Whether the column is hidden on a terminal that is too narrow.
    pub yields: bool,
    /// CSV header, if it differs from the title, for example because it names the unit.
    pub in_csv: Option<&'static str>,
    /// Whether the text of cells ends with `%`, which the header names in CSV.
    percentage: bool,
}

impl Column {
    pub(crate) const fn yielding(self) -> Self {
        Self {
            yields: true,
            ..self
        }
    }

    pub(crate) const fn in_csv(self, header: &'static str) -> Self {
        Self {
            in_csv: Some(header),
            ..self
        }
    }

    /// Returns the CSV header: the title in lower case, with the unit of the values.
    fn header(&self) -> String {
        let name = || self.title.to_lowercase().replace(' ', "_");
        match self.in_csv {
            Some(header) => header.to_owned(),
            None if self.percentage => format!("{}_percent", name()),
            None => name(),
        }
    }
}

pub const fn left(title: &'static str) -> Column {
    Column {
        title,
        right: false,
        yields: false,
        in_csv: None,
        percentage: false,
    }
}

pub const fn right(title: &'static str) -> Column {
    Column {
        right: true,
        ..left(title)
    }
}

/// Creates a right-aligned column of percentages.
pub(crate) const fn percentages(title: &'static str) -> Column {
    Column {
        percentage: true,
        ..right(title)
    }
}

/// Column titles and rows.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// The format named in the note about hidden columns.
    all_columns_in: Option<&'static str>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            all_columns_in: None,
        }
    }

    /// Enables the note about hidden columns, with `-o wide` as the format.
    pub(crate) fn with_wide(self) -> Self {
        self.with_all_columns_in("wide")
    }

    /// Enables the note about hidden columns, with this format.
    pub(crate) fn with_all_columns_in(self, format: &'static str) -> Self {
        Self {
            all_columns_in: Some(format),
            ..self
        }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(
            cells.len(),
            self.columns.len(),
            "a row has a cell for every column"
        );
        self.rows.push(cells);
    }

    /// Adds a first column with the context of each row, if contexts are shown. A row after the
    /// last context is the total.
    pub(crate) fn with_contexts(mut self, contexts: RowContexts<'_>) -> Self {
        if contexts.is_shown() {
            self.columns.insert(0, left("CONTEXT"));
            for (row, cells) in self.rows.iter_mut().enumerate() {
                cells.insert(0, contexts.of(row).unwrap_or("total").into());
            }
        }
        self
    }

    /// Renders the table in the given format.
    pub fn show(&self, format: Format, headers: bool, style: TextStyle) -> String {
        if format == Format::Csv {
            self.csv(headers)
        } else {
            self.aligned(format, headers, style)
        }
    }

    /// Returns the natural width of each column.
    fn widths(&self) -> Vec<usize> {
        let widest = |index: usize| {
            // Measure the escaped text, which may be wider.
            let cells = self.rows.iter().map(|row| clean(&row[index].text).width());
            cells
                .chain([self.columns[index].title.width()])
                .max()
                .unwrap_or(0)
        };
        (0..self.columns.len()).map(widest).collect()
    }

    /// Returns the columns that fit into `width`, and their widths. Drops yielding columns from the
    /// right, then shortens long texts, and finally drops all but the first two columns from the
    /// right.
    fn fitting(&self, width: usize) -> (Vec<usize>, Vec<usize>) {
        /// Minimum width of a shortened name.
        const SHORTEST: usize = 12;
        let mut widths = self.widths();
        let mut visible: Vec<usize> = (0..self.columns.len()).collect();
        let sum = |shown: &[usize], widths: &[usize]| {
            shown.iter().map(|index| widths[*index] + 1).sum::<usize>()
        };
        // Each column except the last one is followed by a space.
        while sum(&visible, &widths) > width + 1 {
            if let Some(index) = visible
                .iter()
                .rposition(|index| self.columns[*index].yields)
            {
                visible.remove(index);
                continue;
            }
            let excess = sum(&visible, &widths) - width - 1;
            let texts = visible
                .iter()
                .copied()
                .filter(|index| !self.columns[*index].right);
            let widest = texts.max_by_key(|index| widths[*index]);
            match widest
                .filter(|index| widths[*index] > SHORTEST.max(self.columns[*index].title.width()))
            {
                Some(index) => {
                    let minimum = SHORTEST.max(self.columns[index].title.width());
                    widths[index] = widths[index].saturating_sub(excess).max(minimum);
                }
                None if visible.len() > 2 => {
                    visible.pop();
                }
                None => break,
            }
        }
        (visible, widths)
    }

    fn aligned(&self, format: Format, headers: bool, style: TextStyle) -> String {
        let (visible, widths) = match style.width.filter(|_| format == Format::Table) {
            Some(width) => self.fitting(width),
            None => (
                (0..self.columns.len()).collect(),
                vec![usize::MAX; self.columns.len()],
            ),
        };
        let mut builder = Builder::default();
        if headers {
            builder.push_record(visible.iter().map(|index| self.columns[*index].title));
        }
        for row in &self.rows {
            builder.push_record(visible.iter().map(|index| {
                let cell = &row[*index];
                let text = clean(&cell.text);
                // Treat text with spaces as a sentence, which is wrapped, and other text as a name,
                // which is shortened.
                let text = match visible.last() == Some(index)
                    && text.contains(' ')
                    && !self.columns[*index].right
                {
                    _ if text.is_empty() => "-".into(),
                    // Wrap a sentence in the last column at the column's width.
                    true => folded(&text, widths[*index]),
                    false => shortened(&text, widths[*index]),
                };
                // Add colors after shortening, because color sequences would count as characters.
                text::paint(&text, cell.color, style)
            }));
        }
        let mut table = builder.build();
        table.with(Style::empty()).with(Padding::new(0, 1, 0, 0));
        for (index, _) in visible
            .iter()
            .enumerate()
            .filter(|(_, column)| self.columns[**column].right)
        {
            table.modify(Columns::one(index), Alignment::right());
        }
        let mut result = String::new();
        for line in table.to_string().lines() {
            result.push_str(line.trim_end());
            result.push('\n');
        }
        if self.rows.is_empty() && !headers {
            return String::new();
        }
        if let Some(format) = self.all_columns_in
            && headers
            && visible.len() < self.columns.len()
        {
            let missing: Vec<&str> = (0..self.columns.len())
                .filter(|index| !visible.contains(index))
                .map(|index| self.columns[index].title)
                .collect();
            let note = format!("not shown: {} (-o {format})", missing.join(", "));
            result.push_str(&text::paint(&note, Some(Color::BrightBlack), style));
            result.push('\n');
        }
        result
    }

    /// Renders CSV, where unknown cells are empty instead of `-`.
    fn csv(&self, headers: bool) -> String {
        let titles = || self.columns.iter().map(Column::header).collect();
        let cells = |row: &Vec<Cell>| {
            row.iter()
                .zip(&self.columns)
                .map(|(cell, column)| cell.plain(column))
                .collect()
        };
        super::csv::records(
            headers
                .then(titles)
                .into_iter()
                .chain(self.rows.iter().map(cells)),
        )
    }
}

fn folded(text: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if text.width() <= width {
        text.into()
    } else {
        textwrap::fill(text, width).into()
    }
}

/// Shortens a text in the middle, because names often differ at both ends.
fn shortened(text: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if text.width() <= width {
        return text.into();
    }
    let chars: Vec<char> = text.chars().collect();
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    let take_chars = |chars: &mut dyn Iterator<Item = &char>, max_width: usize| {
        let mut width_so_far = 0;
        let fits = |c: &&char| {
            width_so_far += c.to_string().width();
            width_so_far <= max_width
        };
        chars.take_while(fits).copied().collect::<Vec<char>>()
    };
    let (head, mut tail) = (
        take_chars(&mut chars.iter(), head),
        take_chars(&mut chars.iter().rev(), tail),
    );
    tail.reverse();
    head.into_iter()
        .chain(['…'])
        .chain(tail)
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests;
