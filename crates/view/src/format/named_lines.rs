//! Builds the text of descriptions, with a name and a value on each line.

use super::text::{status_line, wrapped};
use crate::TextStyle;

/// Column of the values.
const VALUE_COLUMN: usize = 15;

/// A heading and the lines below it.
pub(crate) struct NamedLines {
    text: String,
    style: TextStyle,
}

impl NamedLines {
    /// Starts with a heading, which must end with a line break.
    pub(crate) fn below(heading: String, style: TextStyle) -> Self {
        Self {
            text: heading,
            style,
        }
    }

    /// Adds a line, wrapping a long value.
    pub(crate) fn add(&mut self, name: &str, value: impl AsRef<str>) {
        let value = wrapped(value.as_ref(), VALUE_COLUMN, self.style);
        self.text.push_str(&status_line(name, &value));
    }

    /// Adds a line if the value is known.
    pub(crate) fn add_known(&mut self, name: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds a line with several values unless there are none.
    pub(crate) fn add_list(&mut self, name: &str, values: &[String]) {
        if !values.is_empty() {
            self.add(name, values.join(", "));
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}
