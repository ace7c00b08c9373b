//! Reads a gang scheduler's verdict on the group of a pod, for PodGroups of Kubernetes, Volcano,
//! KAI and scheduler-plugins. Sources: k8s.io/api/scheduling/v1alpha2,
//! volcano.sh/apis/scheduling/v1beta1, KAI's pkg/apis/scheduling/v2alpha2 (all `PodGroupStatus`).

use std::time::{Duration, Instant};

use serde_json::Value;

use super::queues::{POD_GROUP_VERSIONS, text};
use crate::Failure;
use crate::handles::QueuesApi;
use crate::write::apply::Deletion;
use crate::write::companions::belongs;
use gpuctl_core::model::GroupVerdict;
use gpuctl_core::model::contract::labels::COSCHEDULING_GROUP;
use gpuctl_manifest::render::Rendered;

/// Annotations of Volcano and KAI with the name of a pod's group.
const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
const KAI_GROUP: &str = "pod-group-name";

/// Maximum time to wait until the old group is deleted.
const GROUP_WITHIN: Duration = Duration::from_secs(30);

impl QueuesApi<'_> {
    /// Waits until the group of an earlier job with the same name is deleted. The API server keeps
    /// it until its last pod is deleted.
    pub async fn without_group(self, rendered: &Rendered) -> Result<(), Failure> {
        let Some(group) = rendered
            .objects
            .iter()
            .find(|object| object.plural == "podgroups")
        else {
            return Ok(());
        };
        let end = Instant::now() + GROUP_WITHIN;
        while let Some(live) = self
            .0
            .writes()
            .live(group)
            .await?
            .filter(|live| belongs(group, live))
        {
            let is_deleting = live.pointer("/metadata/deletionTimestamp").is_some();
            let owner = text(&live, "/metadata/ownerReferences/0/uid");
            let job = self.0.writes().live_owner(rendered).await?;
            if !is_deleting
                && (owner.is_empty() || job.is_some_and(|job| text(&job, "/metadata/uid") == owner))
            {
                // Another run is creating the same job.
                break;
            }
            if Instant::now() > end {
                let message = format!(
                    "podgroup `{}` from an earlier job still exists",
                    group.name()
                );
                return Err(Failure::conflict("AlreadyExists", message));
            }
            if !is_deleting {
                self.0
                    .writes()
                    .delete(group, Deletion::with_uid(text(&live, "/metadata/uid")))
                    .await?;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    /// Reads the verdict on a pod's group. Returns `None` if the pod has no group or the user
    /// cannot read it.
    pub(crate) async fn group_verdict(self, namespace: &str, pod: &Value) -> Option<GroupVerdict> {
        let metadata = |kind: &str, key: &str| pod["metadata"][kind][key].as_str();
        let find = async |version: &str, name: &str| {
            let collection = format!("/apis/{version}/namespaces/{namespace}/podgroups");
            self.0
                .find_in::<Value>(&collection, name)
                .await
                .ok()
                .flatten()
        };
        if let Some(name) = pod["spec"]["schedulingGroup"]["podGroupName"].as_str() {
            for version in POD_GROUP_VERSIONS {
                if let Some(group) = find(&format!("scheduling.k8s.io/{version}"), name).await {
                    return condition(
                        &group["status"]["conditions"],
                        &["PodGroupScheduled"],
                        "False",
                        "Kubernetes",
                    );
                }
            }
        }
        if let Some(name) = metadata("annotations", VOLCANO_GROUP) {
            let group = find("scheduling.volcano.sh/v1beta1", name).await?;
            return Some(volcano_verdict(&group));
        }
        if let Some(name) = metadata("annotations", KAI_GROUP) {
            let group = find("scheduling.run.ai/v2alpha2", name).await?;
            return condition(
                &group["status"]["schedulingConditions"],
                &["UnschedulableOnNodePool"],
                "True",
                "KAI",
            );
        }
        let group = find(
            "scheduling.x-k8s.io/v1alpha1",
            metadata("labels", COSCHEDULING_GROUP)?,
        )
        .await?;
        coscheduling_verdict(&group)
    }
}

fn volcano_verdict(group: &Value) -> GroupVerdict {
    let waiting = condition(
        &group["status"]["conditions"],
        &["Unschedulable", "Uninqueueable"],
        "True",
        "Volcano",
    );
    let pending = GroupVerdict {
        scheduler: "Volcano",
        ..GroupVerdict::default()
    };
    GroupVerdict {
        members: group["spec"]["minMember"].as_u64(),
        ..waiting.unwrap_or(pending)
    }
}

/// Reads the verdict of scheduler-plugins, whose PodGroups have a phase instead of conditions.
fn coscheduling_verdict(group: &Value) -> Option<GroupVerdict> {
    let (phase, min_member) = (
        group["status"]["phase"].as_str()?,
        group["spec"]["minMember"].as_u64()?,
    );
    if matches!(phase, "Running" | "Scheduled" | "Finished") {
        return None;
    }
    let message =
        format!("the group is {phase}; at least {min_member} pods must be scheduled together");
    Some(GroupVerdict {
        scheduler: "scheduler-plugins",
        reason: phase.to_owned(),
        message,
        members: None,
    })
}

/// Returns the newest condition of these types that reports a waiting group.
fn condition(
    conditions: &Value,
    types: &[&str],
    status: &str,
    scheduler: &'static str,
) -> Option<GroupVerdict> {
    let is_match = |condition: &&Value| {
        types.iter().any(|kind| condition["type"] == *kind) && condition["status"] == status
    };
    // RFC 3339 times in UTC can be sorted as strings.
    let newest = |condition: &&Value| {
        condition["lastTransitionTime"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let condition = conditions
        .as_array()?
        .iter()
        .filter(is_match)
        .max_by_key(newest)?;
    // KAI lists its reasons in `reasons`. Earlier versions write the condition's own fields.
    let cause = condition["reasons"]
        .as_array()
        .and_then(|reasons| reasons.first())
        .unwrap_or(condition);
    let text = |field: &str| cause[field].as_str().unwrap_or_default().trim().to_owned();
    let (reason, message) = (text("reason"), text("message"));
    (!message.is_empty()).then_some(GroupVerdict {
        scheduler,
        reason,
        message,
        members: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_true_condition_is_reported() {
        let condition_json = |kind: &str, status: &str, time: &str, message: &str| json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": "R", "message": message});
        let conditions = json!([
            condition_json("Unschedulable", "True", "2026-01-01T00:00:02Z", "second"),
            condition_json("Unschedulable", "True", "2026-01-01T00:00:01Z", "first"),
            condition_json("Scheduled", "True", "2026-01-01T00:00:03Z", "other"),
        ]);
        let message = condition(&conditions, &["Unschedulable"], "True", "Volcano")
            .map(|verdict| verdict.message);
        assert_eq!(message.as_deref(), Some("second"));
        assert_eq!(
            condition(&conditions, &["Unschedulable"], "False", "Volcano"),
            None
        );
        let reasons = json!([{"reason": "OverLimit", "message": "queue a is over its limit"}]);
        let kai = json!([{"type": "UnschedulableOnNodePool", "status": "True", "reason": "Unschedulable", "message": "old", "reasons": reasons}]);
        let verdict = condition(&kai, &["UnschedulableOnNodePool"], "True", "KAI")
            .map(|verdict| (verdict.reason, verdict.message));
        assert_eq!(
            verdict,
            Some((
                "OverLimit".to_owned(),
                "queue a is over its limit".to_owned()
            ))
        );
    }
}
