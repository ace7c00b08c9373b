//! Compares pods with the flavors of a Kueue queue, and adds a flavor's rules to pods as Kueue does
//! when it admits them. Source: Kueue 0.18 (pkg/scheduler/flavorassigner, pkg/podset).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::pod_rules::PodRules;
use gpuctl_core::model::Node;
use gpuctl_core::model::counting::admission::{FlavorExclusion, ResourceFlavor, ResourceGroup};

/// Returns the flavors that the pods of this spec cannot use. Only labels that a flavor defines
/// count; all other requirements are left to the scheduler.
pub fn flavor_exclusions(
    spec: &Value,
    groups: &[ResourceGroup],
    flavors: &BTreeMap<String, ResourceFlavor>,
) -> BTreeMap<String, FlavorExclusion> {
    let spec = without_match_fields(spec);
    let mut exclusions = BTreeMap::new();
    for group in groups {
        let of_group = || group.flavors.iter().filter_map(|name| flavors.get(name));
        let all_keys: BTreeSet<&String> = of_group()
            .flat_map(|flavor| flavor.node_labels.keys())
            .collect();
        for name in &group.flavors {
            let exclusion = flavors
                .get(name)
                .and_then(|flavor| exclusion(&spec, flavor, &all_keys));
            exclusions.extend(exclusion.map(|exclusion| (name.clone(), exclusion)));
        }
    }
    exclusions
}

fn exclusion(
    spec: &Value,
    flavor: &ResourceFlavor,
    all_keys: &BTreeSet<&String>,
) -> Option<FlavorExclusion> {
    let node = Node {
        labels: flavor.node_labels.clone(),
        taints: flavor.node_taints.clone(),
        ..Node::default()
    };
    let mut tolerant = spec.clone();
    add_tolerations(&mut tolerant, flavor);
    let rules = PodRules::from_spec(&tolerant);
    if let Some(taint) = rules.untolerated_taint(&node) {
        return Some(FlavorExclusion::Taint(taint.key.clone()));
    }
    let own = rules.without_labels(|key| !flavor.node_labels.contains_key(key));
    if let Some(label) = own.unmet_label(&node) {
        return Some(FlavorExclusion::Label(label));
    }
    let of_group = rules.without_labels(|key| !all_keys.iter().any(|known| *known == key));
    let label = of_group.unmet_label(&node)?;
    Some(FlavorExclusion::LabelOfOtherFlavor(label))
}

/// Kueue compares no node names, because a flavor is not a node.
fn without_match_fields(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let terms =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = spec.pointer_mut(terms).and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        if let Some(term) = term.as_object_mut() {
            term.remove("matchFields");
        }
    }
    spec
}

/// Adds the node labels and tolerations of the assigned flavors to a pod spec.
#[must_use]
pub fn with_flavors<'f>(
    spec: &Value,
    flavors: impl IntoIterator<Item = &'f ResourceFlavor>,
) -> Value {
    let mut spec = spec.clone();
    for flavor in flavors {
        for (key, value) in &flavor.node_labels {
            if spec["nodeSelector"].get(key).is_none() {
                spec["nodeSelector"][key] = json!(value);
            }
        }
        add_tolerations(&mut spec, flavor);
    }
    spec
}

fn add_tolerations(spec: &mut Value, flavor: &ResourceFlavor) {
    if flavor.tolerations.is_empty() {
        return;
    }
    let existing = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let all: Vec<Value> = existing
        .into_iter()
        .chain(flavor.tolerations.clone())
        .collect();
    spec["tolerations"] = json!(all);
}

#[cfg(test)]
mod tests {
    use gpuctl_core::model::Taint;

    use super::*;

    fn flavor(labels: &[(&str, &str)]) -> ResourceFlavor {
        ResourceFlavor {
            node_labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..ResourceFlavor::default()
        }
    }

    fn exclusions(
        spec: &Value,
        flavors: &[(&str, ResourceFlavor)],
    ) -> BTreeMap<String, FlavorExclusion> {
        let group = ResourceGroup {
            resources: BTreeSet::new(),
            flavors: flavors.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        let flavors = flavors
            .iter()
            .map(|(name, flavor)| ((*name).to_owned(), flavor.clone()))
            .collect();
        flavor_exclusions(spec, &[group], &flavors)
    }

    #[test]
    fn only_labels_of_the_flavor_count() {
        let spec = json!({"nodeSelector": {"gpu": "h100", "gpuctl/pool": "a"}});
        let flavors = [
            ("old", flavor(&[("gpu", "a100")])),
            ("new", flavor(&[("gpu", "h100")])),
        ];
        let excluded = exclusions(&spec, &flavors);
        let label = FlavorExclusion::Label("gpu=h100".to_owned());
        assert_eq!(excluded, BTreeMap::from([("old".to_owned(), label)]));
    }

    #[test]
    fn a_label_of_another_flavor_depends_on_the_version() {
        let spec = json!({"nodeSelector": {"gpu": "h100"}});
        let flavors = [("any", flavor(&[])), ("new", flavor(&[("gpu", "h100")]))];
        let label = FlavorExclusion::LabelOfOtherFlavor("gpu=h100".to_owned());
        assert_eq!(
            exclusions(&spec, &flavors),
            BTreeMap::from([("any".to_owned(), label)])
        );
    }

    #[test]
    fn a_term_without_known_labels_matches_every_flavor() {
        let terms = json!([
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]},
            {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100"]}]},
        ]);
        let required = json!({"nodeSelectorTerms": terms});
        let spec = json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": required}}});
        assert!(exclusions(&spec, &[("a", flavor(&[("gpu", "a100")]))]).is_empty());
        let only_names =
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]);
        let mut named = spec;
        named["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
            only_names;
        assert!(exclusions(&named, &[("a", flavor(&[("gpu", "a100")]))]).is_empty());
    }

    #[test]
    fn pods_or_the_flavor_tolerate_its_taints() {
        let mut spot = flavor(&[("gpu", "a100")]);
        spot.node_taints = vec![Taint {
            key: "spot".to_owned(),
            value: None,
            effect: "NoSchedule".to_owned(),
        }];
        let toleration = json!({"key": "spot", "operator": "Exists"});
        let excluded = exclusions(&json!({}), &[("spot", spot.clone())]);
        assert_eq!(excluded["spot"], FlavorExclusion::Taint("spot".to_owned()));
        let tolerant = json!({"tolerations": [toleration]});
        assert!(exclusions(&tolerant, &[("spot", spot.clone())]).is_empty());
        spot.tolerations = vec![toleration.clone()];
        assert!(exclusions(&json!({}), &[("spot", spot.clone())]).is_empty());
        let admitted = with_flavors(&json!({"nodeSelector": {"disk": "fast"}}), [&spot]);
        assert_eq!(
            admitted["nodeSelector"],
            json!({"disk": "fast", "gpu": "a100"})
        );
        assert_eq!(admitted["tolerations"], json!([toleration]));
    }
}
