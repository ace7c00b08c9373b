//! Builds roles with the permissions that commands need, and their bindings. A set has one role
//! each for the namespace, the namespace of pools, the cluster, and the Service of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use gpuctl_core::model::contract::labels::HOME;
use gpuctl_core::model::contract::rights::{Right, RightScope, merged};

const VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
/// Maximum length of a name, because tools that track roles store it in a label value.
const LONGEST_NAME: usize = 63;

/// The subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingSubject {
    pub kind: SubjectKind,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    User,
    Group,
    ServiceAccount { namespace: String },
}

/// A Service that users may reach through the API server.
#[derive(Clone, Debug)]
pub struct ProxyGrant {
    pub namespace: String,
    /// The names in a request's path: `NAME:PORT`, `https:NAME:PORT`.
    pub names: Vec<String>,
}

/// Input for a set of roles and bindings.
#[derive(Debug)]
pub struct RoleSet<'r> {
    pub name: &'r str,
    pub rights: &'r BTreeSet<Right>,
    /// Namespace of the namespaced permissions, or `None` for all namespaces.
    pub namespace: Option<&'r str>,
    pub proxy: Option<&'r ProxyGrant>,
    /// Subjects of the bindings. If empty, no bindings are built.
    pub subjects: &'r [BindingSubject],
}

impl BindingSubject {
    fn object(&self) -> Value {
        let Self { kind, name } = self;
        match kind {
            SubjectKind::User => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
            SubjectKind::Group => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
            SubjectKind::ServiceAccount { namespace } => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
            }
        }
    }

    /// Returns true if the subject includes all users, all service accounts, or anonymous users.
    pub fn includes_everyone(&self) -> bool {
        let names = [
            "system:authenticated",
            "system:unauthenticated",
            "system:anonymous",
            "system:serviceaccounts",
        ];
        names.contains(&self.name.as_str())
    }
}

/// Builds the roles, each followed by its binding.
pub fn roles(set: &RoleSet<'_>) -> Vec<Value> {
    let RoleSet {
        name,
        rights,
        namespace,
        proxy,
        ..
    } = set;
    let placed = rights.iter().map(|right| match (right.scope, namespace) {
        (RightScope::Namespace, None) => Right {
            scope: RightScope::Cluster,
            ..*right
        },
        _ => *right,
    });
    let mut objects = Vec::new();
    for (place, rules) in merged(placed) {
        let space = match place {
            RightScope::Home => Some(HOME),
            RightScope::Namespace => *namespace,
            RightScope::Cluster => None,
        };
        // Two roles with the same name in one namespace would replace each other.
        let suffix = if place == RightScope::Home && *namespace == Some(HOME) {
            "-pools"
        } else {
            ""
        };
        objects.extend(role_with_binding(
            set,
            &format!("{name}{suffix}"),
            space,
            joined(rules),
        ));
    }
    if let Some(ProxyGrant { namespace, names }) = proxy {
        let rule = json!({"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": names, "verbs": ["get"]});
        objects.extend(role_with_binding(
            set,
            &dns_name(&format!("{name}-prometheus")),
            Some(namespace),
            vec![rule],
        ));
    }
    objects
}

/// Builds one role and its binding.
fn role_with_binding(
    set: &RoleSet<'_>,
    name: &str,
    namespace: Option<&str>,
    rules: Vec<Value>,
) -> Vec<Value> {
    let metadata = |name: &str| match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    };
    let (kind, binding) = match namespace {
        Some(_) => ("Role", "RoleBinding"),
        None => ("ClusterRole", "ClusterRoleBinding"),
    };
    let role =
        json!({"apiVersion": VERSION, "kind": kind, "metadata": metadata(name), "rules": rules});
    if set.subjects.is_empty() {
        return vec![role];
    }
    // The name contains a hash of the subjects. Otherwise, applying the binding for other subjects
    // would take the role away from these.
    let subjects: Vec<Value> = set.subjects.iter().map(BindingSubject::object).collect();
    let names: Vec<String> = set
        .subjects
        .iter()
        .map(|subject| format!("{:?}/{}", subject.kind, subject.name))
        .collect();
    let readable = set
        .subjects
        .first()
        .map_or("", |subject| subject.name.as_str());
    let binding_name = hashed_name(&format!("{name}-{readable}"), &names.join(","));
    let reference = json!({"apiGroup": GROUP, "kind": kind, "name": name});
    let binding = json!({
        "apiVersion": VERSION, "kind": binding, "metadata": metadata(&binding_name), "roleRef": reference, "subjects": subjects,
    });
    vec![role, binding]
}

/// Combines resources of one group with equal verbs into one rule.
fn joined(rules: BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>>) -> Vec<Value> {
    let mut shared: BTreeMap<(&str, BTreeSet<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in rules {
        shared.entry((group, verbs)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources): ((&str, BTreeSet<&str>), Vec<&str>)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    shared.into_iter().map(rule).collect()
}

/// Converts any text to a DNS label. If the text is not a DNS label itself, appends a hash, so that
/// different texts have different names.
pub fn dns_name(text: &str) -> String {
    let label = label(text);
    if label == text && text.len() <= LONGEST_NAME {
        label
    } else {
        hashed_name(text, text)
    }
}

/// Builds a DNS label from `text` that ends in a hash of `key`.
fn hashed_name(text: &str, key: &str) -> String {
    // FNV-1a does not depend on the version of Rust or gpuctl, so a role that is printed again
    // keeps its name.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let hash = format!("{hash:016x}");
    let mut label = label(text);
    label.truncate(LONGEST_NAME - 11);
    format!("{}-{}", label.trim_end_matches('-'), &hash[..10])
}

fn label(text: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    text.chars()
        .map(letter)
        .collect::<String>()
        .trim_matches('-')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_whatever_the_text_is() {
        assert_eq!(dns_name("gpuctl-create-jobs"), "gpuctl-create-jobs");
        for text in [
            "a b",
            "A",
            "-x-",
            "ü",
            "a/../b",
            "$(id)",
            "a\nb",
            &"long-".repeat(40),
        ] {
            let name = dns_name(&format!("gpuctl-{text}"));
            let is_label = name.len() <= 63
                && !name.ends_with('-')
                && name.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric());
            assert!(is_label && name == name.to_lowercase(), "{text:?}: {name}");
        }
        assert_ne!(dns_name("gpuctl-a b"), dns_name("gpuctl-a-b"));
    }

    #[test]
    fn bindings_of_different_subjects_do_not_replace_each_other() {
        let right = Right {
            scope: RightScope::Namespace,
            group: "batch",
            resource: "jobs",
            verb: "list",
        };
        let names_of = |name: &str, kind| {
            let subjects = [BindingSubject {
                kind,
                name: name.to_owned(),
            }];
            let rights = BTreeSet::from([right]);
            let set = RoleSet {
                name: "gpuctl-x",
                rights: &rights,
                namespace: Some("a"),
                proxy: None,
                subjects: &subjects,
            };
            roles(&set)
                .iter()
                .map(|binding| binding["metadata"]["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let (user, group, odd_name) = (
            names_of("al", SubjectKind::User),
            names_of("al", SubjectKind::Group),
            names_of("al:", SubjectKind::User),
        );
        assert_eq!(
            (&user[0], &user[0]),
            (&group[0], &odd_name[0]),
            "roles have the same names"
        );
        assert!(
            user[1] != group[1] && user[1] != odd_name[1] && group[1] != odd_name[1],
            "{user:?} {group:?} {odd_name:?}"
        );
    }

    #[test]
    fn prometheus_is_granted_by_name_in_its_namespace() {
        let grant = ProxyGrant {
            namespace: "monitoring".to_owned(),
            names: vec!["prometheus:9090".to_owned()],
        };
        let set = RoleSet {
            name: "x",
            rights: &BTreeSet::new(),
            namespace: None,
            proxy: Some(&grant),
            subjects: &[],
        };
        let objects = roles(&set);
        assert_eq!((objects.len(), &objects[0]["kind"]), (1, &json!("Role")));
        assert_eq!(
            objects[0]["metadata"],
            json!({"name": "x-prometheus", "namespace": "monitoring"})
        );
        assert_eq!(
            objects[0]["rules"][0]["resourceNames"],
            json!(["prometheus:9090"])
        );
    }
}
