//! A PersistentVolumeClaim and the pods that use it. Kubernetes does not record past use, so it is
//! unknown once the ended pods are deleted.

use jiff::Timestamp;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub namespace: String,
    pub name: String,
    /// Whether gpuctl created the claim.
    pub is_managed: bool,
    /// The gpuctl job that the claim was created for.
    pub job: Option<String>,
    /// Whether that job exists. `None` if the user cannot list jobs.
    pub job_exists: Option<bool>,
    /// The capacity of its volume, or the requested size if it has no volume: `100Gi`.
    pub size: Option<String>,
    /// `Bound`, `Pending`, `Lost`, or `Terminating`.
    pub status: String,
    pub storage_class: Option<String>,
    pub access_modes: Vec<String>,
    /// The pods that mount the claim and have not terminated. `None` if the user cannot list pods.
    pub pods: Option<Vec<String>>,
    /// When the last pod that mounted the claim ended. Deleted pods are not taken into account.
    pub last_used: Option<Timestamp>,
    pub created_at: Option<Timestamp>,
}

/// Whether a claim that a pod mounts is usable, and if not, what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    Bound,
    Missing,
    /// The claim waits for a volume.
    Unbound {
        class: Option<String>,
        /// Whether the storage class exists. `None` if the user cannot read it.
        class_exists: Option<bool>,
        /// The claim is bound only when its first pod is scheduled (`volumeBindingMode:
        /// WaitForFirstConsumer`).
        with_first_pod: bool,
    },
    Unreadable,
}
