//! Builds the rules by which the scheduler picks nodes: what always holds, alternatives, and
//! preferences. It knows labels and nothing of taints and amounts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PreferredSchedulingTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::spec::JobResources;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::facts::gpu;
use gpuctl_core::model::facts::gpu::TYPE_LABELS;
use gpuctl_core::model::{GpuType, Node};

/// The label with the name of the node.
const HOSTNAME: &str = "kubernetes.io/hostname";

fn pool_requirement(wanted: &JobResources) -> Option<NodeSelectorRequirement> {
    wanted
        .pool
        .as_ref()
        .map(|pool| is_in(POOL_LABEL, vec![pool.value.clone()]))
}

/// Returns what always holds: the pool, and the nodes that are left out.
pub(super) fn always(wanted: &JobResources) -> Vec<NodeSelectorRequirement> {
    let excluded = (!wanted.exclude_nodes.is_empty()).then(|| NodeSelectorRequirement {
        key: HOSTNAME.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(wanted.exclude_nodes.clone()),
    });
    pool_requirement(wanted)
        .into_iter()
        .chain(excluded)
        .collect()
}

pub(super) fn is_in(key: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values),
    }
}

/// Returns one requirement per label that tells the type, with the values that the nodes really
/// carry.
pub(super) fn type_terms(nodes: &[&Node]) -> Vec<NodeSelectorRequirement> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (key, value) in nodes.iter().filter_map(|node| node.type_label()) {
        values.entry(key).or_default().insert(value.to_owned());
    }
    values
        .into_iter()
        .map(|(key, values)| is_in(key, values.into_iter().collect()))
        .collect()
}

/// Returns the labels by which the node groups of clouds are known to have this type: an autoscaler
/// brings no node for a label that it does not know (karpenter-provider-aws#7535), also when nodes
/// of the type are there already.
pub(super) fn cloud_terms(
    kind: &GpuType,
    there: &[NodeSelectorRequirement],
) -> Vec<NodeSelectorRequirement> {
    let of_cloud = |key: &&'static str| {
        gpu::CLOUD_TYPE_LABELS.contains(key) && there.iter().all(|term| term.key != **key)
    };
    let labels = kind
        .known_labels()
        .into_iter()
        .filter(|(key, _)| of_cloud(key));
    labels
        .map(|(key, values)| is_in(key, values.into_iter().collect()))
        .collect()
}

/// Keeps a job that asks for whole GPUs off nodes that offer parts under the same name: time-sliced
/// or MPS shares, which the label `nvidia.com/gpu.replicas` counts, and slices of MIG under its
/// single strategy, which only the product's name tells.
pub(super) fn whole_only(
    resources: &BTreeMap<String, Quantity>,
    nodes: &[Node],
) -> Vec<NodeSelectorRequirement> {
    const PRODUCT: &str = "nvidia.com/gpu.product";
    // More shares than that are seldom made of one device; those that are here are named.
    const MOST: u32 = 10;
    if resources.len() != 1 || !resources.contains_key(gpu::WHOLE[0]) {
        return Vec::new();
    }
    let of_nodes = |key: &'static str| nodes.iter().filter_map(move |node| node.labels.get(key));
    let counts: BTreeSet<u32> = of_nodes(gpu::REPLICAS_LABEL)
        .filter_map(|text| text.parse().ok())
        .filter(|count| *count > 1)
        .chain(2..=MOST)
        .collect();
    let parts: BTreeSet<&String> = of_nodes(PRODUCT)
        .filter(|name| name.contains("-MIG-") || name.ends_with("-SHARED"))
        .collect();
    let except = |key: &str, values: Vec<String>| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(values),
    };
    let products =
        (!parts.is_empty()).then(|| except(PRODUCT, parts.into_iter().cloned().collect()));
    [except(
        gpu::REPLICAS_LABEL,
        counts.into_iter().map(|count| count.to_string()).collect(),
    )]
    .into_iter()
    .chain(products)
    .collect()
}

/// Alternatives are separate terms, each with what always holds.
pub(super) fn affinity(
    always: Vec<NodeSelectorRequirement>,
    alternatives: Vec<NodeSelectorRequirement>,
    preferred: Vec<PreferredSchedulingTerm>,
) -> Option<Affinity> {
    let with_all = |other: Option<NodeSelectorRequirement>| {
        let requirements: Vec<_> = always.iter().cloned().chain(other).collect();
        (!requirements.is_empty()).then_some(NodeSelectorTerm {
            match_expressions: Some(requirements),
            match_fields: None,
        })
    };
    let terms: Vec<NodeSelectorTerm> = if alternatives.is_empty() {
        with_all(None).into_iter().collect()
    } else {
        alternatives
            .into_iter()
            .filter_map(|other| with_all(Some(other)))
            .collect()
    };
    let required = (!terms.is_empty()).then_some(NodeSelector {
        node_selector_terms: terms,
    });
    if required.is_none() && preferred.is_empty() {
        return None;
    }
    Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: Some(preferred)
                .filter(|terms| !terms.is_empty()),
        }),
        ..Affinity::default()
    })
}

/// Keeps a job without GPUs off the nodes that have GPUs.
pub(super) fn without_gpus() -> PreferredSchedulingTerm {
    PreferredSchedulingTerm {
        weight: 100,
        preference: without(TYPE_LABELS),
    }
}

/// Leaves the nodes of pools to the jobs that ask for them, as long as others are free.
pub(super) fn outside_of_pools(
    wanted: &JobResources,
    nodes: &[Node],
) -> Option<PreferredSchedulingTerm> {
    let of_none = wanted.pool.is_none() && nodes.iter().any(|node| node.pool().is_some());
    of_none.then(|| PreferredSchedulingTerm {
        weight: 50,
        preference: without([POOL_LABEL]),
    })
}

fn without<const COUNT: usize>(keys: [&str; COUNT]) -> NodeSelectorTerm {
    let absent = |key: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    NodeSelectorTerm {
        match_expressions: Some(keys.into_iter().map(absent).collect()),
        match_fields: None,
    }
}
