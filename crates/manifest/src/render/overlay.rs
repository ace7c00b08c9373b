//! Merges the `pod:` block of a document into the rendered pod spec, and lists the fields that it
//! replaces. Maps merge key by key, lists of named items merge by name, and other lists are
//! appended to.

use serde_json::Value;

/// Merges `overlay` into `spec` and returns the paths of replaced values.
pub(super) fn merge(spec: &mut Value, overlay: &Value) -> Vec<String> {
    let mut replaced = Vec::new();
    merge_at(spec, overlay, "pod", &mut replaced);
    replaced
}

fn merge_at(base: &mut Value, overlay: &Value, path: &str, replaced: &mut Vec<String>) {
    match (base, overlay) {
        (Value::Object(base), Value::Object(overlay)) => {
            for (key, value) in overlay {
                let path = format!("{path}.{key}");
                match base.get_mut(key) {
                    Some(existing) => merge_at(existing, value, &path, replaced),
                    None => {
                        base.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(base), Value::Array(overlay)) => merge_lists(base, overlay, path, replaced),
        (base, overlay) => {
            if base != overlay {
                replaced.push(path.to_owned());
                *base = overlay.clone();
            }
        }
    }
}

fn merge_lists(base: &mut Vec<Value>, overlay: &[Value], path: &str, replaced: &mut Vec<String>) {
    match path.rsplit('.').next().unwrap_or_default() {
        // Items of two different commands do not correspond to each other, so replace the whole
        // list.
        "command" | "args" => {
            replaced.push(path.to_owned());
            overlay.clone_into(base);
        }
        // Kubernetes ORs node selector terms. Appending the user's terms would bypass the pool and
        // the GPU type, so combine each pair of terms.
        "nodeSelectorTerms" => *base = combine_terms(base, overlay),
        // A merged item could have both `value` and `valueFrom`, or two volume sources, so replace
        // whole items.
        "env" | "volumes" => {
            merge_items(base, overlay, path, replaced, |item| item.get("name"), true);
        }
        "volumeMounts" => merge_items(
            base,
            overlay,
            path,
            replaced,
            |item| item.get("mountPath"),
            true,
        ),
        _ => merge_items(
            base,
            overlay,
            path,
            replaced,
            |item| item.get("name"),
            false,
        ),
    }
}

/// Merges items with equal `identity` and appends the other items. With `replaces_items`, an item
/// replaces its counterpart as a whole; otherwise they merge field by field.
fn merge_items(
    base: &mut Vec<Value>,
    overlay: &[Value],
    path: &str,
    replaced: &mut Vec<String>,
    identity: fn(&Value) -> Option<&Value>,
    replaces_items: bool,
) {
    for item in overlay {
        // A container without a name refers to the job's container.
        let is_only_container =
            path == "pod.containers" && item.get("name").is_none() && !base.is_empty();
        let base_index = base
            .iter()
            .position(|other| identity(other).is_some() && identity(other) == identity(item));
        match if is_only_container {
            Some(0)
        } else {
            base_index
        } {
            Some(index) => {
                let label = identity(&base[index])
                    .and_then(Value::as_str)
                    .unwrap_or("0")
                    .to_owned();
                let path = format!("{path}[{label}]");
                if !replaces_items {
                    merge_at(&mut base[index], item, &path, replaced);
                } else if base[index] != *item {
                    replaced.push(path);
                    base[index] = item.clone();
                }
            }
            None if base.contains(item) => {}
            None => base.push(item.clone()),
        }
    }
}

/// Combines every pair of terms into one term with the requirements of both.
fn combine_terms(base_terms: &[Value], added_terms: &[Value]) -> Vec<Value> {
    let pair = |base: &Value, added: &Value| {
        let mut term = base.clone();
        for key in ["matchExpressions", "matchFields"] {
            let list = |term: &Value| {
                term.get(key)
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default()
            };
            let mut merged = list(base);
            merged.extend(
                list(added)
                    .into_iter()
                    .filter(|other| !list(base).contains(other)),
            );
            if !merged.is_empty() {
                term[key] = merged.into();
            }
        }
        term
    };
    base_terms
        .iter()
        .flat_map(|base| added_terms.iter().map(move |added| pair(base, added)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn named_things_merge_and_others_append() {
        let mut spec = json!({
            "terminationGracePeriodSeconds": 60,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "main", "image": "a", "env": [{"name": "A", "value": "1"}]}],
        });
        let replaced = merge(
            &mut spec,
            &json!({
                "terminationGracePeriodSeconds": 5,
                "hostNetwork": true,
                "tolerations": [{"key": "x", "operator": "Exists"}],
                "containers": [
                    {"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
                    {"name": "sidecar", "image": "b"},
                ],
            }),
        );
        assert_eq!(
            replaced,
            [
                "pod.terminationGracePeriodSeconds",
                "pod.containers[main].env[A]"
            ]
        );
        assert_eq!(
            spec,
            json!({
                "terminationGracePeriodSeconds": 5,
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "x", "operator": "Exists"}],
                "containers": [
                    {"name": "main", "image": "a", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
                    {"name": "sidecar", "image": "b"},
                ],
                "hostNetwork": true,
            })
        );
    }

    #[test]
    fn merging_is_idempotent() {
        let overlay = json!({"tolerations": [{"key": "x"}], "nodeSelector": {"a": "b"}});
        let mut spec = json!({"tolerations": []});
        merge(&mut spec, &overlay);
        let merged_once = spec.clone();
        assert!(merge(&mut spec, &overlay).is_empty());
        assert_eq!(spec, merged_once);
    }

    #[test]
    fn a_user_selector_narrows_the_built_in_one() {
        let term = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
        let mut spec = json!({"nodeSelectorTerms": [term("ours-1"), term("ours-2")]});
        merge(&mut spec, &json!({"nodeSelectorTerms": [term("theirs")]}));
        let keys: Vec<Vec<&str>> = spec["nodeSelectorTerms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|term| {
                term["matchExpressions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|expression| expression["key"].as_str().unwrap())
                    .collect()
            })
            .collect();
        assert_eq!(keys, [["ours-1", "theirs"], ["ours-2", "theirs"]]);
    }

    #[test]
    fn commands_are_replaced_and_mounts_merge_by_path() {
        let mut spec = json!({"containers": [{"name": "main", "command": ["a"], "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]});
        let replaced = merge(
            &mut spec,
            &json!({"containers": [{"command": ["b"], "volumeMounts": [{"name": "v", "mountPath": "/b"}]}]}),
        );
        assert_eq!(replaced, ["pod.containers[main].command"]);
        assert_eq!(
            spec["containers"][0],
            json!({
            "name": "main", "command": ["b"], "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]})
        );
    }
}
