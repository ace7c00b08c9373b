//! Compares the pods of a job with each node as the scheduler does.

use std::collections::BTreeMap;

use gpuctl_core::model::Node;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::{Amounts, lacking, pods_held};
use gpuctl_core::model::counting::fit::{Domain, Fit, FitVerdict, NodeGroup};
use gpuctl_core::model::counting::fit_reason::FitReason;
use gpuctl_diagnosis::insufficient;
use gpuctl_manifest::render::{PodRules, VolumeRules};

/// The result of comparing a pod with one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeVerdict {
    cause: Option<(&'static str, Option<String>)>,
    /// Number of pods that fit now, or `None` if the node's free resources are unknown.
    pods_now: Option<u64>,
    /// Number of pods that fit on the node if it runs no other pods, even if it is cordoned.
    pods_when_empty: u64,
}

/// Compares pods with nodes. `usage` is `None` if the free resources are unknown.
pub(super) fn compare_nodes(
    pod: &PodRules,
    volumes: &VolumeRules,
    requests: &Amounts,
    pods: u64,
    nodes: &[Node],
    usage: Option<&ClusterCapacity>,
) -> Fit {
    let mut groups: BTreeMap<Option<(&'static str, Option<String>)>, NodeGroup> = BTreeMap::new();
    let (mut pods_now, mut pods_when_empty) = (0_u64, 0_u64);
    for node in nodes {
        let free = usage.and_then(|usage| usage.free.get(&node.name));
        let verdict = fit_node(pod, volumes, requests, node, free);
        pods_now = pods_now.saturating_add(verdict.pods_now.unwrap_or(0));
        pods_when_empty = pods_when_empty.saturating_add(verdict.pods_when_empty);
        let (cause, detail) = verdict
            .cause
            .clone()
            .map_or((None, None), |(cause, detail)| (Some(cause), detail));
        let group = groups.entry(verdict.cause).or_insert_with(|| NodeGroup {
            cause,
            detail,
            nodes: Vec::new(),
            pods_now: Some(0),
        });
        group.nodes.push(node.name.clone());
        group.pods_now = group
            .pods_now
            .zip(verdict.pods_now)
            .map(|(group, node)| group.saturating_add(node));
    }
    // Assume that nodes added by an autoscaler equal the existing nodes of their group.
    let accepts = |node: &&Node| {
        pod.unmet_label(node).is_none()
            && pod.untolerated_taint(node).is_none()
            && volumes.unmet_claim(node).is_none()
    };
    let may_autoscale = nodes.iter().filter(accepts).any(Node::is_autoscaled);
    let (verdict, not_evaluated) = match usage {
        _ if nodes.is_empty() => (
            FitVerdict::Unknown,
            Some(("nodes-unreadable", "nodes, which cannot be listed")),
        ),
        _ if pods_when_empty < pods && may_autoscale => (
            FitVerdict::Unknown,
            Some(("autoscaler", "nodes that an autoscaler may add")),
        ),
        _ if pods_when_empty < pods => (FitVerdict::Never, None),
        None => (
            FitVerdict::Unknown,
            Some((
                "capacity-unreadable",
                "free resources: you are not allowed to list all nodes and pods",
            )),
        ),
        Some(_) if pods_now >= pods => (FitVerdict::Now, None),
        Some(_) => (FitVerdict::NotNow, None),
    };
    let not_evaluated = not_evaluated.map(|(cause, text)| FitReason::new(cause, text));
    Fit {
        verdict,
        pods,
        pods_now: usage.map(|_| pods_now.min(pods)),
        gpus_per_pod: 0,
        groups: groups.into_values().collect(),
        domains: Vec::new(),
        victims: None,
        free_by: None,
        reasons: Vec::new(),
        not_evaluated: not_evaluated.into_iter().collect(),
        warnings: Vec::new(),
        queue: None,
    }
}

/// Compares the nodes of each label value separately. The verdict and the answer are those of the
/// value with the best result.
pub(super) fn fit_domains(
    answer: &mut Fit,
    label: &str,
    nodes: &[Node],
    compare: impl Fn(&[Node]) -> Fit,
) {
    let mut domains: BTreeMap<&str, Vec<Node>> = BTreeMap::new();
    for node in nodes {
        if let Some(value) = node.labels.get(label) {
            domains.entry(value).or_default().push(node.clone());
        }
    }
    let mut results: Vec<(Domain, Fit)> = domains
        .into_iter()
        .map(|(value, nodes)| {
            let fit = compare(&nodes);
            let (verdict, pods_now) = (fit.verdict, fit.pods_now);
            (
                Domain {
                    value: value.to_owned(),
                    verdict,
                    pods_now,
                    nodes: nodes.len(),
                },
                fit,
            )
        })
        .collect();
    results.sort_by_key(|(domain, _)| (domain.verdict, std::cmp::Reverse(domain.pods_now)));
    match results.first() {
        Some((domain, fit)) => {
            (answer.verdict, answer.pods_now) = (domain.verdict, domain.pods_now);
            answer.not_evaluated.clone_from(&fit.not_evaluated);
            answer.groups.clone_from(&fit.groups);
        }
        None => {
            (answer.verdict, answer.pods_now) = (FitVerdict::Unknown, None);
            let text = format!("domains: no node that you may list has the label {label}");
            answer.not_evaluated = vec![FitReason::new("label-missing", text)];
        }
    }
    answer.domains = results.into_iter().map(|(domain, _)| domain).collect();
}

fn fit_node(
    pod: &PodRules,
    volumes: &VolumeRules,
    requests: &Amounts,
    node: &Node,
    free: Option<&Amounts>,
) -> NodeVerdict {
    let never = |cause, detail| NodeVerdict {
        cause: Some((cause, detail)),
        pods_now: Some(0),
        pods_when_empty: 0,
    };
    if let Some(label) = pod.unmet_label(node) {
        return never("node-selector", Some(label));
    }
    if let Some(claim) = volumes.unmet_claim(node) {
        return never("volume-topology", Some(claim.to_owned()));
    }
    let fitting = |amounts: &Amounts| {
        pods_held(
            requests,
            &BTreeMap::from([(node.name.clone(), amounts.clone())]),
        )
    };
    let with_volumes = volumes.on_node(node);
    let pods_when_empty = fitting(&node.most()).min(with_volumes.pods_when_empty);
    if let Some(taint) = pod.untolerated_taint(node) {
        // Kubernetes manages these taints according to the node's condition, such as `not-ready` or
        // `disk-pressure`.
        let pods_when_empty = if taint.key.starts_with("node.kubernetes.io/") {
            pods_when_empty
        } else {
            0
        };
        return NodeVerdict {
            cause: Some(("taint", Some(taint.key.clone()))),
            pods_now: Some(0),
            pods_when_empty,
        };
    }
    if !node.schedulable {
        return NodeVerdict {
            cause: Some(("cordoned", None)),
            pods_now: Some(0),
            pods_when_empty,
        };
    }
    let insufficiency = |amounts: &Amounts| {
        let shortage = lacking(requests, amounts).into_iter().next()?;
        Some((insufficient(&shortage), Some(shortage)))
    };
    let empty = node.now();
    let of_volumes = with_volumes
        .cause
        .map(|(cause, detail)| (cause, Some(detail)));
    let cause = insufficiency(free.unwrap_or(&empty)).or(of_volumes);
    let fitting_now = |free: &Amounts| fitting(free).min(with_volumes.pods_now);
    NodeVerdict {
        // A node that lacks a resource even when it is empty holds no pod for certain.
        pods_now: free
            .map(fitting_now)
            .or_else(|| cause.is_some().then_some(0)),
        cause,
        pods_when_empty,
    }
}

#[cfg(test)]
mod tests;
