//! Compares an object of the cluster with the one that a file asks for, field by field. Values that
//! look like secrets are masked.

mod masks;

use serde_json::{Map, Value};

pub use masks::Masks;

/// Length of a value in a line.
const LONGEST: usize = 60;

/// Fields in which two objects differ, as `spec.replicas: 1 → 2`.
pub fn changes(live: &Value, wanted: &Value, masks: &Masks) -> Vec<String> {
    let mut found = Vec::new();
    compare(
        "",
        Some(&masks.live(live)),
        Some(&masks.wanted(wanted)),
        false,
        &mut found,
    );
    found
}

/// Returns the same, where `wanted` says only what was asked for: what it leaves out is no
/// difference.
pub fn changes_asked_for(live: &Value, wanted: &Value, masks: &Masks) -> Vec<String> {
    let mut found = Vec::new();
    compare(
        "",
        Some(&masks.live(live)),
        Some(&masks.wanted(wanted)),
        true,
        &mut found,
    );
    found
}

fn compare(
    path: &str,
    live: Option<&Value>,
    wanted: Option<&Value>,
    asked_only: bool,
    found: &mut Vec<String>,
) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match (live, wanted) {
        (live, wanted) if live == wanted => {}
        (Some(_), None) if asked_only => {}
        (Some(Value::Object(live)), Some(Value::Object(wanted))) => {
            for key in keys(live, wanted) {
                compare(
                    &below(key),
                    live.get(key),
                    wanted.get(key),
                    asked_only,
                    found,
                );
            }
        }
        (Some(Value::Array(live)), Some(Value::Array(wanted))) if named(live) && named(wanted) => {
            let (live, wanted) = (by_name(live), by_name(wanted));
            for key in keys(&live, &wanted) {
                compare(
                    &below(key),
                    live.get(key),
                    wanted.get(key),
                    asked_only,
                    found,
                );
            }
        }
        // The YAML itself is no field that anybody reads in a line.
        (Some(_), Some(_)) if path.ends_with("annotations.gpuctl/source") => {
            found.extend((!asked_only).then(|| "the YAML that is kept with it".to_owned()));
        }
        (live, wanted) => found.push(format!("{path}: {} → {}", short(live), short(wanted))),
    }
}

/// Keys of both, each once, in order.
fn keys<'v>(a: &'v Map<String, Value>, b: &'v Map<String, Value>) -> Vec<&'v str> {
    let mut keys: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Lists of containers, variables and volumes are told apart by name, not by place.
fn named(list: &[Value]) -> bool {
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
