//! Assigns a job to a queueing system (`job.queue`) and to a gang scheduler (`job.gang`). If the
//! cluster has no queues, `job.queue` is an error: otherwise the job could exceed its team's quota
//! unnoticed.

use serde_json::{Value, json};

use super::labels::metadata;
use super::{Object, Refusal, Target};
use crate::spec::JobDocument;
use gpuctl_core::model::contract::labels::{KUEUE_QUEUE, VOLCANO_GROUP_SIZE, VOLCANO_QUEUE};
use gpuctl_core::model::{Gang, JobKind, QueueSystem};

/// Adds the queue to the owner of the pods, and for Volcano also to the pod template.
pub(super) fn queue(job: &JobDocument, target: &Target, root: &mut Object) -> Result<(), Refusal> {
    if let Some(queue) = &job.queue {
        match target.queueing {
            Some(QueueSystem::Kueue) => root.body["metadata"]["labels"][KUEUE_QUEUE] = json!(queue),
            // Volcano's controller reads the pods' annotation
            // (pkg/controllers/podgroup/pg_controller_handler.go), and `get jobs` reads the
            // owner's.
            Some(QueueSystem::Volcano) => {
                root.body["metadata"]["annotations"][VOLCANO_QUEUE] = json!(queue);
                root.body["spec"]["template"]["metadata"]["annotations"][VOLCANO_QUEUE] =
                    json!(queue);
            }
            None => {
                let message = format!(
                    "`job.queue` is set to `{queue}`, but this cluster has no queueing system"
                );
                return Err(Refusal::new(
                    "QueueNotServed",
                    message,
                    "remove `job.queue`, or install Kueue or Volcano",
                ));
            }
        }
    }
    let pods = job.resources.node_count.to_string();
    match job.kind {
        _ if !uses_volcano(job, target) => {}
        JobKind::Training => root.body["metadata"]["annotations"][VOLCANO_GROUP_SIZE] = json!(pods),
        _ => root.body["spec"]["template"]["spec"]["schedulerName"] = json!("volcano"),
    }
    Ok(())
}

/// Pod spec fields that assign a pod to a scheduler or a group.
pub(super) fn pod_fields(job: &JobDocument, target: &Target) -> Value {
    match &target.gang {
        _ if uses_volcano(job, target) => json!({"schedulerName": "volcano"}),
        Some(Gang::Native(_)) => json!({"schedulingGroup": {"podGroupName": job.id()}}),
        _ => json!({}),
    }
}

/// Builds the PodGroup, whose pods the gang scheduler places together or not at all.
pub(super) fn pod_group(
    job: &JobDocument,
    target: &Target,
    labels: &std::collections::BTreeMap<String, String>,
) -> Option<Object> {
    let pods = job.resources.node_count;
    let (version, spec) = match target
        .gang
        .as_ref()
        .filter(|_| !uses_volcano(job, target))?
    {
        Gang::Native(version) => (
            version,
            json!({"schedulingPolicy": {"gang": {"minCount": pods}}}),
        ),
        Gang::Kueue | Gang::Volcano => return None,
    };
    let metadata = metadata(job, target, job.id(), labels);
    let group =
        json!({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec});
    Some(Object::new(&group, "podgroups"))
}

fn uses_volcano(job: &JobDocument, target: &Target) -> bool {
    target.gang == Some(Gang::Volcano)
        || job.queue.is_some() && target.queueing == Some(QueueSystem::Volcano)
}
