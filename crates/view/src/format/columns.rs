//! Parses and renders `-o custom-columns`, which prints fields of the JSON output under custom
//! titles.

use serde_json::Value;

use super::jsonpath::{JsonPath, JsonPathFailure, JsonPathMistake};
use super::table::{Table, left};
use super::text::clean;
use crate::{Format, TextStyle, json_line};

/// A column with its title and the JSONPath of its field.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumn {
    pub title: String,
    pub path: JsonPath,
}

/// Why a list of columns is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnMistake {
    /// The column has no title or no field.
    Incomplete { column: String },
    Field {
        title: String,
        mistake: JsonPathMistake,
    },
}

impl std::fmt::Display for ColumnMistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Incomplete { column } => {
                write!(f, "expected TITLE:.field, found `{}`", clean(column))
            }
            Self::Field { title, mistake } => {
                write!(f, "the field of {}: {mistake}", clean(title))
            }
        }
    }
}

impl std::error::Error for ColumnMistake {}

/// Parses `TITLE:.field,TITLE:.field`.
pub fn parse(text: &str) -> Result<Vec<CustomColumn>, ColumnMistake> {
    split(text).into_iter().map(column).collect()
}

fn column(text: &str) -> Result<CustomColumn, ColumnMistake> {
    let parts = text
        .split_once(':')
        .filter(|(title, field)| !title.is_empty() && !field.is_empty());
    let (title, field) = parts.ok_or_else(|| ColumnMistake::Incomplete {
        column: text.to_owned(),
    })?;
    let path = JsonPath::parse_field(field).map_err(|mistake| ColumnMistake::Field {
        title: title.to_owned(),
        mistake,
    })?;
    Ok(CustomColumn {
        title: title.to_owned(),
        path,
    })
}

/// Splits at commas, except those of unions in brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (index, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Returns the first column whose outermost field does not exist in any row, and the existing
/// fields.
///
/// Returns `None` if every field exists or there are no rows.
pub fn unknown<'c, 'r>(
    columns: &'c [CustomColumn],
    rows: &[&'r Value],
) -> Option<(&'c str, Vec<&'r str>)> {
    let mut fields: Vec<&str> = Vec::new();
    for row in rows {
        for key in row.as_object().into_iter().flat_map(|row| row.keys()) {
            if !fields.contains(&key.as_str()) {
                fields.push(key);
            }
        }
    }
    let first = columns
        .iter()
        .filter_map(|column| column.path.first_field())
        .find(|key| !fields.contains(key))?;
    (!fields.is_empty()).then_some((first, fields))
}

/// Renders the fields of the rows. As in kubectl, missing fields are `<none>`, and several values
/// are joined with commas.
pub fn table(
    rows: &[&Value],
    columns: &[CustomColumn],
    headers: bool,
    style: TextStyle,
) -> Result<String, JsonPathFailure> {
    // Render the titles as an ordinary row, because titles of columns must be `&'static str`.
    let mut table = Table::new(columns.iter().map(|_| left("")));
    if headers {
        let title = |column: &CustomColumn| column.title.as_str().into();
        table.row(columns.iter().map(title).collect());
    }
    for row in rows {
        let cells = columns.iter().map(|column| cell(row, column));
        let cells: Result<Vec<String>, JsonPathFailure> = cells.collect();
        table.row(cells?.into_iter().map(Into::into).collect());
    }
    Ok(table.show(Format::Table, false, style))
}

fn cell(row: &Value, column: &CustomColumn) -> Result<String, JsonPathFailure> {
    const NONE: &str = "<none>";
    let values = column.path.values(row)?;
    if values.is_empty() {
        return Ok(NONE.to_owned());
    }
    let text = |value: &&Value| match value {
        Value::Null => NONE.to_owned(),
        Value::String(text) => text.clone(),
        other => json_line(other),
    };
    Ok(values.iter().map(text).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STYLE: TextStyle = TextStyle {
        width: None,
        color: false,
        plain: false,
    };

    #[test]
    fn columns_are_titles_and_paths() {
        let rows = [
            json!({"name": "a", "stat": {"gpu": 2}, "pool": null, "pods": [{"n": 1}, {"n": 2}]}),
            json!({"name": "b", "note": "x,y"}),
        ];
        let rows: Vec<&Value> = rows.iter().collect();
        let columns =
            parse("N:.name,GPUS:stat.gpu,P:{.pool},ALL:.pods[*].n,U:.stat['gpu','x']").unwrap();
        assert_eq!(
            table(&rows, &columns, true, STYLE).as_deref(),
            Ok("N GPUS   P      ALL    U\n\
                a 2      <none> 1,2    2\n\
                b <none> <none> <none> <none>\n")
        );
        assert_eq!(unknown(&columns, &rows), None);
        let misspelled = parse("X:.nmae").unwrap();
        let fields = vec!["name", "stat", "pool", "pods", "note"];
        assert_eq!(unknown(&misspelled, &rows), Some(("nmae", fields)));
        assert_eq!(unknown(&misspelled, &[]), None);
    }

    #[test]
    fn incomplete_columns_are_named() {
        for (invalid, named) in [
            ("", "``"),
            ("NAME", "`NAME`"),
            ("NAME:", "`NAME:`"),
            (":.a", "`:.a`"),
            ("A:.a,,B:.b", "``"),
        ] {
            let error = parse(invalid).expect_err(invalid).to_string();
            assert_eq!(error, format!("expected TITLE:.field, found {named}"));
        }
        let error = parse("A:.a[x").expect_err("a mistake").to_string();
        assert!(
            error.starts_with("the field of A: `[` has no `]`"),
            "{error}"
        );
    }
}
