//! Decodes the Kueue objects that decide admissions: LocalQueues, ClusterQueues, Cohorts and
//! ResourceFlavors. Source: kueue.x-k8s.io/v1beta2 (apis/kueue/v1beta2), and v1beta1, where the
//! cohort's field is `cohort` and the list of checks is `admissionChecks`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::queues::text;
use gpuctl_core::model::Taint;
use gpuctl_core::model::counting::admission::{
    ClusterQueue, Cohort, FlavorAmounts, FlavorFungibility, FlavorQuota, FlavorQuotas,
    FlavorResource, PreemptionPolicy, PreemptionRules, RequiredCheck, ResourceFlavor,
    ResourceGroup,
};
use gpuctl_core::model::values::quantity;
use gpuctl_manifest::render::selects;

pub(super) fn list<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    let items = object.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten()
}

/// Parses a quantity into thousandths.
pub(super) fn amount(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => quantity::milli(text),
        Value::Number(number) => quantity::milli(&number.to_string()),
        _ => None,
    }
}

fn string(object: &Value, pointer: &str) -> Option<String> {
    Some(text(object, pointer))
        .filter(|text| !text.is_empty())
        .map(ToOwned::to_owned)
}

fn strings(object: &Value, pointer: &str) -> BTreeSet<String> {
    list(object, pointer)
        .filter_map(|item| item.as_str().map(ToOwned::to_owned))
        .collect()
}

pub(super) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    list(object, "/status/conditions").find(|condition| condition["type"] == kind)
}

/// Returns why the object's controller keeps it from admitting jobs.
pub(super) fn inactive(object: &Value, subject: &str) -> Option<String> {
    let policy = text(object, "/spec/stopPolicy");
    if !matches!(policy, "" | "None") {
        return Some(format!("{subject} is stopped (stopPolicy: {policy})"));
    }
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Some(format!("{subject} is being deleted"));
    }
    let condition = condition(object, "Active").filter(|active| active["status"] == "False")?;
    let message = text(condition, "/message");
    Some(format!("{subject} is not active: {message}"))
}

fn quotas(object: &Value) -> FlavorQuotas {
    let mut quotas = FlavorQuotas::new();
    let groups = list(object, "/spec/resourceGroups");
    for flavor in groups.flat_map(|group| list(group, "/flavors")) {
        for resource in list(flavor, "/resources") {
            let of = FlavorResource::new(text(flavor, "/name"), text(resource, "/name"));
            let quota = FlavorQuota {
                nominal: amount(&resource["nominalQuota"]).unwrap_or(0),
                borrowing_limit: amount(&resource["borrowingLimit"]),
                lending_limit: amount(&resource["lendingLimit"]),
            };
            quotas.insert(of, quota);
        }
    }
    quotas
}

/// Reads the reserved quota, or `None` if Kueue has not written it.
fn usage(queue: &Value) -> Option<FlavorAmounts> {
    let reservations = queue.pointer("/status/flavorsReservation");
    if reservations.and_then(Value::as_array).is_none() {
        // A ClusterQueue without flavors reserves nothing.
        let has_groups = list(queue, "/spec/resourceGroups").next().is_some();
        return (!has_groups).then(FlavorAmounts::new);
    }
    let mut usage = FlavorAmounts::new();
    for flavor in list(queue, "/status/flavorsReservation") {
        for resource in list(flavor, "/resources") {
            let of = FlavorResource::new(text(flavor, "/name"), text(resource, "/name"));
            // Go omits a total of 0.
            let total = resource.get("total").map_or(Some(0), amount)?;
            usage.insert(of, total);
        }
    }
    Some(usage)
}

fn policy(object: &Value, field: &str) -> PreemptionPolicy {
    match text(object, &format!("/spec/preemption/{field}")) {
        "Any" => PreemptionPolicy::Any,
        "LowerPriority" | "LowerOrNewerEqualPriority" => PreemptionPolicy::LowerPriority,
        _ => PreemptionPolicy::Never,
    }
}

fn preemption(queue: &Value) -> PreemptionRules {
    let borrowing = "/spec/preemption/borrowWithinCohort";
    let threshold = queue.pointer(&format!("{borrowing}/maxPriorityThreshold"));
    PreemptionRules {
        within_queue: policy(queue, "withinClusterQueue"),
        within_cohort: policy(queue, "reclaimWithinCohort"),
        while_borrowing: text(queue, &format!("{borrowing}/policy")) == "LowerPriority",
        borrowing_threshold: threshold.and_then(Value::as_i64),
    }
}

fn fungibility(queue: &Value) -> FlavorFungibility {
    let word = |field: &str| text(queue, &format!("/spec/flavorFungibility/{field}"));
    FlavorFungibility {
        next_before_borrowing: word("whenCanBorrow") == "TryNextFlavor",
        next_before_preempting: matches!(word("whenCanPreempt"), "" | "TryNextFlavor"),
        prefers_preemption: word("preference") == "PreemptionOverBorrowing",
    }
}

fn checks(queue: &Value) -> Vec<RequiredCheck> {
    let names = strings(queue, "/spec/admissionChecks").into_iter();
    let for_all = names.map(|name| RequiredCheck {
        name,
        flavors: BTreeSet::new(),
    });
    let by_flavor = list(queue, "/spec/admissionChecksStrategy/admissionChecks");
    let by_flavor = by_flavor.map(|check| RequiredCheck {
        name: text(check, "/name").to_owned(),
        flavors: strings(check, "/onFlavors"),
    });
    for_all.chain(by_flavor).collect()
}

pub(super) fn cluster_queue(queue: &Value) -> ClusterQueue {
    let group = |group: &Value| ResourceGroup {
        resources: strings(group, "/coveredResources"),
        flavors: list(group, "/flavors")
            .map(|flavor| text(flavor, "/name").to_owned())
            .collect(),
    };
    let usage = usage(queue);
    let waiting = queue.pointer("/status/pendingWorkloads");
    let waiting = waiting.and_then(Value::as_u64);
    ClusterQueue {
        cohort: string(queue, "/spec/cohortName").or_else(|| string(queue, "/spec/cohort")),
        groups: list(queue, "/spec/resourceGroups").map(group).collect(),
        quotas: quotas(queue),
        // Go omits a count of 0 in some versions, so it is known once the usage is.
        waiting: waiting.or_else(|| usage.is_some().then_some(0)),
        usage,
        is_strict: text(queue, "/spec/queueingStrategy") == "StrictFIFO",
        preemption: preemption(queue),
        fungibility: fungibility(queue),
        checks: checks(queue),
        shares_fairly: queue
            .pointer("/status/fairSharing")
            .is_some_and(Value::is_object),
    }
}

pub(super) fn cohort(cohort: &Value) -> Cohort {
    // In v1alpha1, the field is called `parent`.
    let parent = string(cohort, "/spec/parentName").or_else(|| string(cohort, "/spec/parent"));
    Cohort {
        parent,
        quotas: quotas(cohort),
    }
}

pub(super) fn flavor(flavor: &Value) -> ResourceFlavor {
    let labels = flavor.pointer("/spec/nodeLabels");
    ResourceFlavor {
        node_labels: labels
            .and_then(|labels| BTreeMap::deserialize(labels).ok())
            .unwrap_or_default(),
        node_taints: list(flavor, "/spec/nodeTaints")
            .filter_map(|taint| Taint::deserialize(taint).ok())
            .collect(),
        tolerations: list(flavor, "/spec/tolerations").cloned().collect(),
        topology: string(flavor, "/spec/topologyName"),
    }
}

/// Whether a ClusterQueue accepts jobs of a namespace with these labels. Without a selector, it
/// accepts none.
pub(super) fn accepts(queue: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector = queue.pointer("/spec/namespaceSelector");
    let selector = selector.and_then(|selector| LabelSelector::deserialize(selector).ok());
    selector.is_some_and(|selector| selects(&selector, labels))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(spec: &Value, status: &Value) -> ClusterQueue {
        cluster_queue(&json!({"metadata": {"name": "q"}, "spec": spec, "status": status}))
    }

    #[test]
    fn both_versions_are_decoded_alike() {
        let groups = json!([{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "a", "resources":
            [{"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "2", "lendingLimit": "500m"}]}]}]);
        let status = json!({"pendingWorkloads": 3, "flavorsReservation": [
            {"name": "a", "resources": [{"name": "nvidia.com/gpu", "total": "5", "borrowed": "0"}]}]});
        let old = json!({"cohort": "all", "resourceGroups": groups, "queueingStrategy": "StrictFIFO",
            "admissionChecks": ["budget"],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}});
        let new = json!({"cohortName": "all", "resourceGroups": groups, "queueingStrategy": "StrictFIFO",
            "admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]},
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}});
        let decoded = queue(&new, &status);
        assert_eq!(decoded, queue(&old, &status));
        let of = FlavorResource::new("a", "nvidia.com/gpu");
        let quota = FlavorQuota {
            nominal: 8000,
            borrowing_limit: Some(2000),
            lending_limit: Some(500),
        };
        assert_eq!(
            (decoded.quotas[&of], decoded.usage.unwrap()[&of]),
            (quota, 5000)
        );
        assert_eq!(
            (decoded.cohort.as_deref(), decoded.waiting),
            (Some("all"), Some(3))
        );
        assert!(decoded.is_strict && decoded.fungibility == FlavorFungibility::default());
    }

    #[test]
    fn usage_without_a_status_is_unknown() {
        let groups = json!([{"coveredResources": ["cpu"], "flavors": []}]);
        let without_status = queue(&json!({"resourceGroups": groups}), &json!({}));
        assert_eq!((without_status.usage, without_status.waiting), (None, None));
        assert_eq!(
            queue(&json!({}), &json!({})).usage,
            Some(FlavorAmounts::new())
        );
    }

    #[test]
    fn preemption_defaults_to_never() {
        assert_eq!(
            queue(&json!({}), &json!({})).preemption,
            PreemptionRules::default()
        );
        let spec = json!({"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5}}});
        let expected = PreemptionRules {
            within_queue: PreemptionPolicy::LowerPriority,
            within_cohort: PreemptionPolicy::Any,
            while_borrowing: true,
            borrowing_threshold: Some(-5),
        };
        assert_eq!(queue(&spec, &json!({})).preemption, expected);
    }

    #[test]
    fn stopped_and_inactive_queues_are_recognized() {
        let stopped = json!({"spec": {"stopPolicy": "Hold"}});
        let expected = "ClusterQueue q is stopped (stopPolicy: Hold)";
        assert_eq!(
            inactive(&stopped, "ClusterQueue q").as_deref(),
            Some(expected)
        );
        let broken = json!({"spec": {"stopPolicy": "None"}, "status": {"conditions": [{"type": "Active",
            "status": "False", "message": "Can't admit new workloads: references missing ResourceFlavor"}]}});
        assert!(
            inactive(&broken, "q")
                .unwrap()
                .contains("missing ResourceFlavor")
        );
        assert_eq!(inactive(&json!({"spec": {}}), "q"), None);
    }

    #[test]
    fn a_missing_selector_accepts_no_namespace() {
        let team = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let with = |selector: &Value| json!({"spec": {"namespaceSelector": selector}});
        assert!(!accepts(&json!({"spec": {}}), &team));
        assert!(accepts(&with(&json!({})), &team));
        assert!(accepts(
            &with(&json!({"matchLabels": {"team": "a"}})),
            &team
        ));
        let not_a =
            json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]});
        assert!(!accepts(&with(&not_a), &team));
    }
}
