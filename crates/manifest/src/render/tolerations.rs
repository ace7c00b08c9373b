//! Determines which taints a job tolerates: taints that dedicate nodes to GPUs, and the taint of
//! its pool. Warns if other taints exclude every node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::spec::{JobDocument, JobResources};
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::facts::node::DEDICATED;
use gpuctl_core::model::{Node, Taint};

pub(super) fn tolerations(
    requested: &JobResources,
    nodes: &[&Node],
    resources: &BTreeMap<String, Quantity>,
) -> Vec<Toleration> {
    let mut keys: BTreeSet<(String, Option<&str>)> = resources
        .keys()
        .map(|resource| (vendor_key(resource), None))
        .collect();
    let taints = || nodes.iter().flat_map(|node| &node.taints);
    let present = DEDICATED
        .into_iter()
        .filter(|dedicated| taints().any(|taint| is_dedicated(taint, *dedicated)));
    keys.extend(present.map(|(key, value)| (key.to_owned(), value)));
    let mut tolerations: Vec<Toleration> = keys
        .into_iter()
        .map(|(key, value)| tolerate(&key, value))
        .collect();
    tolerations.extend(pool_tolerations(requested));
    tolerations
}

/// Returns the toleration for nodes that are dedicated to a driver's devices, such as
/// `nvidia.com/gpu` for the driver `gpu.nvidia.com`.
pub(super) fn driver_toleration(driver: &str) -> Option<Toleration> {
    driver
        .strip_prefix("gpu.")
        .map(|vendor| tolerate(&format!("{vendor}/gpu"), None))
}

/// Returns the taint key for a resource. Nodes with `nvidia.com/mig-1g.10gb` also have the taint
/// `nvidia.com/gpu`.
fn vendor_key(resource: &str) -> String {
    match resource.split_once('/') {
        Some(("nvidia.com", _)) => "nvidia.com/gpu".to_owned(),
        _ => resource.to_owned(),
    }
}

/// Tolerates the taint of the job's pool even if the pool has no taint yet, because it may become
/// exclusive later.
pub(super) fn pool_tolerations(requested: &JobResources) -> Vec<Toleration> {
    requested
        .pool
        .iter()
        .map(|pool| tolerate(POOL_LABEL, Some(&pool.value)))
        .collect()
}

fn tolerate(key: &str, value: Option<&str>) -> Toleration {
    let operator = if value.is_some() { "Equal" } else { "Exists" };
    Toleration {
        key: Some(key.to_owned()),
        operator: Some(operator.to_owned()),
        value: value.map(ToOwned::to_owned),
        // Administrators use `NoExecute` taints to evict all pods, so do not tolerate them.
        effect: Some("NoSchedule".to_owned()),
        ..Toleration::default()
    }
}

fn is_dedicated(taint: &Taint, (key, value): (&str, Option<&str>)) -> bool {
    taint.key == key && value.is_none_or(|value| taint.value.as_deref() == Some(value))
}

/// Selects the nodes whose taints the job tolerates. If none remains, warns and keeps all nodes,
/// because taints may change until the job is scheduled.
pub(super) fn tolerated_nodes<'n>(
    nodes: Vec<&'n Node>,
    job: &JobDocument,
    computed: &[Toleration],
    warnings: &mut Vec<String>,
) -> Vec<&'n Node> {
    let overlay = job
        .pod
        .as_ref()
        .filter(|_| !job.site.tolerations_enforced)
        .and_then(|pod| pod.get("tolerations"));
    let mut user_tolerations: Vec<Toleration> = overlay
        .and_then(|list| serde_json::from_value(list.clone()).ok())
        .unwrap_or_default();
    user_tolerations.extend(site_tolerations(job));
    let nodes = selected_nodes(nodes, job, warnings);
    let hostile = |node: &'n Node| {
        node.taints.iter().find(|taint| {
            excludes_pods(taint)
                && !computed
                    .iter()
                    .chain(&user_tolerations)
                    .any(|toleration| tolerates(toleration, taint))
        })
    };
    let tolerated: Vec<&Node> = nodes
        .iter()
        .copied()
        .filter(|node| hostile(node).is_none())
        .collect();
    if !tolerated.is_empty() || nodes.is_empty() {
        return tolerated;
    }
    let mut taints: BTreeMap<String, (&Taint, usize)> = BTreeMap::new();
    for taint in nodes.iter().filter_map(|node| hostile(node)) {
        let value = taint
            .value
            .as_ref()
            .map_or(String::new(), |value| format!("={value}"));
        taints
            .entry(format!("{}{value}:{}", taint.key, taint.effect))
            .or_insert((taint, 0))
            .1 += 1;
    }
    let list: Vec<String> = taints
        .iter()
        .map(|(text, (_, count))| {
            format!(
                "`{text}` ({count} node{})",
                if *count == 1 { "" } else { "s" }
            )
        })
        .collect();
    let example = taints
        .values()
        .next()
        .map_or("", |(taint, _)| taint.key.as_str());
    warnings.push(format!(
        "every eligible node has a taint that the job does not tolerate: {}; to use these nodes anyway, set `pod: {{tolerations: [{{key: {example}, operator: Exists}}]}}`",
        list.join(", ")
    ));
    nodes
}

/// Selects the nodes that match the site's selector. If none remains, warns and keeps all nodes,
/// because a matching node may be added.
fn selected_nodes<'n>(
    nodes: Vec<&'n Node>,
    job: &JobDocument,
    warnings: &mut Vec<String>,
) -> Vec<&'n Node> {
    let matches: Vec<&Node> = nodes
        .iter()
        .copied()
        .filter(|node| is_selected(node, job))
        .collect();
    if !matches.is_empty() || nodes.is_empty() {
        return matches;
    }
    let labels: Vec<String> = job
        .site
        .node_selector
        .iter()
        .map(|(key, value)| format!("`{key}={value}`"))
        .collect();
    warnings.push(format!(
        "no eligible node has {}, which the site's defaults require",
        labels.join(" and ")
    ));
    nodes
}

/// Returns true if a taint excludes pods permanently. Taints for a node's conditions are temporary.
fn excludes_pods(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") && !is_temporary(&taint.key)
}

/// Returns true if Kubernetes or a cloud sets and removes taints with this key.
pub fn is_temporary(key: &str) -> bool {
    ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

pub(super) fn with_site(mut tolerations: Vec<Toleration>, job: &JobDocument) -> Vec<Toleration> {
    for toleration in site_tolerations(job) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    tolerations
}

fn site_tolerations(job: &JobDocument) -> impl Iterator<Item = Toleration> {
    job.site.tolerations.iter().map(|toleration| Toleration {
        effect: Some(toleration.effect.to_owned()),
        ..tolerate(&toleration.key, toleration.value.as_deref())
    })
}

/// Returns true if a node has all labels of the site's selector.
fn is_selected(node: &Node, job: &JobDocument) -> bool {
    // Published nodes lack most of their labels, so assume a match.
    node.slim
        || job
            .site
            .node_selector
            .iter()
            .all(|(key, value)| node.labels.get(key) == Some(value))
}

/// Compares as the scheduler does (core/v1 `Toleration`): an empty key or effect matches any value.
pub(super) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration
        .effect
        .as_deref()
        .is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration
        .key
        .as_deref()
        .is_none_or(|key| key.is_empty() || key == taint.key);
    let any_value = toleration.operator.as_deref() == Some("Exists");
    effect
        && key
        && (any_value
            || toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(taints: &[(&str, &str, &str)]) -> Node {
        let taint = |(key, value, effect): &(&str, &str, &str)| Taint {
            key: (*key).to_owned(),
            value: Some((*value).to_owned()).filter(|value| !value.is_empty()),
            effect: (*effect).to_owned(),
        };
        Node {
            taints: taints.iter().map(taint).collect(),
            ..Node::default()
        }
    }

    fn tolerated(nodes: &[Node]) -> Vec<String> {
        let requested = JobResources {
            gpu: 1,
            ..JobResources::default()
        };
        let gpus = BTreeMap::from([("nvidia.com/gpu".to_owned(), Quantity("1".to_owned()))]);
        let nodes: Vec<&Node> = nodes.iter().collect();
        let text = |toleration: Toleration| {
            assert_eq!(
                toleration.effect.as_deref(),
                Some("NoSchedule"),
                "nothing that evicts is tolerated"
            );
            format!(
                "{}={}",
                toleration.key.unwrap_or_default(),
                toleration.value.unwrap_or_default()
            )
        };
        tolerations(&requested, &nodes, &gpus)
            .into_iter()
            .map(text)
            .collect()
    }

    #[test]
    fn dedication_taints_are_tolerated_but_others_are_not() {
        let nodes = [
            node(&[
                ("nvidia.com/gpu", "present", "NoSchedule"),
                ("sku", "gpu", "NoSchedule"),
            ]),
            node(&[
                ("nvidia.com/gpu-unhealthy", "", "NoExecute"),
                ("gpu-reserved", "team-b", "NoSchedule"),
            ]),
            node(&[
                ("sku", "cpu", "NoSchedule"),
                ("amd.com/gpu", "", "NoSchedule"),
            ]),
        ];
        assert_eq!(
            tolerated(&nodes),
            ["amd.com/gpu=", "nvidia.com/gpu=", "sku=gpu"]
        );
        assert_eq!(tolerated(&[]), ["nvidia.com/gpu="]);
    }

    #[test]
    fn excluded_nodes_are_reported_if_no_candidate_is_left() {
        let text = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: b}\nresources: {gpu: 1}\n";
        let job = |fields: &str| match crate::spec::parse("t", &format!("{text}{fields}"))
            .expect("it is valid")
            .documents
            .remove(0)
        {
            crate::spec::Document::Job(job) => *job,
            other => panic!("{other:?}"),
        };
        let (plain, reserved) = (
            node(&[("node.kubernetes.io/not-ready", "", "NoSchedule")]),
            node(&[("gpu-reserved", "team-b", "NoSchedule")]),
        );
        let mut warnings = Vec::new();
        assert_eq!(
            tolerated_nodes(vec![&plain, &reserved], &job(""), &[], &mut warnings),
            [&plain]
        );
        assert_eq!(warnings, [""; 0]);
        assert_eq!(
            tolerated_nodes(vec![&reserved], &job(""), &[], &mut warnings),
            [&reserved]
        );
        assert!(
            warnings[0].contains("`gpu-reserved=team-b:NoSchedule` (1 node)"),
            "{warnings:?}"
        );
        warnings.clear();
        let tolerant_job =
            job("pod: {tolerations: [{key: gpu-reserved, operator: Equal, value: team-b}]}\n");
        assert_eq!(
            tolerated_nodes(vec![&reserved], &tolerant_job, &[], &mut warnings),
            [&reserved]
        );
        assert_eq!(warnings, [""; 0]);
    }
}
