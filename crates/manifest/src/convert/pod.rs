//! Converts a pod template into the blocks `environment`, `resources` and `storage`, and an overlay
//! for the other fields.

use serde_json::{Map, Value, json};

use super::{FieldMap, SourceFields};
use gpuctl_core::model::GpuType;
use gpuctl_core::model::contract::labels::POOL_LABEL;
use gpuctl_core::model::facts::gpu::{TYPE_LABELS, WHOLE};

/// Fields of a pod spec that the overlay keeps unchanged.
const OVERLAID: [&str; 16] = [
    "tolerations",
    "affinity",
    "serviceAccountName",
    "securityContext",
    "runtimeClassName",
    "hostNetwork",
    "hostIPC",
    "hostPID",
    "schedulerName",
    "dnsPolicy",
    "dnsConfig",
    "topologySpreadConstraints",
    "hostAliases",
    "initContainers",
    "preemptionPolicy",
    "shareProcessNamespace",
];
/// Fields that gpuctl sets itself, or that have no effect.
const OURS: [&str; 4] = [
    "restartPolicy",
    "enableServiceLinks",
    "automountServiceAccountToken",
    "serviceAccount",
];

/// The contents of a pod template, as fields of a manifest.
#[derive(Default)]
pub(super) struct PodFields {
    pub environment: Value,
    pub resources: FieldMap,
    pub storage: Value,
    pub overlay: Value,
    pub gpus: u64,
    pub grace: Option<String>,
    pub priority: Value,
    /// Ports of the container.
    pub ports: Vec<Value>,
    pub health: Value,
}

/// Reads a template's pod spec.
pub(super) fn read(spec: &Value, path: &str, omitted: &mut Vec<String>) -> PodFields {
    let mut pod = PodFields::default();
    let mut overlay = FieldMap::default();
    let mut source = SourceFields::new(path, spec, omitted);
    let containers = source.take("containers");
    let containers = containers.as_array().cloned().unwrap_or_default();
    let volumes = source.take("volumes");
    for key in OVERLAID {
        overlay.put(key, source.take(key));
    }
    for key in OURS {
        source.take(key);
    }
    let secrets = source.take("imagePullSecrets");
    pod.grace = source
        .take("terminationGracePeriodSeconds")
        .as_u64()
        .map(|seconds| format!("{seconds}s"));
    pod.priority = source.take("priorityClassName");
    let selector = source.take("nodeSelector");
    let rest = pod.take_selector(&selector);
    overlay.put("nodeSelector", Value::Object(rest));
    if spec["initContainers"]
        .as_array()
        .is_some_and(|first| first.iter().any(|member| member["volumeMounts"].is_array()))
    {
        source.omit("initContainers: gpuctl gives their volumes different names; correct the names in `pod:`");
    }
    for container in containers.iter().skip(1) {
        source.omit(&format!(
            "containers[{}]: a job has one container; add others with `pod:`",
            container["name"].as_str().unwrap_or("?")
        ));
    }
    source.finish();
    let first = containers.first().cloned().unwrap_or_default();
    let secrets: Vec<Value> = secrets
        .as_array()
        .into_iter()
        .flatten()
        .map(|secret| secret["name"].clone())
        .collect();
    container(
        &mut pod,
        &first,
        &volumes,
        secrets,
        &format!("{path}.containers[0]"),
        omitted,
    );
    pod.overlay = overlay.value();
    pod
}

fn container(
    pod: &mut PodFields,
    container: &Value,
    volumes: &Value,
    secrets: Vec<Value>,
    path: &str,
    omitted: &mut Vec<String>,
) {
    let mut environment = FieldMap::default();
    let mut source = SourceFields::new(path, container, omitted);
    source.take("name");
    environment.put("image", source.take("image"));
    environment.put("imagePullPolicy", source.take("imagePullPolicy"));
    environment.put("imagePullSecret", Value::Array(secrets));
    environment.put("command", source.take("command"));
    environment.put("args", source.take("args"));
    environment.put("workingDir", source.take("workingDir"));
    let variables = source.take("env");
    let resources = source.take("resources");
    let mounts = source.take("volumeMounts");
    pod.ports = source.take("ports").as_array().cloned().unwrap_or_default();
    // `health_check` corresponds to the readiness probe. gpuctl derives the other two probes from
    // it, so take the first HTTP probe, readiness first.
    let probes = ["readinessProbe", "livenessProbe", "startupProbe"].map(|key| source.take(key));
    pod.health = probes.iter().find_map(health).unwrap_or_default();
    for (key, probe) in ["readinessProbe", "livenessProbe", "startupProbe"]
        .into_iter()
        .zip(&probes)
    {
        if !probe.is_null() && health(probe).is_none() {
            source.omit(&format!("{key}: only HTTP checks are supported"));
        }
    }
    source.finish();
    environment.put("env", env(&variables, path, omitted));
    pod.environment = environment.value();
    if !resources["claims"].is_null() {
        omitted.push(format!("{path}.resources.claims"));
    }
    pod.resources(&resources, path, omitted);
    pod.volumes(&mounts, volumes, path, omitted);
}

fn health(probe: &Value) -> Option<Value> {
    let get = probe.get("httpGet")?;
    let mut check = FieldMap::default();
    check.put("path", Some(get["path"].as_str().unwrap_or("/").into()));
    check.put("port", Some(get["port"].clone()).filter(Value::is_u64));
    check.put(
        "initial_delay",
        probe["initialDelaySeconds"]
            .as_u64()
            .map(|seconds| format!("{seconds}s").into()),
    );
    check.put(
        "period",
        probe["periodSeconds"]
            .as_u64()
            .map(|seconds| format!("{seconds}s").into()),
    );
    Some(check.value())
}

fn env(variables: &Value, path: &str, omitted: &mut Vec<String>) -> Value {
    let mut entries = Vec::new();
    for variable in variables.as_array().into_iter().flatten() {
        let name = &variable["name"];
        let source = &variable["valueFrom"];
        if source.is_null() {
            entries.push(
                json!({"name": name, "value": variable["value"].as_str().unwrap_or_default()}),
            );
        } else if source["secretKeyRef"].is_object() {
            entries.push(json!({"name": name, "secret": source["secretKeyRef"]["name"], "key": source["secretKeyRef"]["key"]}));
        } else if source["configMapKeyRef"].is_object() {
            entries
                .push(json!({"name": name, "configmap": source["configMapKeyRef"]["name"], "key": source["configMapKeyRef"]["key"]}));
        } else {
            omitted.push(format!(
                "{path}.env[{}]: values from pod fields are not supported",
                name.as_str().unwrap_or("?")
            ));
        }
    }
    Value::Array(entries)
}

impl PodFields {
    fn resources(&mut self, resources: &Value, path: &str, omitted: &mut Vec<String>) {
        let (limits, requests) = (&resources["limits"], &resources["requests"]);
        let amount = |key: &str| {
            if limits[key].is_null() {
                &requests[key]
            } else {
                &limits[key]
            }
        };
        let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let names = |map: &Value| {
            map.as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect::<Vec<_>>()
        };
        for key in names(limits)
            .into_iter()
            .chain(names(requests))
            .collect::<std::collections::BTreeSet<_>>()
        {
            match key.as_str() {
                "cpu" | "memory" => {
                    // Prefer the request, because the scheduler places pods by their requests.
                    let value = if key == "cpu" && !requests["cpu"].is_null() {
                        &requests["cpu"]
                    } else {
                        amount(&key)
                    };
                    self.resources.put(&key, value.clone());
                    if !limits[&key].is_null()
                        && !requests[&key].is_null()
                        && limits[&key] != requests[&key]
                    {
                        omitted.push(format!(
                            "{path}.resources: the request and limit for {key} differ; using {value}"
                        ));
                    }
                }
                resource if WHOLE.contains(&resource) => {
                    self.gpus = number(amount(resource)).unwrap_or(0);
                    self.resources.put("gpu", Some(self.gpus.into()));
                }
                other => omitted.push(format!("{path}.resources.{other}")),
            }
        }
    }

    /// Takes the pool and the GPU type from a node selector, and returns the other labels.
    fn take_selector(&mut self, selector: &Value) -> Map<String, Value> {
        let mut other_labels = Map::new();
        for (key, value) in selector.as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            if key == POOL_LABEL {
                self.resources.put("pool", value.clone());
            } else if (TYPE_LABELS.contains(&key.as_str())
                || key.ends_with("/gpu-type")
                || key.ends_with("gpu.product"))
                && GpuType::parse(text).is_some()
            {
                self.resources.put(
                    "gpu-type",
                    GpuType::parse(text).map(|kind| kind.to_string().into()),
                );
            } else {
                other_labels.insert(key.clone(), value.clone());
            }
        }
        other_labels
    }

    fn volumes(&mut self, mounts: &Value, volumes: &Value, path: &str, omitted: &mut Vec<String>) {
        let mut workdirs = Vec::new();
        for mount in mounts.as_array().into_iter().flatten() {
            let name = mount["name"].as_str().unwrap_or_default();
            let volume = volumes
                .as_array()
                .into_iter()
                .flatten()
                .find(|volume| volume["name"] == name)
                .cloned()
                .unwrap_or_default();
            let mut workdir = FieldMap::default();
            workdir.put("path", mount["mountPath"].clone());
            workdir.put(
                "read_only",
                Some(json!(true)).filter(|_| mount["readOnly"] == true),
            );
            let claim = volume["persistentVolumeClaim"].is_object();
            for key in ["subPath", "subPathExpr", "mountPropagation"] {
                if !(mount[key].is_null() || key == "subPath" && claim) {
                    omitted.push(format!("{path}.volumeMounts[{name}].{key}"));
                }
            }
            omitted.extend(unread_sources(name, &volume, path));
            let shared_memory = mount["mountPath"] == "/dev/shm";
            if let Some(host) = volume["hostPath"]["path"].as_str() {
                workdir.put(
                    "host_path",
                    Some(host.into()).filter(|_| mount["mountPath"] != host),
                );
                let kind = volume["hostPath"]["type"].as_str().unwrap_or_default();
                workdir.put(
                    "type",
                    Some(json!("file")).filter(|_| kind.starts_with("File")),
                );
            } else if volume["persistentVolumeClaim"].is_object() {
                workdir.put("pvc", volume["persistentVolumeClaim"]["claimName"].clone());
                workdir.put("sub_path", mount["subPath"].clone());
            } else if volume["emptyDir"].is_object() && shared_memory {
                self.resources
                    .put("shm", volume["emptyDir"]["sizeLimit"].clone());
                continue;
            } else if volume["emptyDir"].is_object() {
                workdir.put("emptyDir", Some(json!(true)));
            } else if volume["configMap"].is_object() {
                workdir.put("configmap", volume["configMap"]["name"].clone());
            } else if volume["secret"].is_object() {
                workdir.put("secret", volume["secret"]["secretName"].clone());
            } else {
                omitted.push(format!(
                    "{path}.volumeMounts[{name}]: add this volume with `pod:`"
                ));
                continue;
            }
            workdirs.push(workdir.value());
        }
        if !workdirs.is_empty() {
            self.storage = json!({"workdirs": workdirs});
        }
    }
}

/// Lists the fields of a volume's source that have no equivalent.
fn unread_sources(name: &str, volume: &Value, path: &str) -> Vec<String> {
    let mut unread = Vec::new();
    for source in ["configMap", "secret", "emptyDir", "persistentVolumeClaim"] {
        let fields = volume[source].as_object().into_iter().flatten();
        let supported = ["name", "secretName", "claimName", "sizeLimit", "medium"];
        let unsupported = fields.filter(|(key, _)| !supported.contains(&key.as_str()));
        unread.extend(unsupported.map(|(key, _)| format!("{path}: volume {name}.{source}.{key}")));
    }
    unread
}
