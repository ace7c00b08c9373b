//! A PersistentVolumeClaim and the pods that use it. Kubernetes does not record past use, which is
//! unknown once the ended pods are deleted.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub namespace: String,
    pub name: String,
    /// Whether gpuctl created the claim.
    pub is_managed: bool,
    /// Name of the gpuctl job for which the claim was created.
    pub job: Option<String>,
    /// True if that job still exists, or `None` if the user cannot list jobs.
    pub job_exists: Option<bool>,
    /// Capacity of the bound volume, or the requested size without one: `100Gi`.
    pub size: Option<String>,
    /// `Bound`, `Pending`, `Lost`, or `Terminating`.
    pub status: String,
    pub storage_class: Option<String>,
    pub access_modes: Vec<String>,
    /// Pods that mount the claim and have not terminated, or `None` if the user cannot list pods.
    pub pods: Option<Vec<String>>,
    /// End time of the last ended pod that mounted the claim. Deleted pods are not considered.
    pub last_used: Option<Timestamp>,
    /// `None` if they are not shown.
    pub labels: Option<BTreeMap<String, String>>,
    pub created_at: Option<Timestamp>,
}

/// State of a claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    Bound,
    Missing,
    /// The claim waits for a volume.
    Unbound {
        class: Option<String>,
        /// True if the storage class exists, or `None` if the user cannot read it.
        class_exists: Option<bool>,
        /// True if the claim is bound only when its first pod is scheduled (`volumeBindingMode:
        /// WaitForFirstConsumer`).
        with_first_pod: bool,
    },
    Unreadable,
}
