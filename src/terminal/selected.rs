//! Prints the parts of JSON output that `-o jsonpath` or `-o custom-columns` selects. Commands
//! print whole documents, independent of the selection.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::{Deserializer, Value};

use gpuctl_core::error::{Error, ErrorName};
use gpuctl_manifest::spec::nearest;
use gpuctl_view::TextStyle;
use gpuctl_view::format::selection::OutputSelection;

/// Selection for all output of this run.
#[derive(Debug)]
pub(super) struct SelectedOutput {
    selection: OutputSelection,
    /// Whether the next output begins with column titles. A stream prints them once.
    headers: Cell<bool>,
    /// Whether the fields of the columns have been checked.
    is_checked: Cell<bool>,
}

impl SelectedOutput {
    pub(super) fn new(selection: OutputSelection, headers: bool) -> Self {
        Self {
            selection,
            headers: Cell::new(headers),
            is_checked: Cell::default(),
        }
    }

    /// Applies the selection to the output of a command. Calls `warn` with a message and a hint.
    pub(super) fn apply<'t>(
        &self,
        text: &'t str,
        style: TextStyle,
        warn: impl Fn(&str, String),
    ) -> Result<Cow<'t, str>, Error> {
        let documents: Result<Vec<Value>, _> = Deserializer::from_str(text).into_iter().collect();
        // Some options print text instead of JSON, such as the queries of `report`.
        let Ok(documents) = documents else {
            return Ok(Cow::Borrowed(text));
        };
        // A stream contains one object per line. Print each selected part as a line, too, although
        // kubectl does not add line feeds.
        let is_stream =
            documents.iter().all(Value::is_object) && text.lines().count() == documents.len();
        let mut result = String::new();
        for document in &documents {
            if !self.is_checked.replace(true)
                && let Some((message, hint)) = self.unknown_column(document)
            {
                warn(&message, hint);
            }
            let part = self
                .selection
                .render(document, self.headers.replace(false), style)
                .map_err(|error| Error::new(ErrorName::SelectionFailed, error.to_string()))?;
            result.push_str(&part);
            if is_stream && !part.ends_with('\n') {
                result.push('\n');
            }
        }
        Ok(Cow::Owned(result))
    }

    /// Returns a warning and a hint about a column that is `<none>` in every row, whose field may
    /// be misspelled.
    fn unknown_column(&self, document: &Value) -> Option<(String, String)> {
        let (key, fields) = self.selection.unknown_column(document)?;
        let hint = match nearest(key, &fields) {
            Some(suggestion) => format!("did you mean `.{suggestion}`?"),
            None => format!("fields: {}", fields.join(", ")),
        };
        Some((format!("the output has no field `{key}`"), hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(option: &str, text: &str) -> (String, usize) {
        let selection = OutputSelection::parse(option).unwrap().unwrap();
        let selected = SelectedOutput::new(selection, true);
        let style = TextStyle {
            width: None,
            color: false,
            plain: false,
        };
        let warnings = Cell::new(0);
        let count = |_: &str, _: String| warnings.set(warnings.get() + 1);
        let result = selected.apply(text, style, count).unwrap().into_owned();
        (result, warnings.get())
    }

    #[test]
    fn documents_end_no_line_but_each_object_of_a_stream_does() {
        let document = "{\n  \"a\": 1\n}\n";
        assert_eq!(apply("jsonpath={.a}", document), ("1".into(), 0));
        let stream = "{\"a\":1}\n{\"a\":2}\n";
        assert_eq!(apply("jsonpath={.a}", stream), ("1\n2\n".into(), 0));
        assert_eq!(
            apply("custom-columns=A:.a", stream),
            ("A\n1\n2\n".into(), 0)
        );
    }

    #[test]
    fn unknown_columns_are_reported_and_other_text_is_unchanged() {
        let document = "{\n  \"name\": 1\n}\n";
        assert_eq!(
            apply("custom-columns=N:.nmae", document),
            ("N\n<none>\n".into(), 1)
        );
        assert_eq!(
            apply("jsonpath={.a}", "# held\nsum(x)\n").0,
            "# held\nsum(x)\n"
        );
    }
}
