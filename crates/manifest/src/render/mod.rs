//! Renders a document into Kubernetes objects for one cluster, in apply order. Rendering is
//! deterministic: it uses neither a client, nor the clock, nor random numbers.

mod affinity;
mod autoscaler;
mod checkpoint;
mod claim;
mod command;
mod copy_pod;
mod defaults;
mod environment;
mod exposure;
mod fabric;
mod flavor_rules;
mod gpu_request;
mod groups;
mod labels;
mod node_terms;
mod notebook;
mod overlay;
mod placement;
mod pod;
mod pod_rules;
mod pool;
mod queue;
mod quota;
mod role;
mod secret;
mod security;
mod servers;
mod service;
mod storage;
mod supervisor;
mod tolerations;
mod topology;
mod training;
mod volume_facts;
mod volume_judge;
mod volume_limits;
mod volume_matching;
mod volume_reach;
mod volume_rules;
mod volume_space;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::spec::{Document, FilePosition, JobDocument};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::{Gang, JobKind, Nodes, QueueSystem};

pub use claim::DeviceClaim;
pub use copy_pod::{COPY_SECONDS, CopyPod, NotOnClaim, copy_pod};
pub use defaults::defaults;
pub use defaults::{DEFAULTS_FILE, DEFAULTS_TYPE_LABELS};
pub use environment::CACHES;
pub use flavor_rules::{flavor_exclusions, with_flavors};
pub use labels::{label_value, priority_class_name};
pub use placement::{NodeChoice, choose};
pub use pod_rules::PodRules;
pub use pool::{FACTS_POOLS, facts, reader_rules, reads_all_configmaps};
pub use pool::{HOME_ROLE, POOL_KIND, definition, home_namespace, home_role, is_published};
pub use quota::{namespace, quota};
pub use role::{BindingSubject, ProxyGrant, RoleSet, SubjectKind, dns_name, roles};
pub use secret::{Registry, opaque, registry};
pub use storage::{FILES_KIB, claim_name, file_key, files_name};
pub use supervisor::policy_name;
pub use tolerations::is_temporary;
pub use volume_facts::{ClaimSource, JobClaim, VolumeFacts, VolumeNeeds, VolumeUser};
pub use volume_judge::judge_volumes;
pub use volume_matching::selects;
pub use volume_rules::{NodeVolumes, VolumeFinding, VolumeRules};

/// Facts about the cluster that rendering needs.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The namespace of the objects.
    pub namespace: String,
    /// Nodes and their capacity, as far as the user may read them.
    pub nodes: Nodes,
    /// Names of the defined pools, including empty ones.
    pub pools: BTreeSet<String>,
    /// Name of the submitting user, as the API server reports it.
    pub user: Option<String>,
    /// Contents of `files:`, in document order.
    pub files: Vec<Vec<u8>>,
    /// The queueing system that serves `job.queue`.
    pub queueing: Option<QueueSystem>,
    /// The gang scheduler of a training, or `None` if the cluster has none.
    pub gang: Option<Gang>,
    /// Node labels by which the job's Kueue queue places pods near each other.
    pub kueue_levels: BTreeSet<String>,
    /// Whether gpuctl's PriorityClasses are missing and the user is not allowed to create them.
    pub without_priority: bool,
    /// Optional APIs of the cluster; `None` if they were not queried.
    pub served: Option<Served>,
    /// NetworkPolicies of the namespace that gpuctl did not create.
    pub other_policies: OtherPolicies,
}

/// Whether a namespace has NetworkPolicies that gpuctl did not create. Policies are additive, so a
/// policy cannot forbid traffic that another one allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherPolicies {
    /// The namespace has no other policies.
    #[default]
    Absent,
    /// At least one other policy restricts ingress.
    Present,
    /// The user is not allowed to list policies.
    Hidden,
}

/// APIs of a cluster that a service may need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Names of pod metrics in the custom metrics API; `None` without that API.
    pub custom_metrics: Option<BTreeSet<String>>,
    /// Whether metrics-server serves CPU and memory of pods.
    pub resource_metrics: bool,
    /// Whether the cluster serves LeaderWorkerSets.
    pub leader_worker_sets: bool,
    /// `None` if the user is not allowed to list ingress classes.
    pub ingress_classes: Option<Vec<IngressClass>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressClass {
    pub name: String,
    /// Whether this class applies to Ingresses that name no class.
    pub default: bool,
}

/// An object to apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The object as sent to the API server.
    pub body: Value,
    /// The resource's name in URLs, such as `jobs`.
    pub plural: &'static str,
    /// Whether several jobs use the object. It is created if missing, and never deleted with a job.
    pub shared: bool,
    /// Whether the object stays when its job is deleted, because users would lose data.
    pub kept: bool,
}

impl Object {
    fn new(object: &impl Serialize, plural: &'static str) -> Self {
        let body = serde_json::to_value(object).expect("objects of the API are JSON");
        Self {
            body,
            plural,
            shared: false,
            kept: false,
        }
    }

    /// Returns the text at a JSON pointer, or an empty string if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Group and version, such as `batch/v1`.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.body
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
    }
}

/// The objects of one document.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// In apply order. The last object owns the pods.
    pub objects: Vec<Object>,
    /// A bare pod with the owner's pod template, which the API server validates in a dry run.
    pub probe: Object,
    /// The nodes that the job may use, and the resources that it requests there.
    pub choice: NodeChoice,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The reason why a document cannot be rendered for this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// CamelCase name of the error in JSON output.
    pub name: &'static str,
    /// Lower-case fragment without a final period.
    pub message: String,
    /// Suggestions for a fix.
    pub hints: Vec<String>,
    /// Position of the field that causes the refusal.
    pub at: Option<FilePosition>,
}

impl Refusal {
    fn new(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            message: message.into(),
            hints: vec![hint.into()],
            at: None,
        }
    }

    fn with_position(self, at: Option<FilePosition>) -> Self {
        Self { at, ..self }
    }

    /// Converts the refusal to an error at its position in the file.
    pub fn in_file(self, file: &str, text: &str) -> Error {
        let Self {
            name,
            message,
            hints,
            at,
        } = self;
        let name = ErrorName::reported(ErrorKind::Specification, name);
        let error = Error {
            hints,
            ..Error::new(name, message)
        };
        match at {
            Some(at) => error.in_file(file, text, at),
            None => error,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Renders a document into objects.
pub fn render(document: &Document, target: &Target) -> Result<Rendered, Refusal> {
    match document {
        Document::Job(job) => match job.kind {
            JobKind::Training => training::render(job, target),
            JobKind::Inference | JobKind::Compute => service::render(job, target),
            JobKind::Notebook => notebook::render(job, target),
        },
        other => {
            let message = format!("a {} has no pods", other.kind());
            Err(Refusal::new("NotAJob", message, "only jobs are rendered"))
        }
    }
}

/// Returns the number of pods that a running job has.
pub fn pods_in_all(job: &JobDocument) -> u32 {
    match job.kind {
        JobKind::Training => job.resources.node_count,
        JobKind::Notebook => 1,
        JobKind::Inference | JobKind::Compute => service::replicas(job) * job.resources.node_count,
    }
}
