//! Replaces a notebook's pod that its StatefulSet does not replace. The controller waits until a
//! pod of the old version is ready, which never happens with a broken image (kubernetes#67250).
//! This module does not check why the pod is not ready.

use std::time::Duration;

use serde_json::Value;

use crate::handles::JobsApi;
use crate::transport::failure::Failure;
use crate::write::apply::Deletion;
use gpuctl_manifest::render::Object;

/// Number of checks whether the controller has observed a change, and the pause between two checks.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

impl JobsApi<'_> {
    /// Deletes the pod of a single-pod StatefulSet if it has an old version and is not ready.
    /// Returns the name of the deleted pod.
    pub async fn replace_stuck_pod(self, root: &Object) -> Result<Option<String>, Failure> {
        let Some(revision) = self.newest_revision(root).await? else {
            return Ok(None);
        };
        let name = format!("{}-0", root.name());
        let path = format!(
            "/api/v1/namespaces/{}/pods/{name}",
            root.namespace().unwrap_or_default()
        );
        let Some(pod) = self.0.find(&path).await? else {
            return Ok(None);
        };
        if !is_stuck(&pod, &revision) {
            return Ok(None);
        }
        let uid = pod.pointer("/metadata/uid").and_then(Value::as_str);
        let deleted = self
            .0
            .writes()
            .delete_at(
                &path,
                Deletion {
                    uid,
                    ..Deletion::default()
                },
            )
            .await?;
        Ok(deleted.then_some(name))
    }

    /// Waits until the controller has observed the newest template, and returns its revision.
    async fn newest_revision(self, root: &Object) -> Result<Option<String>, Failure> {
        for _ in 0..LOOKS {
            let Some(live) = self.0.writes().live(root).await? else {
                return Ok(None);
            };
            let observed = live
                .pointer("/status/observedGeneration")
                .and_then(Value::as_u64);
            // `updateRevision` belongs to the old template until the controller has observed the
            // change.
            if observed.is_some()
                && observed == live.pointer("/metadata/generation").and_then(Value::as_u64)
            {
                return Ok(live
                    .pointer("/status/updateRevision")
                    .and_then(Value::as_str)
                    .map(ToOwned::to_owned));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(None)
    }
}

fn is_stuck(pod: &Value, revision: &str) -> bool {
    let conditions = pod
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let ready = conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let pod_revision = pod
        .pointer("/metadata/labels/controller-revision-hash")
        .and_then(Value::as_str);
    let deleting = pod.pointer("/metadata/deletionTimestamp").is_some();
    !ready && !deleting && pod_revision.is_some_and(|pod_revision| pod_revision != revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_older_pod_that_is_not_ready_is_stuck() {
        let pod = |revision: &str, ready: &str| {
            json!({"metadata": {"labels": {"controller-revision-hash": revision}},
                   "status": {"conditions": [{"type": "Ready", "status": ready}]}})
        };
        assert!(is_stuck(&pod("old", "False"), "new"));
        assert!(
            !is_stuck(&pod("old", "True"), "new"),
            "the controller replaces it"
        );
        assert!(
            !is_stuck(&pod("new", "False"), "new"),
            "it has just been made"
        );
        let mut deleting = pod("old", "False");
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_stuck(&deleting, "new"));
        assert!(!is_stuck(&json!({}), "new"));
    }
}
