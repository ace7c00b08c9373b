//! Explains values without quotes that YAML parses as fields.

/// Finds the value of the field in a line if the value contains another `: `, which YAML parses as
/// a nested field. `column` is the position of the syntax error. Returns the value and its column.
pub(super) fn unquoted_colon(line: &str, column: usize) -> Option<(&str, usize)> {
    let start = line.find(": ")? + 2;
    let value = line[start..].trim();
    let before = line[..start].chars().count();
    let is_plain = !value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '#']);
    let is_inside = value.contains(": ") && column > before;
    (is_plain && is_inside).then(|| (value, before + 1))
}

pub(super) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_values_with_a_colon_need_quotes() {
        let line = "  command: python x --name: y";
        assert_eq!(unquoted_colon(line, 27), Some(("python x --name: y", 12)));
        assert_eq!(quoted("it's"), "'it''s'");
        for line in ["a: b", "a: 'b: c", "a: {b: c: d}", "a: [b: c"] {
            assert_eq!(unquoted_colon(line, 8), None, "{line}");
        }
    }
}
