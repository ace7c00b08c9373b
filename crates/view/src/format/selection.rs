//! Selects parts of the JSON output, for `-o jsonpath` and `-o custom-columns`.

use serde_json::Value;

use super::columns::{self, ColumnMistake, CustomColumn};
use super::jsonpath::{JsonPath, JsonPathFailure, JsonPathMistake};
use crate::TextStyle;

/// Fields that contain the rows of list documents.
const ROWS: [&str; 3] = ["items", "data", "gpus"];

/// Which parts of the JSON output to print.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputSelection {
    JsonPath(JsonPath),
    Columns(Vec<CustomColumn>),
}

/// Why a selection is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionMistake {
    /// The option has nothing after `=`.
    Empty,
    JsonPath(JsonPathMistake),
    Columns(ColumnMistake),
}

impl std::fmt::Display for SelectionMistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("expected a template such as jsonpath='{.items[*].name}'"),
            Self::JsonPath(mistake) => mistake.fmt(f),
            Self::Columns(mistake) => mistake.fmt(f),
        }
    }
}

impl std::error::Error for SelectionMistake {}

impl OutputSelection {
    /// Prefixes of `-o` values that select parts.
    pub const PREFIXES: [&str; 2] = ["jsonpath=", "custom-columns="];

    /// Parses a value of `-o`. Returns `None` if the format prints the entire output.
    pub fn parse(option: &str) -> Option<Result<Self, SelectionMistake>> {
        let [jsonpath, columns] = Self::PREFIXES.map(|prefix| option.strip_prefix(prefix));
        if let Some(template) = jsonpath {
            return Some(match template {
                "" => Err(SelectionMistake::Empty),
                _ => JsonPath::parse(template)
                    .map(Self::JsonPath)
                    .map_err(SelectionMistake::JsonPath),
            });
        }
        let parsed = columns::parse(columns?).map(Self::Columns);
        Some(parsed.map_err(SelectionMistake::Columns))
    }

    /// Renders the selected parts of a document. Titles of columns are included if `headers` is
    /// set.
    pub fn render(
        &self,
        document: &Value,
        headers: bool,
        style: TextStyle,
    ) -> Result<String, JsonPathFailure> {
        match self {
            Self::JsonPath(path) => path.render(document),
            Self::Columns(columns) => columns::table(&rows(document), columns, headers, style),
        }
    }

    /// Returns the first column whose field does not exist, and the existing fields.
    pub fn unknown_column<'s, 'd>(
        &'s self,
        document: &'d Value,
    ) -> Option<(&'s str, Vec<&'d str>)> {
        match self {
            Self::JsonPath(_) => None,
            Self::Columns(columns) => columns::unknown(columns, &rows(document)),
        }
    }
}

/// Returns the rows of a list document. Any other document is one row.
fn rows(document: &Value) -> Vec<&Value> {
    let rows = ROWS.iter().find_map(|key| document.get(key)?.as_array());
    match document.as_array().or(rows) {
        Some(rows) => rows.iter().collect(),
        None => vec![document],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(option: &str, document: &Value) -> String {
        let style = TextStyle {
            width: None,
            color: false,
            plain: false,
        };
        let selection = OutputSelection::parse(option).unwrap().unwrap();
        selection.render(document, true, style).unwrap()
    }

    #[test]
    fn lists_have_a_row_per_entry_and_other_documents_one_row() {
        let row = json!({"name": "a"});
        for list in [
            json!([row]),
            json!({"total": 1, "items": [row]}),
            json!({"data": [row]}),
        ] {
            assert_eq!(render("custom-columns=N:.name", &list), "N\na\n", "{list}");
        }
        assert_eq!(render("custom-columns=N:.name", &row), "N\na\n");
        assert_eq!(render("custom-columns=N:.name", &json!([])), "N\n");
        assert_eq!(render("jsonpath={.name}", &row), "a");
    }

    #[test]
    fn only_selections_are_parsed() {
        assert_eq!(OutputSelection::parse("json"), None);
        assert_eq!(
            OutputSelection::parse("jsonpath="),
            Some(Err(SelectionMistake::Empty))
        );
        let mistake = OutputSelection::parse("jsonpath={.a").unwrap().unwrap_err();
        assert_eq!(mistake.to_string(), "`{` has no `}` at character 1");
    }
}
