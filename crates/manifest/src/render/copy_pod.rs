//! Builds the pod with which `cp` reads the claims of a job whose pods no longer run. The pod
//! mounts the claims read-only at the job's paths, requests no GPU, and has a deadline.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::Object;
use gpuctl_core::model::OWN_CONTAINER;
use gpuctl_core::model::contract::labels::{COPY_OF, MANAGED_BY, MANAGED_BY_US};

/// Deadline of the pod in seconds. It ends a pod that gpuctl failed to delete.
pub const COPY_SECONDS: u64 = 4 * 3600;

/// Fields copied from the job's pods, so that the pod is scheduled near the volumes, can pull the
/// image, and runs as the same user.
const KEPT_FIELDS: [&str; 5] = [
    "nodeSelector",
    "tolerations",
    "imagePullSecrets",
    "serviceAccountName",
    "hostUsers",
];

/// Reason why a path of an ended job cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOnClaim {
    /// The job does not have the container. Contains the names of its containers.
    NoContainer(Vec<String>),
    /// The path does not begin with `/`, and the job sets no working directory.
    Relative,
    /// The path contains `..`, so its claim depends on symlinks.
    Parent,
    /// The path is not on a claim. Contains the mount paths and names of the job's claims.
    Lost(Vec<(String, String)>),
}

/// A pod that mounts claims, and the values that gpuctl prints about it.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyPod {
    pub object: Object,
    /// The absolute path to copy.
    pub path: String,
    pub image: String,
    /// Names of the mounted claims.
    pub claims: Vec<String>,
}

/// A mount of a container.
struct Mount<'a> {
    path: &'a str,
    /// Name of the claim, or `None` for other types of volume.
    claim: Option<&'a str>,
    body: &'a Value,
}

/// Builds the pod from the owner of the job's pods. `suffix` makes the pod's name unique.
pub fn copy_pod(
    owner: &Value,
    container: Option<&str>,
    path: &str,
    suffix: &str,
) -> Result<CopyPod, NotOnClaim> {
    let spec = pod_spec(owner);
    let container = find_container(spec, container)?;
    let path = absolute(path, container["workingDir"].as_str())?;
    let all = mounts(spec, container);
    // Use the innermost mount: a volume of another type below a claim's mount path hides the
    // claim's files.
    let containing = all
        .iter()
        .filter(|mount| is_in(&path, mount.path))
        .max_by_key(|mount| mount.path.len());
    if containing.is_none_or(|mount| mount.claim.is_none()) {
        let existing = all
            .iter()
            .filter_map(|mount| Some((mount.path.to_owned(), mount.claim?.to_owned())));
        return Err(NotOnClaim::Lost(existing.collect()));
    }
    // Mount only claims that contain the path or are below it. Another claim may be attached to
    // another node, which would prevent the pod from starting.
    let needed: Vec<&Mount<'_>> = all
        .iter()
        .filter(|mount| mount.claim.is_some())
        .filter(|mount| is_in(&path, mount.path) || is_in(mount.path, &path))
        .collect();
    let claims: BTreeSet<&str> = needed.iter().filter_map(|mount| mount.claim).collect();
    let image = container["image"].as_str().unwrap_or_default().to_owned();
    let mut body = metadata(owner, suffix);
    body["spec"] = reader_spec(spec, container, &needed);
    Ok(CopyPod {
        object: Object {
            body,
            plural: "pods",
            shared: false,
            kept: false,
        },
        path,
        image,
        claims: claims.into_iter().map(ToOwned::to_owned).collect(),
    })
}

/// Returns the spec of the pods that an owner creates. For a LeaderWorkerSet, returns the leader's.
fn pod_spec(owner: &Value) -> &Value {
    [
        "/spec/template/spec",
        "/spec/leaderWorkerTemplate/leaderTemplate/spec",
        "/spec/leaderWorkerTemplate/workerTemplate/spec",
    ]
    .iter()
    .find_map(|pointer| owner.pointer(pointer))
    .unwrap_or(&Value::Null)
}

fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + Clone {
    value[key].as_array().map_or(&[][..], Vec::as_slice).iter()
}

fn find_container<'a>(spec: &'a Value, name: Option<&str>) -> Result<&'a Value, NotOnClaim> {
    let mut containers = entries(spec, "containers");
    let wanted = name.unwrap_or(OWN_CONTAINER);
    containers
        .clone()
        .find(|container| container["name"] == wanted)
        .or_else(|| containers.next().filter(|_| name.is_none()))
        .ok_or_else(|| {
            let names =
                entries(spec, "containers").filter_map(|container| container["name"].as_str());
            NotOnClaim::NoContainer(names.map(ToOwned::to_owned).collect())
        })
}

/// Normalizes a path without following symlinks.
fn absolute(path: &str, working_dir: Option<&str>) -> Result<String, NotOnClaim> {
    let base = match working_dir {
        _ if path.starts_with('/') => "",
        Some(folder) if folder.starts_with('/') => folder,
        _ => return Err(NotOnClaim::Relative),
    };
    let parts: Vec<&str> = base
        .split('/')
        .chain(path.split('/'))
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    match parts.contains(&"..") {
        true => Err(NotOnClaim::Parent),
        false => Ok(format!("/{}", parts.join("/"))),
    }
}

/// Returns true if `path` is `folder` or below it. Both are absolute.
fn is_in(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.trim_end_matches('/')
        .strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn mounts<'a>(spec: &'a Value, container: &'a Value) -> Vec<Mount<'a>> {
    let claim_of = |volume: &Value| {
        entries(spec, "volumes")
            .find(|candidate| candidate["name"] == *volume)
            .and_then(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
    };
    entries(container, "volumeMounts")
        .filter_map(|body| {
            // `subPathExpr` refers to environment variables of the job's container, such as its
            // rank, which this pod does not set.
            let is_expandable = body["subPathExpr"].is_null();
            Some(Mount {
                path: body["mountPath"].as_str()?,
                claim: claim_of(&body["name"]).filter(|_| is_expandable),
                body,
            })
        })
        .collect()
}

fn metadata(owner: &Value, suffix: &str) -> Value {
    let own = &owner["metadata"];
    let job = own["name"].as_str().unwrap_or_default();
    let stem: String = job.chars().take(40).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{}-cp-{suffix}", stem.trim_end_matches('-')),
            "namespace": own["namespace"],
            // Omit the label of the job's own pods, so that its Service sends no requests to this
            // pod.
            "labels": {MANAGED_BY: MANAGED_BY_US, COPY_OF: job},
            // Do not mark the owner as the pod's controller, so that the job's controller does not
            // count the pod.
            "ownerReferences": [{
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": job,
                "uid": own["uid"],
            }],
        },
    })
}

fn reader_spec(spec: &Value, container: &Value, mounts: &[&Mount<'_>]) -> Value {
    let mut pod = json!({
        "restartPolicy": "Never",
        "activeDeadlineSeconds": COPY_SECONDS,
        // `sleep` runs as process 1, which ignores SIGTERM, so a longer grace period would only
        // delay the end.
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": pod_security(spec),
        "containers": [{
            "name": OWN_CONTAINER,
            "image": container["image"],
            "command": ["sleep", COPY_SECONDS.to_string()],
            // Where NVIDIA's runtime is the default, images with this variable set see all GPUs.
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"cpu": "1", "memory": "512Mi"},
            },
            "securityContext": container_security(container),
            "volumeMounts": mounts.iter().map(|mount| read_only_mount(mount.body)).collect::<Vec<_>>(),
        }],
        "volumes": volumes(spec, mounts),
    });
    let pull_policy = &container["imagePullPolicy"];
    if !pull_policy.is_null() {
        pod["containers"][0]["imagePullPolicy"] = pull_policy.clone();
    }
    for field in KEPT_FIELDS.iter().filter(|field| !spec[**field].is_null()) {
        pod[*field] = spec[*field].clone();
    }
    // Omit affinity to other pods of the job, which would prevent scheduling once those pods are
    // deleted.
    let affinity = &spec["affinity"]["nodeAffinity"];
    if !affinity.is_null() {
        pod["affinity"] = json!({"nodeAffinity": affinity});
    }
    pod
}

fn read_only_mount(mount: &Value) -> Value {
    let mut fields = Map::new();
    for key in ["name", "mountPath", "subPath"] {
        if let Some(value) = mount.get(key) {
            fields.insert(key.to_owned(), value.clone());
        }
    }
    fields.insert("readOnly".to_owned(), true.into());
    fields.into()
}

fn volumes(spec: &Value, mounts: &[&Mount<'_>]) -> Vec<Value> {
    let is_mounted = |volume: &&Value| {
        mounts
            .iter()
            .any(|mount| mount.body["name"] == volume["name"])
    };
    entries(spec, "volumes")
        .filter(is_mounted)
        .map(|volume| {
            let claim = &volume["persistentVolumeClaim"]["claimName"];
            json!({
                "name": volume["name"],
                // A read-only volume also keeps the kubelet from changing the group of its files.
                "persistentVolumeClaim": {"claimName": claim, "readOnly": true},
            })
        })
        .collect()
}

/// Builds the pod's security context: the job's users and groups, because they own the files, and
/// the restrictions that Pod Security requires. A job that ran as root wrote files that only root
/// can read, so its user is not replaced.
fn pod_security(spec: &Value) -> Value {
    let mut context = match &spec["securityContext"] {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    // Reading files needs no sysctls, and Pod Security allows only some of them.
    context.remove("sysctls");
    context
        .entry("seccompProfile")
        .or_insert_with(|| json!({"type": "RuntimeDefault"}));
    context.into()
}

fn container_security(container: &Value) -> Value {
    let mut context = json!({
        "allowPrivilegeEscalation": false,
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    for field in ["runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions"] {
        if let Some(value) = container["securityContext"].get(field) {
            context[field] = value.clone();
        }
    }
    context
}

#[cfg(test)]
mod tests;
