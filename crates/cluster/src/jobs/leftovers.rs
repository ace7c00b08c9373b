//! Reconstructs deleted jobs from the labels of their pods that are still terminating.

use std::collections::BTreeMap;

use crate::transport::decode::WirePod;
use gpuctl_core::model::contract::labels::{GPU_TYPE, JOB, KIND, POOL_LABEL, USER};
use gpuctl_core::model::{Job, JobKind, Pod};

/// A terminating pod and the facts about its job that its labels contain.
pub(crate) struct Leftover {
    namespace: String,
    job: String,
    kind: JobKind,
    pool: Option<String>,
    gpu_type: Option<String>,
    user: Option<String>,
    pub pod: Pod,
}

impl Leftover {
    pub(crate) fn from_pod(wire: &WirePod<'_>, pod: Pod) -> Self {
        let label = |key: &str| wire.metadata.labels.get(key).cloned();
        Self {
            namespace: wire.metadata.namespace.to_string(),
            job: label(JOB).unwrap_or_default(),
            kind: label(KIND)
                .and_then(|kind| kind.parse().ok())
                .unwrap_or_default(),
            pool: label(POOL_LABEL),
            gpu_type: label(GPU_TYPE),
            user: label(USER),
            pod,
        }
    }
}

/// Reconstructs the deleted jobs whose pods are still terminating. These pods still hold their
/// GPUs, and on a dead node they hold them forever.
pub(crate) fn left_over(leftovers: Vec<Leftover>) -> Vec<Job> {
    let mut jobs: BTreeMap<(String, String), Job> = BTreeMap::new();
    for leftover in leftovers
        .into_iter()
        .filter(|leftover| !leftover.job.is_empty() && !leftover.pod.ended())
    {
        let job = jobs
            .entry((leftover.namespace.clone(), leftover.job.clone()))
            .or_insert_with(|| Job {
                namespace: leftover.namespace,
                display_name: leftover.job.clone(),
                name: leftover.job,
                kind: leftover.kind,
                version: "v0.1".to_owned(),
                pool: leftover.pool,
                gpu_type: leftover.gpu_type,
                user: leftover.user,
                gpus_per_pod: leftover.pod.gpus,
                deleting: true,
                owner_is_gone: true,
                ..Job::default()
            });
        job.created_at = [job.created_at, leftover.pod.created_at]
            .into_iter()
            .flatten()
            .min();
        job.pods.push(leftover.pod);
        job.pods_wanted += 1;
    }
    jobs.into_values().collect()
}
