//! Builds the roles that grant what commands need: one for the namespace, one for the namespace of pools, one for the cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::labels::HOME;
use crate::model::rights::{Right, RightScope, merged};

const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Returns the roles called `name` for the rights; those of a namespace go into `namespace`, or with `None` into the cluster's.
#[must_use]
pub fn roles(name: &str, rights: &BTreeSet<Right>, namespace: Option<&str>) -> Vec<Value> {
    let placed = rights.iter().map(|right| match (right.place, namespace) {
        (RightScope::Namespace, None) => Right { place: RightScope::Cluster, ..*right },
        _ => *right,
    });
    let role = |(place, rules): (RightScope, BTreeMap<_, BTreeSet<_>>)| {
        let metadata = match (place, namespace) {
            (RightScope::Home, _) => json!({"name": name, "namespace": HOME}),
            (RightScope::Namespace, Some(namespace)) => json!({"name": name, "namespace": namespace}),
            _ => json!({"name": name}),
        };
        let kind = if place == RightScope::Cluster { "ClusterRole" } else { "Role" };
        json!({"apiVersion": VERSION, "kind": kind, "metadata": metadata, "rules": joined(rules)})
    };
    merged(placed).into_iter().map(role).collect()
}

/// Resources of one group with the same verbs share a rule.
fn joined(rules: BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>>) -> Vec<Value> {
    let mut shared: BTreeMap<(&str, BTreeSet<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in rules {
        shared.entry((group, verbs)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources): ((&str, BTreeSet<&str>), Vec<&str>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    shared.into_iter().map(rule).collect()
}
