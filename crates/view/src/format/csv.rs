//! Renders CSV as in RFC 4180, except that lines end with a line feed. A record has the columns of
//! a table or all fields of a row.
//!
//! Control characters are escaped, and text that a spreadsheet would evaluate as a formula gets a
//! leading apostrophe (OWASP, "CSV Injection").

use std::borrow::Cow;

use csv::{Terminator, WriterBuilder};
use serde::Serialize;
use serde_json::Value;

use super::text::clean;

/// Renders records as CSV, one per line.
pub fn records(records: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut writer = WriterBuilder::new()
        .terminator(Terminator::Any(b'\n'))
        .flexible(true)
        .from_writer(Vec::new());
    for record in records {
        let cells = record.iter().map(|cell| defused(clean(cell)));
        writer
            .write_record(cells.map(|cell| cell.into_owned().into_bytes()))
            .expect("a vector takes every record");
    }
    let bytes = writer.into_inner().expect("a vector is flushed");
    String::from_utf8(bytes).expect("cells are text")
}

/// Adds an apostrophe before text that a spreadsheet would evaluate as a formula. Numbers are
/// unchanged, including negative numbers with a unit.
fn defused(cell: Cow<'_, str>) -> Cow<'_, str> {
    // An amount may have a unit, but no operator or parenthesis.
    let is_amount = |rest: &str| {
        rest.starts_with(|first: char| first.is_ascii_digit() || first == '.')
            && rest
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || ".%: ".contains(letter))
    };
    let starts_formula = match cell.chars().next() {
        // Formulas can also start with tabs and carriage returns, which `clean` has already
        // replaced.
        Some('=' | '@') => true,
        // A single dash is an unknown value.
        Some('+' | '-') => cell.len() > 1 && !is_amount(&cell[1..]),
        _ => false,
    };
    if starts_formula {
        format!("'{cell}").into()
    } else {
        cell
    }
}

/// Renders all fields of the rows. Maps and lists are JSON, and unknown values are empty.
pub fn rows<T: Serialize>(rows: &[T], headers: bool) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::to_value(row).expect("our structs are JSON"))
        .collect();
    // The header is the fields of the first row, because all rows have the same type.
    let Some(keys) = rows
        .first()
        .and_then(Value::as_object)
        .map(|row| row.keys().cloned().collect::<Vec<String>>())
    else {
        return String::new();
    };
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let lines = rows
        .iter()
        .map(|row| keys.iter().map(|key| cell(&row[key])).collect());
    records(headers.then(|| keys.clone()).into_iter().chain(lines))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_quoted_and_have_no_control_characters() {
        let row = json!({"name": "a,\"b\"\u{1b}[2J", "labels": {"x": 1}, "gpu": null, "n": 1.5});
        assert_eq!(
            rows(&[row], true),
            "name,labels,gpu,n\n\"a,\"\"b\"\"\\u{1b}[2J\",\"{\"\"x\"\":1}\",,1.5\n"
        );
        assert_eq!(rows::<Value>(&[], true), "");
    }

    #[test]
    fn formulas_are_texts_and_numbers_are_numbers() {
        for formula in [
            "=cmd|' /C calc'!A0",
            "@SUM(A1)",
            "+1+1",
            "-1-cmd",
            "-(1)",
            "=1",
            "\t=1",
            "\r=1",
        ] {
            let cell = records([vec![formula.to_owned()]]);
            assert!(
                !cell
                    .trim_start_matches('"')
                    .starts_with(['=', '@', '+', '-', '\t', '\r']),
                "{formula:?} became {cell}"
            );
        }
        for amount in ["-1.5", "-3h 20m", "+2", "-12%", "-", "1-2", "a=b"] {
            assert_eq!(records([vec![amount.to_owned()]]), format!("{amount}\n"));
        }
    }
}
