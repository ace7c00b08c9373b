//! Looks up the objects that a job's pods refer to but the job does not create: claims, Secrets,
//! ConfigMaps and service accounts. The API server accepts a pod that refers to a missing object,
//! but the pod never starts.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::Value;

use crate::deploy::plan::Plan;
use gpuctl_cluster::{Connection, Failure};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_manifest::spec::{Document, reference_position};

/// A kind of object that pods refer to by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamedKind {
    Claim,
    Secret,
    ConfigMap,
    ServiceAccount,
}

impl NamedKind {
    fn plural(self) -> &'static str {
        match self {
            Self::Claim => "persistentvolumeclaims",
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
            Self::ServiceAccount => "serviceaccounts",
        }
    }

    fn display_name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Secret => "secret",
            Self::ConfigMap => "ConfigMap",
            Self::ServiceAccount => "service account",
        }
    }

    fn error_name(self) -> &'static str {
        match self {
            Self::Claim => "ClaimNotFound",
            Self::Secret => "SecretNotFound",
            Self::ConfigMap => "ConfigMapNotFound",
            Self::ServiceAccount => "ServiceAccountNotFound",
        }
    }

    /// Fields of a manifest that contain a name of this kind, in lower case and without separators.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Claim => &["pvc", "claim", "claimname"],
            Self::Secret => &[
                "secret",
                "secretname",
                "imagepullsecret",
                "imagepullsecrets",
            ],
            Self::ConfigMap => &["configmap"],
            Self::ServiceAccount => &["serviceaccountname"],
        }
    }

    fn hint(self, name: &str, keys: &BTreeSet<String>) -> String {
        match self {
            Self::Claim => {
                "`gpuctl get claims` lists existing claims; a claim with `size:` is created \
                 with the job"
                    .to_owned()
            }
            Self::Secret => {
                let options: String = keys
                    .iter()
                    .map(|key| format!(" --from-env {key}"))
                    .collect();
                let options = if options.is_empty() {
                    " --from-env KEY".to_owned()
                } else {
                    options
                };
                format!("gpuctl create secret {name}{options}")
            }
            Self::ConfigMap | Self::ServiceAccount => {
                "ask the namespace administrator for it, or submit the job anyway with \
                 `--allow-pending`"
                    .to_owned()
            }
        }
    }
}

/// Objects that a pod needs to start, by kind and name, with the keys that it reads from each.
type Needs = BTreeMap<(NamedKind, String), BTreeSet<String>>;

/// Missing objects, and objects that could not be looked up.
#[derive(Default)]
pub(super) struct ReferenceFindings {
    pub errors: Vec<Error>,
    pub warnings: Vec<String>,
}

/// Looks up the objects that the pods refer to, except those that this run creates (`planned`).
/// Claims are optional, for callers that read them themselves.
pub(super) async fn check(
    plan: &Plan,
    planned: &BTreeSet<String>,
    includes_claims: bool,
    connection: &Connection,
) -> ReferenceFindings {
    let namespace = &plan.target.namespace;
    let mut needs = needs(&plan.rendered.probe.body["spec"]);
    needs.retain(|(kind, name), _| {
        let is_included = includes_claims || *kind != NamedKind::Claim;
        is_included && !planned.contains(&object_key(kind.plural(), namespace, name))
    });
    let lookups = needs.iter().map(|((kind, name), _)| {
        let collection = format!("/api/v1/namespaces/{namespace}/{}", kind.plural());
        async move { connection.find_in::<Value>(&collection, name).await }
    });
    let answers: Vec<Result<Option<Value>, Failure>> = join_all(lookups).await;
    let mut findings = ReferenceFindings::default();
    for (((kind, name), keys), answer) in needs.iter().zip(answers) {
        let noun = kind.display_name();
        match answer {
            Ok(None) => {
                let message = format!("{noun} `{name}` does not exist in namespace `{namespace}`");
                findings.errors.push(in_file(
                    plan,
                    Error::new(
                        ErrorName::reported(ErrorKind::NotFound, kind.error_name()),
                        message,
                    )
                    .hint(kind.hint(name, keys)),
                    *kind,
                    name,
                ));
            }
            Ok(Some(object)) => {
                let present = object_keys(&object);
                let missing: Vec<&str> = keys
                    .iter()
                    .filter(|key| !present.contains(key.as_str()))
                    .map(String::as_str)
                    .collect();
                if !missing.is_empty() {
                    let explanation = if present.is_empty() {
                        "it is empty".to_owned()
                    } else {
                        format!(
                            "it has {}",
                            present.into_iter().collect::<Vec<_>>().join(", ")
                        )
                    };
                    let message = format!(
                        "{noun} `{name}` has no key `{}`; {explanation}",
                        missing.join("`, `")
                    );
                    findings.errors.push(in_file(
                        plan,
                        Error::new(
                            ErrorName::reported(ErrorKind::NotFound, "KeyNotFound"),
                            message,
                        )
                        .hint(kind.hint(name, keys)),
                        *kind,
                        name,
                    ));
                }
            }
            Err(failure) if failure.is_forbidden() => {
                findings.warnings.push(format!(
                    "could not check whether {noun} `{name}` exists: you are not allowed to read {}",
                    kind.plural()
                ));
            }
            Err(failure) => findings.warnings.push(format!(
                "could not check whether {noun} `{name}` exists: {failure}"
            )),
        }
    }
    findings
}

/// Adds the position in the file, unless the name comes from another source.
fn in_file(plan: &Plan, error: Error, kind: NamedKind, name: &str) -> Error {
    let Document::Job(job) = &plan.input.document else {
        return error;
    };
    let text = &plan.input.text;
    match reference_position(text, &job.name.value, kind.fields(), name) {
        Some(at) => error.in_file(&plan.input.file, text, at),
        None => error,
    }
}

/// Returns the key of an object that this run creates.
pub(super) fn object_key(plural: &str, namespace: &str, name: &str) -> String {
    format!("{plural}/{namespace}/{name}")
}

fn object_keys(object: &Value) -> BTreeSet<&str> {
    let field_keys = |field: &str| {
        object[field]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .collect::<Vec<_>>()
    };
    ["data", "binaryData", "stringData"]
        .into_iter()
        .flat_map(field_keys)
        .collect()
}

/// Collects the objects that a pod spec needs.
fn needs(spec: &Value) -> Needs {
    let mut needs = Needs::new();
    for volume in list(&spec["volumes"]) {
        add_volume(&mut needs, volume);
    }
    for container in list(&spec["containers"])
        .iter()
        .chain(list(&spec["initContainers"]))
    {
        add_container(&mut needs, container);
    }
    let account = NamedKind::ServiceAccount;
    add(&mut needs, account, spec, "serviceAccountName", &[]);
    needs
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Adds the object that a field refers to, unless the reference is optional.
fn add(needs: &mut Needs, kind: NamedKind, value: &Value, field: &str, keys: &[&str]) {
    if let Some(name) = value[field]
        .as_str()
        .filter(|name| !name.is_empty() && value["optional"] != true)
    {
        needs
            .entry((kind, name.to_owned()))
            .or_default()
            .extend(keys.iter().map(|key| (*key).to_owned()));
    }
}

fn add_volume(needs: &mut Needs, volume: &Value) {
    fn keys(source: &Value) -> Vec<&str> {
        let items = list(&source["items"]).iter();
        items.filter_map(|item| item["key"].as_str()).collect()
    }
    let claim = &volume["persistentVolumeClaim"];
    add(needs, NamedKind::Claim, claim, "claimName", &[]);
    let projected = list(&volume["projected"]["sources"]);
    let secrets = std::iter::once((&volume["secret"], "secretName"))
        .chain(projected.iter().map(|source| (&source["secret"], "name")));
    for (secret, field) in secrets {
        add(needs, NamedKind::Secret, secret, field, &keys(secret));
    }
    let maps = std::iter::once(&volume["configMap"])
        .chain(projected.iter().map(|source| &source["configMap"]));
    for map in maps {
        add(needs, NamedKind::ConfigMap, map, "name", &keys(map));
    }
}

fn add_container(needs: &mut Needs, container: &Value) {
    for variable in list(&container["env"]) {
        let from = &variable["valueFrom"];
        for (kind, reference) in [
            (NamedKind::Secret, &from["secretKeyRef"]),
            (NamedKind::ConfigMap, &from["configMapKeyRef"]),
        ] {
            let key: Vec<&str> = reference["key"].as_str().into_iter().collect();
            add(needs, kind, reference, "name", &key);
        }
    }
    for source in list(&container["envFrom"]) {
        add(needs, NamedKind::Secret, &source["secretRef"], "name", &[]);
        let map = &source["configMapRef"];
        add(needs, NamedKind::ConfigMap, map, "name", &[]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn collects_required_objects_but_not_optional_ones() {
        let spec = json!({
            "serviceAccountName": "robot",
            "volumes": [
                {"persistentVolumeClaim": {"claimName": "models"}},
                {"secret": {"secretName": "tls", "items": [{"key": "tls.crt", "path": "a"}]}},
                {"configMap": {"name": "maybe", "optional": true}},
                {"projected": {"sources": [{"configMap": {"name": "code", "items": [{"key": "main.py", "path": "m"}]}}]}},
                {"emptyDir": {}},
            ],
            "containers": [{"env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "other", "key": "x", "optional": true}}},
            ]}],
            "initContainers": [{"envFrom": [{"configMapRef": {"name": "settings"}}]}],
        });
        let collected: Vec<(String, Vec<String>)> = needs(&spec)
            .into_iter()
            .map(|((kind, name), keys)| {
                (
                    format!("{}/{name}", kind.display_name()),
                    keys.into_iter().collect(),
                )
            })
            .collect();
        let expected = [
            ("claim/models", vec![]),
            ("secret/hub", vec!["HF_TOKEN"]),
            ("secret/tls", vec!["tls.crt"]),
            ("ConfigMap/code", vec!["main.py"]),
            ("ConfigMap/settings", vec![]),
            ("service account/robot", vec![]),
        ];
        let expected: Vec<(String, Vec<String>)> = expected
            .into_iter()
            .map(|(name, keys)| {
                (
                    name.to_owned(),
                    keys.into_iter().map(ToOwned::to_owned).collect(),
                )
            })
            .collect();
        assert_eq!(collected, expected);
    }
}
