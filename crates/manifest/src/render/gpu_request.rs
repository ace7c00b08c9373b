//! Selects how a pod requests GPUs: as whole GPUs, as shares, or through a device claim.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Refusal;
use super::affinity::avoid_shared_gpus;
use super::claim::{DeviceClaim, claim_from_nodes};
use crate::spec::{JobResources, Share};
use gpuctl_core::model::Node;
use gpuctl_core::model::facts::gpu;
use gpuctl_core::model::facts::gpu::HAMI_REGISTER;
use gpuctl_core::model::values::quantity;

/// The request of one pod.
pub(super) struct PodRequest<'n> {
    pub(super) resources: BTreeMap<String, Quantity>,
    /// The nodes that offer the resources.
    pub(super) serving: Vec<&'n Node>,
    /// Requirements that exclude nodes with something else under the same resource name, such as
    /// shares.
    pub(super) requirements: Vec<NodeSelectorRequirement>,
    /// The device claim, if the nodes offer no extended resource.
    pub(super) claim: Option<DeviceClaim>,
}

/// Chooses the request of one pod. `nodes` are the nodes that match the job's requirements, and
/// `all_nodes` are all nodes of the cluster.
pub(super) fn resources<'n>(
    requested: &JobResources,
    nodes: &[&'n Node],
    all_nodes: &[Node],
    warnings: &mut Vec<String>,
) -> Result<PodRequest<'n>, Refusal> {
    if let Some(share) = &requested.gpu_share {
        if let Some((resources, serving)) = request_share(requested, &share.value, nodes) {
            return Ok(PodRequest {
                resources,
                serving,
                requirements: Vec::new(),
                claim: None,
            });
        }
        if let Some(request) = time_slices(requested, &share.value, nodes, warnings) {
            return Ok(request);
        }
    }
    let by_resource: BTreeMap<&'static str, Vec<&Node>> =
        nodes.iter().fold(BTreeMap::new(), |mut map, node| {
            if let Some(resource) = node
                .whole_resource()
                .filter(|_| !node.offers_parts_as_gpus())
            {
                map.entry(resource).or_insert_with(Vec::new).push(*node);
            }
            map
        });
    let by_resource = with_claims(requested, nodes, by_resource);
    let claim = claimed(requested, nodes).filter(|_| by_resource.is_empty());
    if claim.is_none() && by_resource.is_empty() && !nodes.is_empty() {
        return Err(no_whole_gpus(requested, nodes));
    }
    if let Some(share) = requested
        .gpu_share
        .as_ref()
        .filter(|share| share.value != Share::Fraction(1.0))
    {
        let share_text = match &share.value {
            Share::Memory(text) => text.clone(),
            Share::Fraction(part) => part.to_string(),
        };
        warnings.push(format!("gpu_share: {share_text} has no effect on this cluster (no device plugin for GPU sharing); requesting whole GPUs"));
    }
    if let Some(request) = claim {
        return Ok(request);
    }
    let chosen = gpu::WHOLE
        .into_iter()
        .find(|resource| by_resource.contains_key(resource))
        .unwrap_or(gpu::WHOLE[0]);
    warnings.extend(other_resources(&by_resource, chosen));
    let serving = by_resource.get(chosen).cloned().unwrap_or_default();
    let resources = count(chosen, requested.gpu.into());
    let requirements = avoid_shared_gpus(&resources, all_nodes);
    Ok(PodRequest {
        resources,
        serving,
        requirements,
        claim: None,
    })
}

/// Adds the nodes on which a driver of dynamic resource allocation serves the same resources. The
/// scheduler places plain requests on them too (KEP-5004).
fn with_claims<'n>(
    requested: &JobResources,
    nodes: &[&'n Node],
    by_resource: BTreeMap<&'static str, Vec<&'n Node>>,
) -> BTreeMap<&'static str, Vec<&'n Node>> {
    // A requested type becomes a requirement for labels, which such a node may lack.
    let is_selectable = |node: &Node| requested.gpu_type.is_none() || node.type_label().is_some();
    let served = |resource: &str| {
        let serves = |node: &&Node| node.served_by_claims(resource) > 0 && is_selectable(node);
        nodes.iter().copied().filter(serves).collect::<Vec<&Node>>()
    };
    by_resource
        .into_iter()
        .map(|(resource, with_plugin)| (resource, [with_plugin, served(resource)].concat()))
        .collect()
}

/// Refuses a request for whole GPUs if the nodes offer only fractions of GPUs.
fn no_whole_gpus(requested: &JobResources, nodes: &[&Node]) -> Refusal {
    let sizes: BTreeSet<&str> = nodes
        .iter()
        .flat_map(|node| node.allocatable.keys())
        .filter_map(|name| gpu::mig_profile(name))
        .collect();
    let sizes = if sizes.is_empty() {
        "time-sliced or MPS shares".to_owned()
    } else {
        sizes.into_iter().collect::<Vec<_>>().join(", ")
    };
    let refusal = Refusal::new(
        "NoWholeGpus",
        format!("the eligible nodes offer only partial GPUs: {sizes}"),
        "if part of a GPU is enough, request it by memory: `gpu_share: 10Gi`",
    );
    refusal.with_position(requested.gpu_at)
}

/// Warns if nodes offer GPUs under several resource names, because the pod can request only one.
fn other_resources(by_resource: &BTreeMap<&str, Vec<&Node>>, chosen: &str) -> Option<String> {
    if by_resource.len() <= 1 {
        return None;
    }
    let others: Vec<&str> = by_resource
        .keys()
        .copied()
        .filter(|resource| *resource != chosen)
        .collect();
    Some(format!(
        "the eligible nodes offer {chosen} and {}; requesting {chosen} (set `resources.pool` or `gpu-type` to choose)",
        others.join(", ")
    ))
}

/// Requests devices on nodes that offer them only through dynamic resource allocation.
fn claimed<'n>(requested: &JobResources, nodes: &[&'n Node]) -> Option<PodRequest<'n>> {
    let (claim, serving) = claim_from_nodes(requested, nodes)?;
    Some(PodRequest {
        resources: BTreeMap::new(),
        serving,
        requirements: Vec::new(),
        claim: Some(claim),
    })
}

/// Requests shares that the device plugin creates by time-slicing or MPS. All shares are equal,
/// whatever size the file requests.
fn time_slices<'n>(
    requested: &JobResources,
    share: &Share,
    nodes: &[&'n Node],
    warnings: &mut Vec<String>,
) -> Option<PodRequest<'n>> {
    // NVIDIA's device plugin uses this name if `renameByDefault` is set.
    const RENAMED: &str = "nvidia.com/gpu.shared";
    let serving: Vec<&Node> = nodes
        .iter()
        .copied()
        .filter(|node| node.shares().is_some())
        .collect();
    if serving.is_empty() || *share == Share::Fraction(1.0) {
        return None;
    }
    let counts: BTreeSet<String> = serving
        .iter()
        .filter_map(|node| node.shares())
        .map(|count| count.to_string())
        .collect();
    warnings.push(format!(
        "a share on these nodes is one of {} per GPU and has no reserved memory",
        counts.into_iter().collect::<Vec<_>>().join(" or ")
    ));
    let renamed: Vec<&Node> = serving
        .iter()
        .copied()
        .filter(|node| node.allocatable(RENAMED) > 0)
        .collect();
    if !renamed.is_empty() {
        let resources = count(RENAMED, requested.gpu.into());
        return Some(PodRequest {
            resources,
            serving: renamed,
            requirements: Vec::new(),
            claim: None,
        });
    }
    let shared = NodeSelectorRequirement {
        key: gpu::REPLICAS_LABEL.to_owned(),
        operator: "Gt".to_owned(),
        values: Some(vec!["1".to_owned()]),
    };
    Some(PodRequest {
        resources: count(gpu::WHOLE[0], requested.gpu.into()),
        serving,
        requirements: vec![shared],
        claim: None,
    })
}

pub(super) fn count(resource: &str, amount: u64) -> BTreeMap<String, Quantity> {
    BTreeMap::from([(resource.to_owned(), Quantity(amount.to_string()))])
}

/// Requests a share by the mechanism that the nodes have: HAMi, Aliyun's gpushare, or MIG.
fn request_share<'n>(
    requested: &JobResources,
    share: &Share,
    nodes: &[&'n Node],
) -> Option<(BTreeMap<String, Quantity>, Vec<&'n Node>)> {
    let nodes_where = |test: &dyn Fn(&Node) -> bool| {
        nodes
            .iter()
            .copied()
            .filter(|node| test(node))
            .collect::<Vec<&Node>>()
    };
    let bytes = match share {
        Share::Memory(text) => quantity::whole(text),
        Share::Fraction(_) => None,
    };
    if *share == Share::Fraction(1.0) {
        return None;
    }
    let hami = nodes_where(&|node| node.annotations.contains_key(HAMI_REGISTER));
    if !hami.is_empty() {
        let mut resources = count("nvidia.com/gpu", requested.gpu.into());
        match share {
            Share::Memory(_) => {
                // HAMi counts `nvidia.com/gpumem` in mebibytes.
                resources.extend(count("nvidia.com/gpumem", bytes?.div_ceil(1 << 20)));
            }
            Share::Fraction(part) => {
                let percent = Quantity(format!("{:.0}", (part * 100.0).max(1.0)));
                resources.insert("nvidia.com/gpumem-percentage".to_owned(), percent.clone());
                resources.insert("nvidia.com/gpucores".to_owned(), percent);
            }
        }
        return Some((resources, hami));
    }
    let aliyun = nodes_where(&|node| node.allocatable(gpu::SHARED_MEMORY) > 0);
    if let Some(bytes) = bytes.filter(|_| !aliyun.is_empty()) {
        // Aliyun's gpushare counts device memory in gibibytes.
        return Some((count(gpu::SHARED_MEMORY, bytes.div_ceil(1 << 30)), aliyun));
    }
    let profiles: BTreeSet<(u64, &str)> = nodes
        .iter()
        .flat_map(|node| {
            node.allocatable
                .keys()
                .filter(|resource| node.allocatable(resource) > 0)
        })
        .filter_map(|resource| {
            Some((
                gpu::mig_gigabytes(gpu::mig_profile(resource)?)?,
                resource.as_str(),
            ))
        })
        .collect();
    // MIG profiles use decimal gigabytes, but users write 10Gi for a 10gb slice.
    let (_, profile) = profiles
        .iter()
        .find(|(gigabytes, _)| bytes.is_some_and(|bytes| bytes <= gigabytes << 30))?;
    let serving = nodes_where(&|node| node.allocatable(profile) > 0);
    Some((count(profile, requested.gpu.into()), serving))
}
