//! Maps a job to the object that owns its pods, with the object's API path, and distinguishes the
//! job's pods from those of another job with the same name.

use crate::transport::decode::{ObjectMetadata, TEMPLATE_HASH};
use gpuctl_core::model::contract::labels::{COPY_OF, GROUP};
use gpuctl_core::model::{Job, JobKind};

/// A kind of object that owns pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Job,
    Deployment,
    StatefulSet,
    /// Owner of services whose replicas consist of several pods. LeaderWorkerSets are an add-on to
    /// Kubernetes.
    LeaderWorkerSet,
}

impl OwnerKind {
    pub(crate) const ALL: [Self; 4] = [
        Self::Job,
        Self::Deployment,
        Self::StatefulSet,
        Self::LeaderWorkerSet,
    ];

    pub(crate) fn for_job(job: &Job) -> Self {
        match Self::for_job_kind(job.kind)[..] {
            [_, group_owner] if job.group_size > 1 => group_owner,
            [owner, ..] => owner,
            [] => unreachable!("every kind has an owner"),
        }
    }

    /// Lists the kinds of owners that jobs of this kind can have.
    pub(crate) fn for_job_kind(kind: JobKind) -> &'static [Self] {
        match kind {
            JobKind::Training => &[Self::Job],
            JobKind::Inference => &[Self::Deployment, Self::LeaderWorkerSet],
            JobKind::Compute => &[Self::Deployment],
            JobKind::Notebook => &[Self::StatefulSet],
        }
    }

    /// Returns the kind of job that an owner belongs to. The label distinguishes a compute service
    /// from an inference, because Deployments own both.
    pub(crate) fn job_kind(self, label: Option<&str>) -> JobKind {
        let labelled = label
            .and_then(|label| label.parse().ok())
            .filter(|kind| Self::for_job_kind(*kind).contains(&self));
        labelled.unwrap_or(match self {
            Self::Job => JobKind::Training,
            Self::Deployment | Self::LeaderWorkerSet => JobKind::Inference,
            Self::StatefulSet => JobKind::Notebook,
        })
    }

    /// Returns true if clusters may lack this kind. A user without access to the kind gets a 403
    /// whether or not the cluster serves it.
    pub(crate) fn is_optional(self) -> bool {
        self == Self::LeaderWorkerSet
    }

    /// Returns the word for the kind, such as `deployment` in `deployment/web`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::LeaderWorkerSet => "leaderworkerset",
        }
    }

    /// Returns the path of the collection. `None` selects all namespaces.
    pub(crate) fn collection(self, namespace: Option<&str>) -> String {
        let (group, plural) = match self {
            Self::Job => ("/apis/batch/v1", "jobs"),
            Self::Deployment => ("/apis/apps/v1", "deployments"),
            Self::StatefulSet => ("/apis/apps/v1", "statefulsets"),
            Self::LeaderWorkerSet => ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
        };
        namespace.map_or_else(
            || format!("{group}/{plural}"),
            |namespace| format!("{group}/namespaces/{namespace}/{plural}"),
        )
    }

    pub(crate) fn path(self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(Some(namespace)))
    }
}

/// The owner of a pod according to its controller reference. Users can copy labels, so labels do
/// not prove that a pod belongs to a job. A Deployment owns its pods through a ReplicaSet, named
/// after the Deployment and the hash of the template. A LeaderWorkerSet owns its pods through
/// StatefulSets, and labels them with its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PodOwner {
    Uid(String),
    Deployment { namespace: String, name: String },
    LeaderWorkerSet { namespace: String, name: String },
    Nobody,
}

/// Node label with the host name. Node selectors use it to select one node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

impl PodOwner {
    pub(crate) fn from_metadata(pod: &ObjectMetadata<'_>) -> Self {
        let Some(owner) = pod.owner_references.first() else {
            return Self::Nobody;
        };
        if pod.labels.contains_key(COPY_OF) {
            return Self::Nobody;
        }
        if owner.kind == "ReplicaSet"
            && let Some(hash) = pod.labels.get(TEMPLATE_HASH)
            && let Some(name) = owner
                .name
                .strip_suffix(hash.as_str())
                .and_then(|name| name.strip_suffix('-'))
        {
            return Self::Deployment {
                namespace: pod.namespace.to_string(),
                name: name.to_owned(),
            };
        }
        if let Some(name) = pod
            .labels
            .get(GROUP)
            .filter(|_| owner.kind == "StatefulSet")
        {
            return Self::LeaderWorkerSet {
                namespace: pod.namespace.to_string(),
                name: name.clone(),
            };
        }
        Self::Uid(owner.uid.clone())
    }

    /// Returns the owner that the pods of a job must have.
    pub(crate) fn from_job(job: &Job) -> Self {
        let (namespace, name) = (job.namespace.clone(), job.name.clone());
        match OwnerKind::for_job(job) {
            OwnerKind::Deployment => Self::Deployment { namespace, name },
            OwnerKind::LeaderWorkerSet => Self::LeaderWorkerSet { namespace, name },
            OwnerKind::Job | OwnerKind::StatefulSet => Self::Uid(job.uid.clone()),
        }
    }
}
