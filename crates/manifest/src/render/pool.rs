//! Builds the objects of pools: one definition per pool, the namespace of the definitions, a role
//! that lets all users read them, and the published facts for users who cannot read nodes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Object;
use crate::spec::SiteDefaults;
use gpuctl_core::model::contract::labels::{
    HOME, HOME_UID, KIND, MANAGED_BY, MANAGED_BY_US, POOL_LABEL, PRIVATE,
};
use gpuctl_core::model::facts::gpu::is_type_label;
use gpuctl_core::model::facts::node::is_group_label;
use gpuctl_core::model::{Node, PoolDefinition};

/// Value of the label `gpuctl/kind` for pool definitions.
pub const POOL_KIND: &str = "pool";
const FACTS_NAME: &str = "gpuctl-facts";
/// Key of the pool definitions in the ConfigMap of published facts.
pub const FACTS_POOLS: &str = "pools";

fn object(plural: &'static str, body: Value) -> Object {
    Object {
        body,
        plural,
        shared: true,
        kept: true,
    }
}

/// Builds the ConfigMap that defines a pool.
pub fn definition(pool: &PoolDefinition) -> Object {
    let text = serde_json::to_string_pretty(pool).expect("a definition is JSON");
    object(
        "configmaps",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("pool-{}", pool.name), "namespace": HOME,
                "labels": {MANAGED_BY: MANAGED_BY_US, KIND: POOL_KIND, POOL_LABEL: pool.name},
            },
            "data": {"pool": text},
        }),
    )
}

/// Rules that let every user read two objects: the published facts and the site's defaults. RBAC
/// cannot restrict a list to some names. Therefore the facts repeat the pool definitions, and users
/// need no right to list the namespace's ConfigMaps.
pub fn reader_rules() -> Value {
    json!([{
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [FACTS_NAME, SiteDefaults::NAME], "verbs": ["get"],
    }])
}

/// Returns true if a role lets every user read all ConfigMaps of the namespace. Earlier versions of
/// gpuctl created such roles.
pub fn reads_all_configmaps(rules: &Value) -> bool {
    *rules
        == json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}])
}

/// Builds the namespace of gpuctl and, unless `private`, the permission for all users to read its
/// facts and defaults.
pub fn home_namespace(private: bool) -> Vec<Object> {
    let labels = json!({MANAGED_BY: MANAGED_BY_US});
    let mut objects = vec![object(
        "namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME, "labels": labels}}),
    )];
    if private {
        objects[0].body["metadata"]["annotations"] = json!({PRIVATE: "true"});
        return objects;
    }
    objects.push(object(
        "roles",
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "gpuctl-reader", "namespace": HOME, "labels": labels},
            "rules": reader_rules(),
        }),
    ));
    objects.push(object(
        "rolebindings",
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "gpuctl-reader", "namespace": HOME, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gpuctl-reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
        }),
    ));
    objects
}

/// Name of the ClusterRole that records the UID of gpuctl's namespace.
pub const HOME_ROLE: &str = "gpuctl-home";

/// Builds the ClusterRole that marks the namespace with this UID as gpuctl's. Unless `private`,
/// every user can read the ClusterRole and the namespace.
pub fn home_role(uid: &str, private: bool) -> Vec<Object> {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": HOME_ROLE, "labels": {MANAGED_BY: MANAGED_BY_US}, "annotations": {HOME_UID: uid}});
    let role = object(
        "clusterroles",
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": metadata,
            "rules": [
                {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [HOME], "verbs": ["get"]},
                {"apiGroups": [group], "resources": ["clusterroles"], "resourceNames": [HOME_ROLE], "verbs": ["get"]},
            ],
        }),
    );
    let binding = object(
        "clusterrolebindings",
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": HOME_ROLE, "labels": {MANAGED_BY: MANAGED_BY_US}},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": HOME_ROLE},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}],
        }),
    );
    if private {
        vec![role]
    } else {
        vec![role, binding]
    }
}

/// Returns true if a label is published to users who cannot read nodes.
pub fn is_published(key: &str) -> bool {
    is_type_label(key)
        || key == POOL_LABEL
        || key == "nvidia.com/gpu.replicas"
        || is_group_label(key)
}

/// Builds the facts for users who cannot read nodes: GPUs, types, pools and taints, but no other
/// labels. With `pools`, it also includes the pool definitions.
pub fn facts<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    pools: Option<&[PoolDefinition]>,
) -> Object {
    let slim: Vec<Node> = nodes
        .map(|node| {
            let labels: BTreeMap<String, String> = node
                .labels
                .iter()
                .filter(|(key, _)| is_published(key) || node.site_type_label.as_ref() == Some(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            Node {
                labels,
                slim: true,
                ..node.clone()
            }
        })
        .collect();
    let mut data = json!({"nodes": serde_json::to_string(&slim).expect("nodes are JSON")});
    if let Some(pools) = pools {
        // Omit the recorded labels of nodes, which only the deletion of a pool needs.
        let plain = |pool: &PoolDefinition| PoolDefinition {
            labels: BTreeMap::default(),
            ..pool.clone()
        };
        let pools: Vec<PoolDefinition> = pools.iter().map(plain).collect();
        data[FACTS_POOLS] = json!(serde_json::to_string(&pools).expect("definitions are JSON"));
    }
    object(
        "configmaps",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": FACTS_NAME, "namespace": HOME, "labels": {MANAGED_BY: MANAGED_BY_US}},
            "data": data,
        }),
    )
}
