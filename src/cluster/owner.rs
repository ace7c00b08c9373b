//! Maps a job's kind to the object that owns its pods: where it is in the API, and how its pods are told from those of a
//! namesake.

use super::decode::{ObjectMetadata, TEMPLATE_HASH};
use crate::model::JobKind;

/// A kind of object that owns pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerKind {
    Job,
    Deployment,
    StatefulSet,
}

impl OwnerKind {
    pub(crate) const ALL: [Self; 3] = [Self::Job, Self::Deployment, Self::StatefulSet];

    #[must_use]
    pub(crate) fn of(kind: JobKind) -> Self {
        match kind {
            JobKind::Training => Self::Job,
            JobKind::Inference | JobKind::Compute => Self::Deployment,
            JobKind::Notebook => Self::StatefulSet,
        }
    }

    /// Returns the kind of an object of ours; its label tells a compute service from an inference one.
    pub(crate) fn job_kind(self, label: Option<&str>) -> JobKind {
        let told = label.and_then(|label| label.parse().ok()).filter(|kind| Self::of(*kind) == self);
        told.unwrap_or(match self {
            Self::Job => JobKind::Training,
            Self::Deployment => JobKind::Inference,
            Self::StatefulSet => JobKind::Notebook,
        })
    }

    /// Returns the word before the slash: `deployment/web`.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
        }
    }

    /// Returns the path of the collection, in one namespace or in all.
    pub(crate) fn collection(self, namespace: Option<&str>) -> String {
        let (group, plural) = match self {
            Self::Job => ("/apis/batch/v1", "jobs"),
            Self::Deployment => ("/apis/apps/v1", "deployments"),
            Self::StatefulSet => ("/apis/apps/v1", "statefulsets"),
        };
        namespace.map_or_else(|| format!("{group}/{plural}"), |namespace| format!("{group}/namespaces/{namespace}/{plural}"))
    }

    pub(crate) fn path(self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(Some(namespace)))
    }
}

/// Whose pod this is. Labels may be copied by hand; what belongs to a job is what its controller owns. Between a
/// Deployment and its pods stands a ReplicaSet, which is named after the Deployment and the hash of the template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PodOwner {
    Uid(String),
    Deployment { namespace: String, name: String },
    Nobody,
}

/// The label by which a node is named in a pod's selector.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

impl PodOwner {
    pub(super) fn of(pod: &ObjectMetadata<'_>) -> Self {
        let Some(owner) = pod.owner_references.first() else { return Self::Nobody };
        if owner.kind == "ReplicaSet"
            && let Some(hash) = pod.labels.get(TEMPLATE_HASH)
            && let Some(name) = owner.name.strip_suffix(hash.as_str()).and_then(|name| name.strip_suffix('-'))
        {
            return Self::Deployment { namespace: pod.namespace.to_string(), name: name.to_owned() };
        }
        Self::Uid(owner.uid.clone())
    }
}
