//! A PersistentVolumeClaim and the pods that use it. Kubernetes keeps no record of past use: it is
//! lost when ended pods are deleted.

use jiff::Timestamp;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub namespace: String,
    pub name: String,
    /// The gpuctl job that it was created for.
    pub job: Option<String>,
    /// True when that job exists; `None` when the user cannot list jobs.
    pub job_exists: Option<bool>,
    /// The capacity of its volume, or else the requested size: `100Gi`.
    pub size: Option<String>,
    /// `Bound`, `Pending`, `Lost`, or `Terminating`.
    pub status: String,
    pub storage_class: Option<String>,
    pub access_modes: Vec<String>,
    /// Pods that mount it and have not terminated; `None` when the user cannot list pods.
    pub pods: Option<Vec<String>>,
    /// The end of the last ended pod that mounted it and still exists. Deleted pods are unknown.
    pub last_used: Option<Timestamp>,
    pub created_at: Option<Timestamp>,
}

/// Whether a claim that a pod mounts is usable, or what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    Bound,
    Missing,
    /// It waits for a volume.
    Unbound {
        class: Option<String>,
        /// `Some(false)`: the class does not exist; `None`: the user cannot read it.
        class_exists: Option<bool>,
        /// It is bound when its first pod is scheduled (`volumeBindingMode: WaitForFirstConsumer`).
        with_first_pod: bool,
    },
    Unreadable,
}
