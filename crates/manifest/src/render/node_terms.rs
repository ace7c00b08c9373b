//! Compares the node selector terms of pods and volumes with nodes, as the scheduler does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

/// Returns the first requirement of a term that a node does not meet. As in Kubernetes, an empty
/// term matches no node. `name` is the node's name, which `matchFields` refers to.
pub(super) fn unmet_requirement(
    term: &NodeSelectorTerm,
    labels: &BTreeMap<String, String>,
    name: Option<&String>,
) -> Option<String> {
    let on_labels = term.match_expressions.iter().flatten();
    let on_name = term.match_fields.iter().flatten();
    let mut requirements = on_labels
        .map(|requirement| (requirement, labels.get(&requirement.key)))
        .chain(on_name.map(|requirement| (requirement, name)))
        .peekable();
    if requirements.peek().is_none() {
        return Some("an empty term".to_owned());
    }
    requirements
        .find(|(requirement, value)| !is_satisfied(requirement, *value))
        .map(|(requirement, _)| requirement.key.clone())
}

/// Evaluates a requirement as the scheduler does. Source: k8s.io/apimachinery/pkg/labels
/// (Requirement.Matches).
fn is_satisfied(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value
            .and_then(number)
            .zip(values.first().and_then(number))
            .is_some_and(|(value, than)| value > than),
        "Lt" => value
            .and_then(number)
            .zip(values.first().and_then(number))
            .is_some_and(|(value, than)| value < than),
        _ => false,
    }
}
