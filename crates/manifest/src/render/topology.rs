//! Makes the scheduler prefer nodes near each other for the ranks of a training (`job.topology`).
//! The known topology labels come from the documentation of cloud providers and from NVIDIA's
//! topograph. Kueue places pods by the levels of its Topology objects.

use k8s_openapi::api::core::v1::{PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::{Refusal, Target};
use crate::spec::JobDocument;
use gpuctl_core::model::contract::labels::JOB;
use gpuctl_core::model::{Gang, Nodes};

/// Node labels whose value identifies a rack, or the nodes of one switch.
const RACKS: [&str; 6] = [
    "topology.kubernetes.io/rack",
    "cloud.provider.com/topology-rack",
    "network.topology.nvidia.com/leaf",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-subblock",
    "oci.oraclecloud.com/rdma.local_block_id",
];
/// Node labels whose value identifies the next level of switches.
const BLOCKS: [&str; 6] = [
    "topology.kubernetes.io/block",
    "cloud.provider.com/topology-block",
    "network.topology.nvidia.com/spine",
    "topology.k8s.aws/network-node-layer-2",
    "cloud.google.com/gce-topology-block",
    "oci.oraclecloud.com/rdma.network_block_id",
];

/// Returns the node label of the requested topology level, or `None` if the job needs none.
pub(super) fn label(job: &JobDocument, target: &Target) -> Result<Option<String>, Refusal> {
    let Some(requested) = job
        .training
        .topology
        .as_ref()
        .filter(|_| job.resources.node_count > 1)
    else {
        return Ok(None);
    };
    let key = match requested.value.as_str() {
        "rack" => existing_key(&RACKS, "rack", target)
            .map_err(|refusal| refusal.with_position(Some(requested.at)))?,
        "block" => existing_key(&BLOCKS, "block", target)
            .map_err(|refusal| refusal.with_position(Some(requested.at)))?,
        label => label.to_owned(),
    };
    Ok(Some(key))
}

/// Returns true if Kueue, not the scheduler, places the pods by this label.
pub(super) fn is_kueues(key: &str, target: &Target) -> bool {
    target.gang == Some(Gang::Kueue) && target.kueue_levels.contains(key)
}

/// Pod spec fields that make the scheduler prefer nodes near the other ranks.
pub(super) fn pod_fields(job: &JobDocument, key: Option<&str>) -> Value {
    let Some(key) = key else { return json!({}) };
    let term = PodAffinityTerm {
        topology_key: key.to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: Some([(JOB.to_owned(), job.id().to_owned())].into()),
            ..LabelSelector::default()
        }),
        ..PodAffinityTerm::default()
    };
    let pod_affinity = PodAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
            weight: 100,
            pod_affinity_term: term,
        }]),
        ..PodAffinity::default()
    };
    json!({"affinity": {"podAffinity": pod_affinity}})
}

fn existing_key(keys: &[&str], word: &str, target: &Target) -> Result<String, Refusal> {
    if let Some(level) = keys.iter().find(|key| is_kueues(key, target)) {
        return Ok((*level).to_owned());
    }
    let hint = "set the label yourself: `job.topology: LABEL`; `gpuctl describe node NAME` shows a node's labels";
    let Nodes::Listed(nodes) = &target.nodes else {
        let message =
            format!("cannot find the node label for `{word}`: you are not allowed to list nodes");
        return Err(Refusal::new("TopologyNotFound", message, hint));
    };
    let is_present = |key: &&&str| nodes.iter().any(|node| node.labels.contains_key(**key));
    keys.iter()
        .find(is_present)
        .map(|key| (*key).to_owned())
        .ok_or_else(|| {
            let message = format!(
                "no node has a label for `{word}` (tried {})",
                keys.join(", ")
            );
            Refusal::new("TopologyNotFound", message, hint)
        })
}
