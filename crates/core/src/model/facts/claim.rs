//! A volume claim with who uses it. Kubernetes keeps no record of uses: what ended pods tell is
//! gone with the pods.

use jiff::Timestamp;

/// A claim of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub namespace: String,
    pub name: String,
    /// The job of ours that it was made for.
    pub job: Option<String>,
    /// True when that job is there; `None` when jobs may not be listed.
    pub job_exists: Option<bool>,
    /// The capacity of its volume, else the size that it requests: `100Gi`.
    pub size: Option<String>,
    /// `Bound`, `Pending`, `Lost`, or `Terminating`.
    pub status: String,
    pub storage_class: Option<String>,
    pub access_modes: Vec<String>,
    /// Pods that mount it and have not ended; `None` when pods may not be listed.
    pub pods: Option<Vec<String>>,
    /// When the last pod that mounted it and is still listed ended. Nobody knows of pods that were
    /// deleted.
    pub last_used: Option<Timestamp>,
    pub created_at: Option<Timestamp>,
}

/// What a claim that a pod mounts waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimState {
    Bound,
    Missing,
    /// Waits for a volume.
    Unbound {
        class: Option<String>,
        /// `Some(false)`: there is no such class; `None`: may not be read.
        class_exists: Option<bool>,
        /// It is bound when its first pod is placed.
        with_first_pod: bool,
    },
    Unreadable,
}
