//! Remembers when `apply` changed the local files of a job, because its running pods keep the old
//! ones.
//!
//! A pod mounts each file by `subPath`, and the kubelet never updates such a mount. The pod template
//! cannot carry a hash of the files: a Job's template is immutable, so each change would replace
//! the Job. Therefore `apply` marks the ConfigMap in the request that changes its content, which
//! cannot succeed for only one of both. The time of the change is that of gpuctl's entry in
//! `managedFields`, which the API server sets by the same clock as the creation time of pods. Both
//! are needed: setting the owner reference of a new ConfigMap also changes this time.

use jiff::Timestamp;
use serde_json::Value;

use super::effects::Effect;
use crate::{Failure, handles::WritesApi};
use gpuctl_core::model::contract::labels::{FILES_CHANGED, JOB};
use gpuctl_manifest::render::{Object, Rendered, files_name};

/// Whether the object is the ConfigMap with the content of `files:`.
fn is_files(object: &Object) -> bool {
    let job = object
        .body
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(JOB))
        .and_then(Value::as_str);
    object.plural == "configmaps" && job.is_some_and(|job| object.name() == files_name(job))
}

fn mark(live: &Value) -> Option<&Value> {
    live.pointer("/metadata/annotations")?.get(FILES_CHANGED)
}

/// Adds the mark of the live object, which applying the object again would remove.
pub(super) fn keep_mark(object: &Object, live: &Value) -> Object {
    let mut object = object.clone();
    if let (true, Some(mark)) = (is_files(&object), mark(live)) {
        object.body["metadata"]["annotations"][FILES_CHANGED] = mark.clone();
    }
    object
}

/// Adds the mark to an object of an existing job that is about to be written, if its content
/// changes.
pub(super) fn with_mark(object: Object, effect: &Effect) -> Object {
    let changes_content = match effect {
        Effect::Created => true,
        Effect::Changed { live, desired } => ["data", "binaryData"]
            .iter()
            .any(|field| live[*field] != desired[*field]),
        _ => false,
    };
    if let Effect::Changed { live, .. } = effect
        && !changes_content
    {
        return keep_mark(&object, live);
    }
    let mut object = object;
    if changes_content && is_files(&object) {
        object.body["metadata"]["annotations"][FILES_CHANGED] = "true".into();
    }
    object
}

/// When gpuctl last applied the object. An unknown time is the latest possible one, so that all
/// pods count as older.
fn applied_at(live: &Value) -> Timestamp {
    let entries = live
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .find(|entry| entry["manager"] == "gpuctl" && entry["operation"] == "Apply")
        .and_then(|entry| entry["time"].as_str()?.parse().ok())
        .unwrap_or(Timestamp::MAX)
}

impl WritesApi<'_> {
    /// Reads when `apply` last changed the document's files. Returns `None` if it never did since
    /// the job was created, or if the document has no files.
    pub async fn files_changed_at(self, rendered: &Rendered) -> Result<Option<Timestamp>, Failure> {
        let Some(files) = rendered.objects.iter().find(|object| is_files(object)) else {
            return Ok(None);
        };
        let live = self.live(files).await?;
        Ok(live
            .filter(|live| mark(live).is_some())
            .map(|live| applied_at(&live)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn files(content: &str) -> Object {
        Object {
            body: json!({
                "metadata": {"name": "a-files", "labels": {JOB: "a"}},
                "data": {"file-0": content},
            }),
            plural: "configmaps",
            shared: false,
            kept: false,
        }
    }

    fn is_marked(object: &Object) -> bool {
        mark(&object.body).is_some()
    }

    #[test]
    fn only_changed_content_is_marked() {
        let (old, new) = (files("1").body, files("2"));
        let changed = |live: &Value, desired: &Value| Effect::Changed {
            live: live.clone(),
            desired: desired.clone(),
        };
        assert!(is_marked(&with_mark(
            new.clone(),
            &changed(&old, &new.body)
        )));
        assert!(is_marked(&with_mark(new.clone(), &Effect::Created)));
        // A new owner reference does not change the content.
        let mut owned = new.body.clone();
        owned["metadata"]["ownerReferences"] = json!([{"uid": "1"}]);
        let adoption = changed(&new.body, &owned);
        assert!(!is_marked(&with_mark(new.clone(), &adoption)));
        let other = Object {
            body: json!({"metadata": {"name": "a-supervisor", "labels": {JOB: "a"}}}),
            ..files("")
        };
        assert!(!is_marked(&with_mark(other, &Effect::Created)));
    }

    #[test]
    fn a_mark_stays_until_the_job_is_replaced() {
        let marked = with_mark(files("2"), &Effect::Created);
        assert!(is_marked(&keep_mark(&files("2"), &marked.body)));
        let mut owned = marked.body.clone();
        owned["metadata"]["ownerReferences"] = json!([{"uid": "1"}]);
        let adoption = Effect::Changed {
            live: marked.body,
            desired: owned,
        };
        assert!(is_marked(&with_mark(files("2"), &adoption)));
        assert!(!is_marked(&keep_mark(&files("2"), &files("2").body)));
    }

    #[test]
    fn the_time_of_a_change_is_that_of_the_apply() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": "kubectl", "operation": "Update", "time": "2026-01-31T10:00:00Z"},
            {"manager": "gpuctl", "operation": "Update", "time": "2026-01-31T11:00:00Z"},
            {"manager": "gpuctl", "operation": "Apply", "time": "2026-01-31T12:00:00Z"},
        ]}});
        assert_eq!(applied_at(&live).to_string(), "2026-01-31T12:00:00Z");
        assert_eq!(applied_at(&json!({})), Timestamp::MAX);
    }
}
