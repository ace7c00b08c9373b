//! Compares a pod with a node as the scheduler does: node selectors, required node affinity and
//! taints. Also lists the pod's rules that depend on more than the node, such as affinity to other
//! pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorTerm, PersistentVolumeClaim, PodSchedulingGate, Toleration,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::node_terms::unmet_requirement;
use super::tolerations::tolerates;
use gpuctl_core::model::counting::device_claims::DeviceClaims;
use gpuctl_core::model::counting::fit_reason::FitReason;
use gpuctl_core::model::{Node, Taint};

/// Taint of cordoned nodes (`spec.unschedulable`).
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// A pod's requirements for nodes.
#[derive(Clone, Debug, Default)]
pub struct PodRules {
    spec: PodPlacement,
}

/// The scheduling fields of a pod spec, except container resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodPlacement {
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<PodAffinities>,
    tolerations: Option<Vec<Toleration>>,
    topology_spread_constraints: Option<Vec<PodSpread>>,
    scheduler_name: Option<String>,
    scheduling_gates: Option<Vec<PodSchedulingGate>>,
    priority: Option<i32>,
    preemption_policy: Option<String>,
    volumes: Option<Vec<PodVolume>>,
    host_network: Option<bool>,
    containers: Option<Vec<PortedContainer>>,
    init_containers: Option<Vec<PortedContainer>>,
}

#[derive(Clone, Debug, Deserialize)]
struct PortedContainer {
    ports: Option<Vec<DeclaredPort>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeclaredPort {
    host_port: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodAffinities {
    node_affinity: Option<NodeAffinity>,
    pod_affinity: Option<OtherPodsAffinity>,
    pod_anti_affinity: Option<OtherPodsAffinity>,
}

/// Affinity to other pods. gpuctl does not evaluate it, so only its existence matters.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtherPodsAffinity {
    required_during_scheduling_ignored_during_execution: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpread {
    when_unsatisfiable: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodVolume {
    name: Option<String>,
    persistent_volume_claim: Option<MountedClaim>,
    /// A volume whose claim Kubernetes creates for each pod.
    ephemeral: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MountedClaim {
    claim_name: String,
}

impl PodRules {
    /// Reads a pod spec. Ignores all requirements of an invalid spec.
    pub fn from_spec(spec: &Value) -> Self {
        Self {
            spec: PodPlacement::deserialize(spec).unwrap_or_default(),
        }
    }

    /// Returns the first label requirement that the node does not meet.
    pub fn unmet_label(&self, node: &Node) -> Option<String> {
        let mismatch = |(key, value): (&String, &String)| {
            (node.labels.get(key) != Some(value)).then(|| format!("{key}={value}"))
        };
        if let Some(label) = self.spec.node_selector.iter().flatten().find_map(mismatch) {
            return Some(label);
        }
        let affinity = self.spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms = &affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()?
            .node_selector_terms;
        let unmet: Vec<Option<String>> = terms
            .iter()
            .map(|term| unmet_requirement(term, &node.labels, Some(&node.name)))
            .collect();
        // Terms are alternatives, so one match is enough. If none matches, report the first one.
        if unmet.iter().any(Option::is_none) {
            None
        } else {
            unmet.into_iter().next().unwrap_or(None)
        }
    }

    /// Returns the first taint that keeps the pod off the node, except the taint of a cordon.
    pub fn untolerated_taint<'n>(&self, node: &'n Node) -> Option<&'n Taint> {
        let keeps_off = |taint: &&Taint| {
            let tolerated = self
                .spec
                .tolerations
                .iter()
                .flatten()
                .any(|toleration| tolerates(toleration, taint));
            matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                && !tolerated
                && taint.key != CORDON
        };
        node.taints.iter().find(keeps_off)
    }

    /// Returns a copy without the requirements for node labels whose keys `is_dropped` selects.
    #[must_use]
    pub fn without_labels(&self, is_dropped: impl Fn(&str) -> bool) -> Self {
        let mut spec = self.spec.clone();
        if let Some(selector) = &mut spec.node_selector {
            selector.retain(|key, _| !is_dropped(key));
        }
        let affinity = spec
            .affinity
            .as_mut()
            .and_then(|affinity| affinity.node_affinity.as_mut());
        if let Some(affinity) = affinity
            && let Some(required) =
                &mut affinity.required_during_scheduling_ignored_during_execution
        {
            for term in &mut required.node_selector_terms {
                if let Some(expressions) = &mut term.match_expressions {
                    expressions.retain(|expression| !is_dropped(&expression.key));
                }
            }
            let is_empty = |term: &NodeSelectorTerm| {
                term.match_expressions.as_ref().is_none_or(Vec::is_empty)
                    && term.match_fields.as_ref().is_none_or(Vec::is_empty)
            };
            // In Kubernetes, a term without requirements matches no node. But dropping a term's
            // requirements means that it matches every node, and so does the whole affinity.
            if required.node_selector_terms.iter().any(is_empty) {
                affinity.required_during_scheduling_ignored_during_execution = None;
            }
        }
        Self { spec }
    }

    /// Returns the keys of the labels that nodes must have.
    pub fn selector_keys(&self) -> Vec<&str> {
        let selector = self
            .spec
            .node_selector
            .iter()
            .flatten()
            .map(|(key, _)| key.as_str());
        let affinity = self
            .spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|node_affinity| {
            node_affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let terms = required
            .into_iter()
            .flat_map(|required| &required.node_selector_terms);
        let expressions = terms.flat_map(|term| {
            term.match_expressions
                .iter()
                .flatten()
                .map(|expression| expression.key.as_str())
        });
        selector.chain(expressions).collect()
    }

    pub fn scheduler(&self) -> &str {
        self.spec
            .scheduler_name
            .as_deref()
            .unwrap_or("default-scheduler")
    }

    /// Names of the scheduling gates that keep the scheduler from placing the pod.
    pub fn gates(&self) -> Vec<&str> {
        self.spec
            .scheduling_gates
            .iter()
            .flatten()
            .map(|gate| gate.name.as_str())
            .collect()
    }

    pub fn priority(&self) -> i64 {
        i64::from(self.spec.priority.unwrap_or(0))
    }

    /// Returns true if the scheduler may evict pods of lower priority to place this pod.
    pub fn preempts(&self) -> bool {
        self.spec.preemption_policy.as_deref() != Some("Never")
    }

    /// Names of the PersistentVolumeClaims that the pod mounts.
    pub fn volume_claims(&self) -> Vec<&str> {
        let volumes = self.spec.volumes.iter().flatten();
        volumes
            .filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
            .collect()
    }

    /// Returns the claims that Kubernetes creates for each pod, with the names of their volumes. A
    /// claim is `None` if its template is invalid.
    pub fn ephemeral_claims(&self) -> Vec<(&str, Option<PersistentVolumeClaim>)> {
        let volumes = self.spec.volumes.iter().flatten();
        volumes
            .filter_map(|volume| {
                let template = &volume.ephemeral.as_ref()?["volumeClaimTemplate"];
                let claim = PersistentVolumeClaim::deserialize(template).ok();
                Some((volume.name.as_deref()?, claim))
            })
            .collect()
    }

    /// Lists the rules that depend on more than nodes and evaluated devices.
    pub fn unevaluated_rules(&self, devices: &DeviceClaims) -> Vec<String> {
        let other = self.unevaluated_besides_volumes(devices).into_iter();
        let mut rules: Vec<String> = other.map(|rule| rule.text).collect();
        if !self.volume_claims().is_empty() {
            rules.push("its volumes' node affinity".to_owned());
        }
        rules
    }

    /// Lists the rules that depend on more than nodes, evaluated devices and volumes.
    pub fn unevaluated_besides_volumes(&self, devices: &DeviceClaims) -> Vec<FitReason> {
        let spec = &self.spec;
        let mut unchecked = Vec::new();
        if let DeviceClaims::NotEvaluated(reason) = devices {
            unchecked.push(FitReason::new("device-claim", reason));
        }
        let mut add = |is_set: bool, cause: &'static str, rule: &str| {
            unchecked.extend(is_set.then(|| FitReason::new(cause, rule)));
        };
        let affinity = spec.affinity.as_ref();
        let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let is_required = |rule: Option<&OtherPodsAffinity>| {
            rule.is_some_and(|rule| {
                rule.required_during_scheduling_ignored_during_execution
                    .is_some()
            })
        };
        add(
            is_required(pod_affinity) || is_required(anti_affinity),
            "pod-affinity",
            "required pod affinity or anti-affinity",
        );
        let spread = spec
            .topology_spread_constraints
            .as_deref()
            .unwrap_or_default();
        add(
            spread
                .iter()
                .any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule"),
            "topology-spread",
            "topology spread",
        );
        add(self.uses_host_ports(), "host-port", "host ports");
        unchecked
    }

    /// Returns true if the pod occupies ports of its node. With `hostNetwork`, the API server
    /// copies every declared port to `hostPort`.
    fn uses_host_ports(&self) -> bool {
        let spec = &self.spec;
        let containers = spec.containers.iter().chain(&spec.init_containers);
        let ports = containers
            .flatten()
            .flat_map(|container| container.ports.iter().flatten());
        let on_host = spec.host_network == Some(true);
        ports
            .into_iter()
            .any(|port| on_host || port.host_port.is_some_and(|port| port > 0))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_are_compared_as_the_scheduler_does() {
        let labels =
            [("zone", "z1"), ("size", "8")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labelled_node = Node {
            name: "a".to_owned(),
            labels: labels.into(),
            ..Node::default()
        };
        let meets = |expression: serde_json::Value| {
            let term = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
            let spec = json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
            PodRules::from_spec(&spec)
                .unmet_label(&labelled_node)
                .is_none()
        };
        let expression_of = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        for (expression, expected) in [
            (expression_of("zone", "In", &["z1", "z2"]), true),
            (expression_of("zone", "In", &["z2"]), false),
            (expression_of("rack", "NotIn", &["r1"]), true),
            (expression_of("zone", "NotIn", &["z1"]), false),
            (expression_of("zone", "Exists", &[]), true),
            (expression_of("rack", "DoesNotExist", &[]), true),
            (expression_of("size", "Gt", &["7"]), true),
            (expression_of("size", "Lt", &["8"]), false),
            (expression_of("zone", "Gt", &["1"]), false),
        ] {
            assert_eq!(meets(expression.clone()), expected, "{expression}");
        }
        assert_eq!(
            PodRules::from_spec(&json!({"containers": [], "nodeSelector": {"zone": "z2"}}))
                .unmet_label(&labelled_node)
                .unwrap(),
            "zone=z2"
        );
    }
}
