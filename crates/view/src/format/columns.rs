//! Renders `-o custom-columns`: fields of the JSON output of any list, under titles that the user
//! chooses.

use serde_json::Value;

use super::table::{Table, left};
use crate::{Format, TextStyle};

/// A column: its title, and the path of keys to its field, outermost key first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomColumn {
    pub title: String,
    pub path: Vec<String>,
}

/// Finds the first column whose outermost key does not exist in the rows, and lists the keys that
/// exist.
///
/// Returns `None` if all of them exist, or if there are no rows to check.
pub fn unknown<'c, 'r>(
    columns: &'c [CustomColumn],
    rows: &'r [Value],
) -> Option<(&'c str, Vec<&'r str>)> {
    let fields: Vec<&str> = rows
        .first()?
        .as_object()?
        .keys()
        .map(String::as_str)
        .collect();
    let first = columns
        .iter()
        .map(|column| column.path[0].as_str())
        .find(|key| !fields.contains(key))?;
    Some((first, fields))
}

/// Renders the fields of the rows. Missing and null fields are `-`.
pub fn table(rows: &[Value], columns: &[CustomColumn], headers: bool, style: TextStyle) -> String {
    // Column titles must be `&'static str`, but the user chose these, so they form an ordinary row.
    let mut table = Table::new(columns.iter().map(|_| left("")));
    if headers {
        table.row(
            columns
                .iter()
                .map(|column| column.title.as_str().into())
                .collect(),
        );
    }
    for row in rows {
        let cell = |column: &CustomColumn| match column
            .path
            .iter()
            .try_fold(row, |value, key| value.get(key))
        {
            None | Some(Value::Null) => "-".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        table.row(columns.iter().map(|column| cell(column).into()).collect());
    }
    table.show(Format::Table, false, style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_found_by_their_path_and_unknown_ones_named() {
        let rows = [json!({"name": "a", "stat": {"gpu": 2}, "pool": null})];
        let column = |title: &str, path: &[&str]| CustomColumn {
            title: title.to_owned(),
            path: path.iter().map(|key| (*key).to_owned()).collect(),
        };
        let columns = [
            column("N", &["name"]),
            column("GPUS", &["stat", "gpu"]),
            column("P", &["pool"]),
        ];
        let style = TextStyle {
            width: None,
            color: false,
            plain: false,
        };
        assert_eq!(table(&rows, &columns, true, style), "N GPUS P\na 2    -\n");
        assert_eq!(unknown(&columns, &rows), None);
        assert_eq!(
            unknown(&[column("X", &["nmae"])], &rows),
            Some(("nmae", vec!["name", "stat", "pool"]))
        );
        assert_eq!(unknown(&[column("X", &["nmae"])], &[]), None);
    }
}
