//! Turns a document and what is known of the cluster into Kubernetes objects, in the order in which
//! to apply them. Pure and deterministic: no client, no clock, no randomness.

mod affinity;
mod autoscaler;
mod checkpoint;
mod claim;
mod command;
mod defaults;
mod environment;
mod exposure;
mod fabric;
mod gpu_request;
mod groups;
mod labels;
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

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::spec::{Document, FilePosition, JobDocument};
use gpuctl_core::error::{Error, ErrorKind, ErrorName, Problem, Problems};
use gpuctl_core::model::{Gang, JobKind, Nodes, QueueSystem};

pub use claim::DeviceClaim;
pub use defaults::defaults;
pub use defaults::{DEFAULTS_FILE, DEFAULTS_TYPE_LABELS};
pub use environment::CACHES;
pub use labels::{label_value, priority_class_name};
pub use placement::{NodeChoice, choose};
pub use pod_rules::PodRules;
pub use pool::{FACTS_POOLS, facts, reader_rules, reads_everything};
pub use pool::{HOME_ROLE, POOL_KIND, definition, home, home_mark, is_published};
pub use quota::{namespace, quota};
pub use role::{BindingSubject, ProxyGrant, RoleSet, SubjectKind, dns_name, roles};
pub use secret::{Registry, opaque, registry};
pub use storage::{FILES_KIB, claim_name};
pub use supervisor::policy_name;

/// What rendering has to know of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Where the objects go.
    pub namespace: String,
    /// What the cluster offers.
    pub nodes: Nodes,
    /// Names of pools that are defined, with nodes or without.
    pub pools: BTreeSet<String>,
    /// Who submits, as the API server names them.
    pub user: Option<String>,
    /// Contents of `files:` in the order of the document.
    pub files: Vec<Vec<u8>>,
    /// The queueing system that serves `job.queue`.
    pub queueing: Option<QueueSystem>,
    /// Who places the pods of a training together; `None` where nobody does.
    pub gang: Option<Gang>,
    /// Labels of nodes by which the job's queue of Kueue places pods near each other.
    pub kueue_levels: BTreeSet<String>,
    /// True when no PriorityClass of ours is there and none may be made.
    pub without_priority: bool,
    /// What the cluster serves beside the core of Kubernetes; `None` when nobody asked.
    pub served: Option<Served>,
    /// NetworkPolicies of the namespace that gpuctl did not create.
    pub other_policies: OtherPolicies,
}

/// Whether a namespace has NetworkPolicies that gpuctl did not create. Policies are a union: what
/// one of them allows, the others cannot forbid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherPolicies {
    /// The namespace has none.
    #[default]
    Absent,
    /// At least one of them restricts ingress.
    Present,
    /// The user may not list them.
    Hidden,
}

/// Parts of a cluster that a service may need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Names of the metrics that the custom metrics API has for pods; `None` without that API.
    pub custom_metrics: Option<BTreeSet<String>>,
    /// CPU and memory of pods, as metrics-server tells them.
    pub resource_metrics: bool,
    /// LeaderWorkerSets.
    pub leader_worker_sets: bool,
    /// `None` for users who may not look.
    pub ingress_classes: Option<Vec<IngressClass>>,
}

/// Who makes Ingresses answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressClass {
    /// The name of the class.
    pub name: String,
    /// Taken where an Ingress names none.
    pub default: bool,
}

/// One object to apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The object as it is sent.
    pub body: Value,
    /// The resource's name in URLs: `jobs`.
    pub plural: &'static str,
    /// Shared by many jobs: made when absent, never deleted with one.
    pub shared: bool,
    /// Kept when the job is deleted: files that nobody wants to lose.
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

    /// Returns the text at a JSON pointer, or nothing.
    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns the kind, such as `Job`.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Returns the group and version, such as `batch/v1`.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// `None` for objects of the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        self.body
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
    }
}

/// The objects of one document.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// In the order in which they are applied; the last one owns the pods.
    pub objects: Vec<Object>,
    /// One pod as the owner will make it, for the API server to judge beforehand.
    pub probe: Object,
    /// The nodes that were chosen.
    pub choice: NodeChoice,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Why a document cannot be rendered for this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The contract's CamelCase word.
    pub name: &'static str,
    /// Lower-case fragment without a final period.
    pub message: String,
    /// What to change.
    pub hints: Vec<String>,
    /// Where in the document, when one field is to blame.
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

    fn at(self, at: Option<FilePosition>) -> Self {
        Self { at, ..self }
    }

    /// Returns the error, at its place in the file.
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
            ..Error::new(name.clone(), message)
        };
        let Some(at) = at else { return error };
        let problem = Problem::error(at, error.message.clone(), error.hints.join("; "));
        let problems = Problems {
            file: file.to_owned(),
            text: text.to_owned(),
            list: vec![problem],
        };
        Error {
            name,
            hints: Vec::new(),
            ..Error::from(problems)
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Turns a document into objects.
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

/// Pods of the job when it runs.
pub fn pods_in_all(job: &JobDocument) -> u32 {
    match job.kind {
        JobKind::Training => job.resources.node_count,
        JobKind::Notebook => 1,
        JobKind::Inference | JobKind::Compute => service::replicas(job) * job.resources.node_count,
    }
}
