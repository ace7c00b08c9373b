//! Reads the positions of jobs in Kueue's queues from its visibility API, an aggregated API. On
//! clusters without this API, positions are unknown.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Method;
use serde::Deserialize;

use crate::handles::QueuesApi;
use crate::transport::decode::ObjectMetadata;
use gpuctl_core::model::{Job, QueuePosition};

/// Maximum number of waiting jobs to read per queue. The length of a longer queue is unknown.
const MOST: usize = 1000;
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;
/// API versions, newest first. Source: Kueue 0.18.3, apis/visibility.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

#[derive(Deserialize)]
struct Summary<'a> {
    #[serde(borrow, default)]
    items: Vec<PendingWorkload<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingWorkload<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    /// Positions in both queues start at 0.
    position_in_cluster_queue: u64,
    position_in_local_queue: u64,
}

impl QueuesApi<'_> {
    /// Sets the positions of jobs that Kueue has not admitted. Positions that cannot be read remain
    /// unknown.
    pub(crate) async fn place_in_queues(self, jobs: &mut [Job]) {
        let queues: BTreeSet<(String, String)> = jobs
            .iter()
            .filter(|job| job.queue_verdict.is_some())
            .filter_map(|job| Some((job.namespace.clone(), job.queue.clone()?)))
            .collect();
        let Some(version) = self.visibility_version(&queues).await else {
            return;
        };
        let answers: Vec<HashMap<String, QueuePosition>> = stream::iter(queues)
            .map(|(namespace, queue)| self.positions(version, namespace, queue))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut positions: HashMap<String, QueuePosition> = answers.into_iter().flatten().collect();
        for job in jobs.iter_mut().filter(|job| job.queue_verdict.is_some()) {
            let mut owners = std::iter::once(&job.uid).chain(job.pods.iter().map(|pod| &pod.uid));
            job.queue_position = owners.find_map(|uid| positions.remove(uid));
        }
    }

    async fn visibility_version(self, queues: &BTreeSet<(String, String)>) -> Option<&'static str> {
        if queues.is_empty() {
            return None;
        }
        let group = self
            .0
            .find::<serde_json::Value>("/apis/visibility.kueue.x-k8s.io")
            .await
            .ok()??;
        let versions = group["versions"].as_array()?;
        VERSIONS.into_iter().find(|candidate| {
            versions
                .iter()
                .any(|version| version["version"] == **candidate)
        })
    }

    /// Reads the positions of the jobs that wait in one queue, by the UID of their Workload's
    /// owner.
    async fn positions(
        self,
        version: &str,
        namespace: String,
        queue: String,
    ) -> HashMap<String, QueuePosition> {
        let path = format!(
            "/apis/visibility.kueue.x-k8s.io/{version}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads?limit={MOST}"
        );
        let Ok(answer) = self.0.send(&Method::GET, &path, "", Bytes::new()).await else {
            return HashMap::new();
        };
        serde_json::from_slice::<Summary<'_>>(&answer.body)
            .map(|summary| by_owner(&summary))
            .unwrap_or_default()
    }
}

fn by_owner(summary: &Summary<'_>) -> HashMap<String, QueuePosition> {
    let waiting = summary.items.len();
    let position = |workload: &PendingWorkload<'_>| QueuePosition {
        in_queue: workload.position_in_local_queue + 1,
        waiting: (waiting < MOST).then_some(waiting as u64),
        in_cluster_queue: workload.position_in_cluster_queue + 1,
    };
    let owners = |workload: &PendingWorkload<'_>| {
        workload
            .metadata
            .owner_references
            .iter()
            .map(|owner| owner.uid.clone())
            .collect::<Vec<_>>()
    };
    let mut positions = HashMap::new();
    // An owner can have several Workloads. Use the first one, which is admitted next.
    for (uid, position) in summary.items.iter().flat_map(|workload| {
        owners(workload)
            .into_iter()
            .map(move |uid| (uid, position(workload)))
    }) {
        positions.entry(uid).or_insert(position);
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The response is as Kueue 0.18.3 sends it.
    #[test]
    fn positions_start_at_one() {
        let text = r#"{"items": [
            {"metadata": {"name": "job-a", "namespace": "n", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u1"}]},
             "priority": 0, "localQueueName": "research", "positionInClusterQueue": 0, "positionInLocalQueue": 0},
            {"metadata": {"name": "job-b", "namespace": "n", "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "b", "uid": "u2"}]},
             "priority": 0, "localQueueName": "research", "positionInClusterQueue": 4, "positionInLocalQueue": 1}]}"#;
        let positions = by_owner(&serde_json::from_str(text).unwrap());
        assert_eq!(
            positions["u1"],
            QueuePosition {
                in_queue: 1,
                waiting: Some(2),
                in_cluster_queue: 1
            }
        );
        assert_eq!(
            positions["u2"],
            QueuePosition {
                in_queue: 2,
                waiting: Some(2),
                in_cluster_queue: 5
            }
        );
    }
}
