//! Builds the LeaderWorkerSet of a service whose replicas span several nodes. The first pod of each
//! replica answers requests. Source: leaderworkerset.x-k8s.io/v1
//! (api/leaderworkerset/v1/leaderworkerset_types.go, 0.8.0).

use serde_json::json;

use super::labels::{metadata, root_annotations};
use super::pod::RenderedTemplate;
use super::servers::to_worker;
use super::{Object, Refusal, Target};
use crate::spec::JobDocument;
use gpuctl_core::model::QueueSystem;

pub(super) const API: &str = "leaderworkerset.x-k8s.io/v1";

/// Builds the LeaderWorkerSet with `replicas` groups.
pub(super) fn leader_worker_set(
    job: &JobDocument,
    target: &Target,
    template: &RenderedTemplate,
    replicas: u32,
) -> Result<Object, Refusal> {
    let nodes = job.resources.node_count;
    if target
        .served
        .as_ref()
        .is_some_and(|served| !served.leader_worker_sets)
    {
        let message = format!(
            "an inference on {nodes} nodes needs LeaderWorkerSet, but this cluster does not serve it"
        );
        let hint = "install LeaderWorkerSet (sigs.k8s.io/lws), or set `resources.node_count: 1` with more GPUs per pod";
        return Err(Refusal::new("LeaderWorkerSetNotServed", message, hint));
    }
    if target.queueing == Some(QueueSystem::Volcano) {
        let message = "an inference on several nodes cannot use a Volcano queue";
        return Err(Refusal::new(
            "QueueNotServed",
            message,
            "remove `job.queue`",
        ));
    }
    let body = serde_json::to_value(template.body()).expect("a template is JSON");
    let (mut leader, mut worker) = (body.clone(), body);
    leader["spec"] = template.spec.clone();
    worker["spec"] = template.spec.clone();
    worker["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .take(1)
        .for_each(to_worker);
    let mut metadata = serde_json::to_value(metadata(job, target, job.id(), &template.labels))
        .expect("metadata is JSON");
    metadata["annotations"] = json!(root_annotations(job, target));
    let set = json!({
        "apiVersion": API,
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {
                "size": nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
            // A surge group would wait for GPUs that only an old group can release.
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0}},
            "startupPolicy": "LeaderCreated",
            // Clients use a Service with the job's name, so the pods' host names need a separate
            // headless Service per replica.
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        },
    });
    Ok(Object::new(&set, "leaderworkersets"))
}
