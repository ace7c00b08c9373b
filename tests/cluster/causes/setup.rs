//! Defines a setup: a namespace with its own nodes, the objects created before the job, the job,
//! the actions on it, and the actual cause.

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Kubectl, Persona};
use serde_json::{Value, json};

use super::View;

pub const GPU: &str = "nvidia.com/gpu";
pub const A100: (&str, &str) = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
/// Placeholder for the namespace in objects.
pub const NS: &str = "NAMESPACE";

/// Placeholder for the time of the test, which is when the pods ended.
const ENDED: &str = "2026-01-31T10:51:00Z";

/// An action that runs once the job exists.
#[derive(Clone, Debug)]
pub enum Act {
    /// Runs kubectl with these arguments in the namespace. The exit code is ignored.
    Kubectl(Vec<&'static str>),
}

/// An event about a pod of the job, as a real node or a controller that does not run here would
/// write it.
#[derive(Clone, Copy, Debug)]
pub struct EmittedEvent {
    pub reason: &'static str,
    pub message: &'static str,
    pub warning: bool,
    /// `Pod`, or `Node` for an event about its node.
    pub about: &'static str,
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub family: &'static str,
    pub title: String,
    pub namespace: String,
    pub subject: &'static str,
    pub nodes: Vec<Value>,
    pub before: Vec<Value>,
    pub objects: Vec<Value>,
    pub denials: Vec<(&'static str, &'static str)>,
    pub acts: Vec<Act>,
    pub emitted: Vec<EmittedEvent>,
    pub truth: &'static str,
    /// The cause that a user who may not read nodes can see. `None` if it is the actual cause.
    pub without_nodes: Option<&'static str>,
    pub without_events: Option<&'static str>,
    pub namespace_labels: Value,
}

impl Setup {
    pub fn new(family: &'static str, title: &str, truth: &'static str) -> Self {
        Self {
            family,
            title: format!("{family}: {title}"),
            namespace: String::new(),
            subject: "train",
            nodes: Vec::new(),
            before: Vec::new(),
            objects: Vec::new(),
            denials: Vec::new(),
            acts: Vec::new(),
            emitted: Vec::new(),
            truth,
            without_nodes: None,
            without_events: None,
            namespace_labels: json!({}),
        }
    }

    pub fn nodes(mut self, nodes: impl IntoIterator<Item = Value>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    pub fn before(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.before.extend(objects);
        self
    }

    pub fn objects(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.objects.extend(objects);
        self
    }

    pub fn emitted(mut self, reason: &'static str, message: &'static str) -> Self {
        self.emitted.push(EmittedEvent {
            reason,
            message,
            warning: true,
            about: "Pod",
        });
        self
    }

    pub fn act(mut self, arguments: &[&'static str]) -> Self {
        self.acts.push(Act::Kubectl(arguments.to_vec()));
        self
    }

    pub fn without_nodes(self, label: &'static str) -> Self {
        Self {
            without_nodes: Some(label),
            ..self
        }
    }

    pub fn without_events(self, label: &'static str) -> Self {
        Self {
            without_events: Some(label),
            ..self
        }
    }

    /// Assigns a namespace, and inserts it into the names of nodes and objects.
    pub fn numbered(mut self, number: usize) -> Self {
        self.namespace = format!("why-{number}");
        let ended = format!("{:.0}", jiff::Timestamp::now());
        let fill_in = |value: &mut Value| {
            let text = value
                .to_string()
                .replace(NS, &self.namespace)
                .replace(ENDED, &ended);
            *value = serde_json::from_str(&text).unwrap();
        };
        self.nodes.iter_mut().for_each(fill_in);
        self.before
            .iter_mut()
            .chain(&mut self.objects)
            .for_each(|object| {
                fill_in(object);
                let cluster_wide = [
                    "PersistentVolume",
                    "StorageClass",
                    "ValidatingAdmissionPolicy",
                    "ValidatingAdmissionPolicyBinding",
                    "ResourceSlice",
                    "CustomResourceDefinition",
                ];
                let kind = object["kind"].as_str().unwrap_or_default().to_owned();
                if !cluster_wide.contains(&kind.as_str())
                    && !kind.ends_with("WebhookConfiguration")
                    && kind != "PriorityClass"
                    && kind != "DeviceClass"
                {
                    object["metadata"]["namespace"] = json!(self.namespace);
                }
            });
        self
    }

    pub fn namespace_object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": self.namespace_labels}})
    }

    /// Lets a user work in this namespace only.
    pub fn role_binding(&self) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "edit", "namespace": self.namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Persona::Alice.user()}]})
    }

    pub fn acts(&self, admin: &Kubectl) {
        for Act::Kubectl(arguments) in &self.acts {
            let _ = admin.try_run(
                &[&["-n", &self.namespace], arguments.as_slice()].concat(),
                "",
            );
        }
    }

    /// Builds the events about the first pod of the job.
    pub fn events(&self, admin: &Kubectl) -> Vec<Value> {
        if self.emitted.is_empty() {
            return Vec::new();
        }
        let list = admin.json(&["get", "pods", "-n", &self.namespace, "-l", "gpuctl/job"]);
        let pod = &list["items"][0];
        let now = pod["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap_or_default();
        let event = |(index, emitted): (usize, &EmittedEvent)| {
            let (about, namespace) = match emitted.about {
                "Node" => {
                    let name = &pod["spec"]["nodeName"];
                    (
                        json!({"kind": "Node", "apiVersion": "v1", "name": name, "uid": name}),
                        "default",
                    )
                }
                _ => {
                    let meta = &pod["metadata"];
                    (
                        json!({"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"], "namespace": self.namespace}),
                        self.namespace.as_str(),
                    )
                }
            };
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{}-event-{index}", self.namespace), "namespace": namespace},
                "type": if emitted.warning { "Warning" } else { "Normal" }, "reason": emitted.reason, "message": emitted.message,
                "involvedObject": about, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
                "source": {"component": "kubelet"}})
        };
        self.emitted.iter().enumerate().map(event).collect()
    }

    /// Returns the cause that is expected in a view.
    pub fn label(&self, view: View) -> Option<&'static str> {
        Some(match view {
            View::Admin => self.truth,
            View::WithoutNodes => self.without_nodes.unwrap_or(self.truth),
            View::WithoutEvents => self.without_events.unwrap_or(self.truth),
        })
    }
}

/// A node of the setup with eight GPUs.
pub fn gpus(index: usize) -> Value {
    let mut node = node(&format!("{NS}-{index}"), Some(A100), &[(GPU, 8)]);
    node["metadata"]["labels"]["scenario"] = json!(NS);
    node
}

/// A pod that holds these resources on a node.
pub fn holder(index: usize, requests: &Value) -> Value {
    let limits = requests
        .get(GPU)
        .map_or(json!({}), |gpus| json!({GPU: gpus}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("holder-{index}")},
        "spec": {"nodeName": format!("{NS}-{index}"), "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": limits}}]}})
}

/// The specification of a pod that requests this number of GPUs on the nodes of the setup.
pub fn pod(gpus: u32) -> Value {
    let amount = json!({GPU: gpus.to_string()});
    let resources = if gpus == 0 {
        json!({})
    } else {
        json!({"requests": amount, "limits": amount})
    };
    json!({"nodeSelector": {"scenario": NS}, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "busybox", "resources": resources}]})
}

/// Merges `more` into a JSON object, recursively.
pub fn with(mut base: Value, more: Value) -> Value {
    merge(&mut base, more);
    base
}

fn merge(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more,
    }
}

/// Merges fields into the container of a pod.
pub fn container(mut pod: Value, more: Value) -> Value {
    merge(&mut pod["containers"][0], more);
    pod
}

/// A training as gpuctl creates it: an Indexed Job.
pub fn job(pods: u32, spec: Value) -> Value {
    job_with(pods, spec, json!({}))
}

/// Like `job`, with annotations on its pods.
pub fn job_with(pods: u32, spec: Value, annotations: Value) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "train", "gpuctl/kind": "training"});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "labels": labels},
        "spec": {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "backoffLimit": 0,
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}}})
}

/// A service as gpuctl creates it.
pub fn service(replicas: u32, mut spec: Value, annotations: Value) -> Value {
    spec["restartPolicy"] = json!("Always");
    let labels = json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "train", "gpuctl/kind": "inference"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"gpuctl/job": "train"}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}}})
}

/// The annotation that makes the simulated kubelet report this status.
pub fn status(status: Value) -> Value {
    let status = with(json!({"startTime": "2026-01-31T10:00:00Z"}), status);
    json!({"sandbox/status": status.to_string()})
}

/// The status of a container that waits.
pub fn waiting(reason: &str, message: &str) -> Value {
    status(
        json!({"phase": "Pending", "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]}),
    )
}

/// The status of a pod whose container ended.
pub fn ended(code: i32, reason: &str, more: Value) -> Value {
    let end = json!({"exitCode": code, "reason": reason, "startedAt": "2026-01-31T10:00:00Z", "finishedAt": "2026-01-31T10:51:00Z"});
    let base = json!({"phase": "Failed", "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"terminated": end}}]});
    status(with(base, more))
}
