//! Merges the `pod:` block of a document into the pod spec that was made from the rest, and tells what it overrode.
//! Maps merge key by key; lists of named things merge by name; other lists are appended to.

use serde_json::Value;

/// Merges `overlay` into `spec`. Returns the paths whose values were replaced.
pub fn merge(spec: &mut Value, overlay: &Value) -> Vec<String> {
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
    for item in overlay {
        // The container of the job may be meant without saying its name.
        let only = path == "pod.containers" && item.get("name").is_none() && !base.is_empty();
        let same = if only {
            Some(0)
        } else {
            base.iter().position(|other| identity(other).is_some() && identity(other) == identity(item))
        };
        match same {
            Some(index) => {
                let label = identity(&base[index]).unwrap_or("0").to_owned();
                merge_at(&mut base[index], item, &format!("{path}[{label}]"), replaced);
            }
            None if base.contains(item) => {}
            None => base.push(item.clone()),
        }
    }
}

fn identity(item: &Value) -> Option<&str> {
    item.get("name").or_else(|| item.get("mountPath")).and_then(Value::as_str)
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
        assert_eq!(replaced, ["pod.terminationGracePeriodSeconds", "pod.containers[main].env[A].value"]);
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
    fn merging_twice_changes_nothing_more() {
        let overlay = json!({"tolerations": [{"key": "x"}], "nodeSelector": {"a": "b"}});
        let mut spec = json!({"tolerations": []});
        merge(&mut spec, &overlay);
        let once = spec.clone();
        assert!(merge(&mut spec, &overlay).is_empty());
        assert_eq!(spec, once);
    }
}
