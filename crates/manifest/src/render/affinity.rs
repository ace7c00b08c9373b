//! Builds node affinity: requirements, alternatives and preferences. Works on labels only; taints
//! and capacity are checked elsewhere.

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

const HOSTNAME: &str = "kubernetes.io/hostname";

fn pool_requirement(requested: &JobResources) -> Option<NodeSelectorRequirement> {
    requested
        .pool
        .as_ref()
        .map(|pool| in_values(POOL_LABEL, vec![pool.value.clone()]))
}

/// Requirements that apply to every alternative: the pool, and the excluded nodes.
pub(super) fn base_requirements(requested: &JobResources) -> Vec<NodeSelectorRequirement> {
    let excluded = (!requested.exclude_nodes.is_empty()).then(|| NodeSelectorRequirement {
        key: HOSTNAME.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(requested.exclude_nodes.clone()),
    });
    pool_requirement(requested)
        .into_iter()
        .chain(excluded)
        .collect()
}

pub(super) fn in_values(key: &str, values: Vec<String>) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(values),
    }
}

/// Builds one requirement per label of the GPU type, with the values that the nodes actually have.
pub(super) fn type_terms(nodes: &[&Node]) -> Vec<NodeSelectorRequirement> {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (key, value) in nodes.iter().filter_map(|node| node.type_label()) {
        values.entry(key).or_default().insert(value.to_owned());
    }
    values
        .into_iter()
        .map(|(key, values)| in_values(key, values.into_iter().collect()))
        .collect()
}

/// Selects the labels that cloud node groups use for this GPU type. An autoscaler does not add a
/// node for a label that it does not know (karpenter-provider-aws#7535), even if existing nodes
/// have it.
pub(super) fn cloud_terms(
    kind: &GpuType,
    existing: &[NodeSelectorRequirement],
) -> Vec<NodeSelectorRequirement> {
    let is_new_cloud_label = |key: &&'static str| {
        gpu::CLOUD_TYPE_LABELS.contains(key) && existing.iter().all(|term| term.key != **key)
    };
    let labels = kind
        .known_labels()
        .into_iter()
        .filter(|(key, _)| is_new_cloud_label(key));
    labels
        .map(|(key, values)| in_values(key, values.into_iter().collect()))
        .collect()
}

/// Keeps jobs that request whole GPUs off nodes that offer fractions under the same resource name.
/// The label `nvidia.com/gpu.replicas` counts time-sliced or MPS shares. With MIG's single
/// strategy, only the product name shows that a device is a slice.
pub(super) fn avoid_shared_gpus(
    resources: &BTreeMap<String, Quantity>,
    nodes: &[Node],
) -> Vec<NodeSelectorRequirement> {
    const PRODUCT: &str = "nvidia.com/gpu.product";
    // `NotIn` needs explicit values, so list every count up to this one. Devices are rarely split
    // into more shares. Higher counts are added if existing nodes have them.
    const MOST: u32 = 10;
    if resources.len() != 1 || !resources.contains_key(gpu::WHOLE[0]) {
        return Vec::new();
    }
    let label_values =
        |key: &'static str| nodes.iter().filter_map(move |node| node.labels.get(key));
    let counts: BTreeSet<u32> = label_values(gpu::REPLICAS_LABEL)
        .filter_map(|text| text.parse().ok())
        .filter(|count| *count > 1)
        .chain(2..=MOST)
        .collect();
    let parts: BTreeSet<&String> = label_values(PRODUCT)
        .filter(|name| name.contains("-MIG-") || name.ends_with("-SHARED"))
        .collect();
    // `NotIn` also matches nodes without the label.
    let not_in = |key: &str, values: Vec<String>| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(values),
    };
    let products =
        (!parts.is_empty()).then(|| not_in(PRODUCT, parts.into_iter().cloned().collect()));
    [not_in(
        gpu::REPLICAS_LABEL,
        counts.into_iter().map(|count| count.to_string()).collect(),
    )]
    .into_iter()
    .chain(products)
    .collect()
}

/// Builds the affinity. Alternatives become separate terms, each with all requirements, because
/// Kubernetes ORs terms and ANDs the expressions of a term.
pub(super) fn affinity(
    base: Vec<NodeSelectorRequirement>,
    alternatives: Vec<NodeSelectorRequirement>,
    preferred: Vec<PreferredSchedulingTerm>,
) -> Option<Affinity> {
    let with_all = |other: Option<NodeSelectorRequirement>| {
        let requirements: Vec<_> = base.iter().cloned().chain(other).collect();
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

/// Prefers nodes without GPUs for jobs that need none.
pub(super) fn without_gpus() -> PreferredSchedulingTerm {
    PreferredSchedulingTerm {
        weight: 100,
        preference: lacks_labels(TYPE_LABELS),
    }
}

/// Prefers nodes outside pools for jobs without a pool.
pub(super) fn prefer_no_pool(
    requested: &JobResources,
    nodes: &[Node],
) -> Option<PreferredSchedulingTerm> {
    let prefers_no_pool =
        requested.pool.is_none() && nodes.iter().any(|node| node.pool().is_some());
    prefers_no_pool.then(|| PreferredSchedulingTerm {
        weight: 50,
        preference: lacks_labels([POOL_LABEL]),
    })
}

fn lacks_labels<const COUNT: usize>(keys: [&str; COUNT]) -> NodeSelectorTerm {
    let lacks_label = |key: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    NodeSelectorTerm {
        match_expressions: Some(keys.into_iter().map(lacks_label).collect()),
        match_fields: None,
    }
}
