//! Compares a live object with the desired one, field by field. Masks values that look like
//! secrets.

mod masks;

use serde_json::{Map, Value};

pub use masks::Masks;

/// Maximum length of a printed value, in characters.
const LONGEST: usize = 60;

/// Lists the fields that differ, such as `spec.replicas: 1 → 2`.
pub fn changes(live: &Value, desired: &Value, masks: &Masks) -> Vec<String> {
    let mut changes = Vec::new();
    compare(
        "",
        Some(&masks.live(live)),
        Some(&masks.desired(desired)),
        false,
        &mut changes,
    );
    changes
}

/// Like `changes`, but ignores live fields that `desired` does not set, such as the API server's
/// defaults.
pub fn requested_changes(live: &Value, desired: &Value, masks: &Masks) -> Vec<String> {
    let mut changes = Vec::new();
    compare(
        "",
        Some(&masks.live(live)),
        Some(&masks.desired(desired)),
        true,
        &mut changes,
    );
    changes
}

fn compare(
    path: &str,
    live: Option<&Value>,
    desired: Option<&Value>,
    requested_only: bool,
    changes: &mut Vec<String>,
) {
    let child_path = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match (live, desired) {
        (live, desired) if live == desired => {}
        (Some(_), None) if requested_only => {}
        (Some(Value::Object(live)), Some(Value::Object(desired))) => {
            for key in keys(live, desired) {
                compare(
                    &child_path(key),
                    live.get(key),
                    desired.get(key),
                    requested_only,
                    changes,
                );
            }
        }
        (Some(Value::Array(live)), Some(Value::Array(desired)))
            if have_names(live) && have_names(desired) =>
        {
            let (live, desired) = (by_name(live), by_name(desired));
            for key in keys(&live, &desired) {
                compare(
                    &child_path(key),
                    live.get(key),
                    desired.get(key),
                    requested_only,
                    changes,
                );
            }
        }
        // The stored manifest is too long for a line, so report only that it changed.
        (Some(_), Some(_)) if path.ends_with("annotations.gpuctl/source") => {
            changes.extend((!requested_only).then(|| "the stored manifest".to_owned()));
        }
        (live, desired) => changes.push(format!("{path}: {} → {}", short(live), short(desired))),
    }
}

/// Returns the keys of both maps, sorted and without duplicates.
fn keys<'v>(a: &'v Map<String, Value>, b: &'v Map<String, Value>) -> Vec<&'v str> {
    let mut keys: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns true if every item has a `name`, as containers, variables and volumes do. Such lists are
/// compared by name instead of position.
fn have_names(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(|item| item["name"].is_string())
}

fn by_name(list: &[Value]) -> Map<String, Value> {
    list.iter()
        .filter_map(|item| Some((item["name"].as_str()?.to_owned(), item.clone())))
        .collect()
}

fn short(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let first: String = text
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(LONGEST)
        .collect();
    if first == text {
        first
    } else {
        format!("{first}…")
    }
}

#[cfg(test)]
mod tests;
