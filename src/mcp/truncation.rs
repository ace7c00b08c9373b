//! Shortens lists in structured content, so that large answers still match their schema.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Field with the names of the shortened lists.
pub(super) const TRUNCATED: &str = "truncated";

/// Shortens the largest lists until the object's JSON has at most `limit` bytes, and names them in
/// `truncated`. Returns false if that is not enough, for example because of one long text.
pub(super) fn truncate(structure: &mut Value, limit: usize) -> bool {
    let mut totals = BTreeMap::new();
    let mut size = length(structure);
    while size > limit {
        let mut lists = Vec::new();
        find_lists(structure, "", &mut lists);
        let Some((_, pointer)) = lists.into_iter().max() else {
            return false;
        };
        let Some(Value::Array(items)) = structure.pointer_mut(&pointer) else {
            return false;
        };
        totals.entry(pointer).or_insert(items.len());
        let mut excess = size - limit;
        while items.len() > 1 && excess > 0 {
            let item_and_comma = items.pop().map_or(0, |item| length(&item) + 1);
            excess = excess.saturating_sub(item_and_comma);
        }
        size = length(structure);
    }
    let shown = |pointer: &str| {
        structure
            .pointer(pointer)
            .and_then(Value::as_array)
            .map(Vec::len)
    };
    let lists: Vec<Value> = totals
        .iter()
        .map(|(pointer, total)| json!({"list": pointer, "shown": shown(pointer), "total": total}))
        .collect();
    if let Some(fields) = structure.as_object_mut().filter(|_| !lists.is_empty()) {
        fields.insert(TRUNCATED.to_owned(), lists.into());
    }
    true
}

fn length(value: &Value) -> usize {
    value.to_string().len()
}

/// Collects the outermost lists that can be shortened, with sizes and JSON pointers.
fn find_lists(value: &Value, pointer: &str, lists: &mut Vec<(usize, String)>) {
    match value {
        Value::Array(items) if items.len() > 1 => lists.push((length(value), pointer.to_owned())),
        Value::Array(items) => items
            .iter()
            .for_each(|item| find_lists(item, &format!("{pointer}/0"), lists)),
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                find_lists(field, &format!("{pointer}/{name}"), lists);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_lists_are_shortened_and_named() {
        let row = |number: usize| json!({"name": format!("job-{number:05}"), "pods": [1, 2]});
        let rows: Vec<Value> = (0..1000).map(row).collect();
        let mut list = json!({"total": 1000, "items": rows, "notes": ["a", "b"]});
        assert!(truncate(&mut list, 4096));
        let shown = list["items"].as_array().unwrap().len();
        assert!(length(&list) < 4096 + 100 && shown > 50, "{list}");
        assert_eq!(
            (&list["total"], &list["notes"]),
            (&json!(1000), &json!(["a", "b"]))
        );
        let expected = json!([{"list": "/items", "shown": shown, "total": 1000}]);
        assert_eq!(list[TRUNCATED], expected);
    }

    #[test]
    fn a_list_inside_the_only_item_is_shortened() {
        let mut fit = json!({"items": [{"a/b~": vec!["x".repeat(50); 100]}]});
        assert!(truncate(&mut fit, 1000));
        assert_eq!(fit[TRUNCATED][0]["list"], "/items/0/a~1b~0");
        assert_eq!(fit[TRUNCATED][0]["total"], 100);
        let shown = fit["items"][0]["a/b~"].as_array().unwrap().len();
        assert_eq!(fit[TRUNCATED][0]["shown"], shown);
    }

    #[test]
    fn small_answers_stay_and_long_texts_cannot_be_shortened() {
        let mut small = json!({"items": [1, 2, 3]});
        assert!(truncate(&mut small, 100));
        assert_eq!(small, json!({"items": [1, 2, 3]}));
        let mut text = json!({"yaml": "x".repeat(200), "items": [1, 2]});
        assert!(!truncate(&mut text, 100));
    }
}
