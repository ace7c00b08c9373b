//! Renders CSV as in RFC 4180, with line feeds: the columns of a table, or every field of rows.

use csv::{Terminator, WriterBuilder};
use serde::Serialize;
use serde_json::Value;

use super::TextStyle;
use super::text::clean;

/// Renders records. On a terminal control characters are made visible; a pipe gets the strings as they are.
///
/// # Panics
/// Never: the writer is a vector.
#[must_use]
pub(crate) fn records(records: impl IntoIterator<Item = Vec<String>>, look: TextStyle) -> String {
    let mut writer = WriterBuilder::new().terminator(Terminator::Any(b'\n')).flexible(true).from_writer(Vec::new());
    for record in records {
        let cells = record.iter().map(|cell| if look.width.is_some() { clean(cell) } else { cell.as_str().into() });
        writer.write_record(cells.map(|cell| cell.into_owned().into_bytes())).expect("a vector takes every record");
    }
    let bytes = writer.into_inner().expect("a vector is flushed");
    String::from_utf8(bytes).expect("cells are text")
}

/// Renders every field of every row; maps and lists are JSON in their cell, unknown values are empty.
///
/// # Panics
/// Never: our rows are JSON objects.
#[must_use]
pub(crate) fn rows<T: Serialize>(rows: &[T], headers: bool, look: TextStyle) -> String {
    let rows: Vec<Value> = rows.iter().map(|row| serde_json::to_value(row).expect("our structs are JSON")).collect();
    let Some(keys) = rows.first().and_then(Value::as_object).map(|row| row.keys().cloned().collect::<Vec<String>>()) else {
        return String::new();
    };
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let lines = rows.iter().map(|row| keys.iter().map(|key| cell(&row[key])).collect());
    records(headers.then(|| keys.clone()).into_iter().chain(lines), look)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_quoted_and_a_terminal_gets_no_control_characters() {
        let row = json!({"name": "a,\"b\"\u{1b}[2J", "labels": {"x": 1}, "gpu": null, "n": 1.5});
        let pipe = TextStyle { width: None, color: false, plain: false };
        assert_eq!(
            rows(std::slice::from_ref(&row), true, pipe),
            "name,labels,gpu,n\n\"a,\"\"b\"\"\u{1b}[2J\",\"{\"\"x\"\":1}\",,1.5\n"
        );
        assert!(!rows(&[row], true, TextStyle { width: Some(80), ..pipe }).contains('\u{1b}'));
        assert_eq!(rows::<Value>(&[], true, pipe), "");
    }
}
