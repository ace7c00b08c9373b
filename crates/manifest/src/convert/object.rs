//! Converts the parts that all Kubernetes objects share: names, labels and pod templates.

use serde_json::Value;

use super::pod::PodFields;
use super::{ConvertError, FieldMap, SourceFields};

pub(super) fn name_of(object: &Value) -> Result<String, ConvertError> {
    let name = object["metadata"]["name"]
        .as_str()
        .or_else(|| object["metadata"]["generateName"].as_str());
    // `generateName` usually ends in `-`, but a name must not.
    let name = name.map(|name| name.trim_end_matches('-').to_owned());
    name.ok_or_else(|| ConvertError::new("it has no `metadata.name`", "set `metadata.name`"))
}

/// Builds the `job:` block from the metadata.
pub(super) fn head(object: &Value, omitted: &mut Vec<String>) -> Result<FieldMap, ConvertError> {
    let mut job = FieldMap::default();
    job.put("name", Some(name_of(object)?.into()));
    let mut metadata = SourceFields::new("metadata", &object["metadata"], omitted);
    for key in [
        "name",
        "generateName",
        "creationTimestamp",
        "uid",
        "resourceVersion",
        "generation",
        "managedFields",
        "selfLink",
    ] {
        metadata.take(key);
    }
    job.put("namespace", metadata.take("namespace"));
    let maps = ["labels", "annotations"].map(|key| (key, metadata.take(key)));
    metadata.finish();
    for (name, map) in maps {
        let mut kept = FieldMap::default();
        for (key, value) in map.as_object().into_iter().flatten() {
            // Drop the keys that controllers and kubectl set again.
            let is_generated = key.contains("batch.kubernetes.io/")
                || key.starts_with("kubectl.kubernetes.io/")
                || matches!(key.as_str(), "controller-uid" | "job-name");
            if is_generated {
                continue;
            }
            // Kueue reads the queue from this label.
            if key == "kueue.x-k8s.io/queue-name" {
                job.put("queue", value.clone());
                continue;
            }
            match key.contains("kubernetes.io/") || key.starts_with("gpuctl/") {
                true => omitted.push(format!("metadata.{name}[{key}]: the key is reserved")),
                false => kept.put(key, value.clone()),
            }
        }
        job.put(name, Some(kept.value()));
    }
    Ok(job)
}

/// Records pod labels and annotations that the job's metadata lacks, because gpuctl gives pods only
/// the job's labels and annotations.
pub(super) fn check_pod_metadata(
    template: &Value,
    object: &Value,
    path: &str,
    omitted: &mut Vec<String>,
) {
    for name in ["labels", "annotations"] {
        let selected = &object["spec"]["selector"]["matchLabels"];
        for (key, value) in template["metadata"][name].as_object().into_iter().flatten() {
            let is_inherited = object["metadata"][name][key] == *value || selected[key] == *value;
            if !is_inherited
                && !key.contains("batch.kubernetes.io/")
                && !matches!(key.as_str(), "controller-uid" | "job-name")
            {
                omitted.push(format!(
                    "{path}.metadata.{name}[{key}]: pods get the job's labels and annotations"
                ));
            }
        }
    }
}

/// Assembles a job's document from its blocks. `extra` contains additional top-level blocks, and
/// optionally `node_count`, which belongs to `resources`.
pub(super) fn document(
    kind: &str,
    mut job: FieldMap,
    pod: PodFields,
    extra: &[(&str, Value)],
) -> Value {
    job.put("grace_period", pod.grace.map(Value::from));
    job.put("priority", pod.priority);
    let mut document = FieldMap::default();
    document.put("kind", Some(kind.into()));
    document.put("version", Some("v0.1".into()));
    document.put("job", job.value());
    document.put("environment", pod.environment);
    let mut resources = pod.resources;
    for (key, value) in extra.iter().filter(|(key, _)| *key == "node_count") {
        resources.put(key, value.clone());
    }
    document.put("resources", resources.value());
    document.put("storage", pod.storage);
    for (key, value) in extra.iter().filter(|(key, _)| *key != "node_count") {
        document.put(key, value.clone());
    }
    document.put("pod", pod.overlay);
    document.value()
}

pub(super) fn seconds(value: &Value) -> Option<Value> {
    value.as_u64().map(|seconds| format!("{seconds}s").into())
}
