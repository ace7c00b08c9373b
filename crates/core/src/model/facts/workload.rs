//! Workloads: the top-level owners of pods that request GPUs, and the objects below them.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;

use super::work_pod::{PodSums, WorkPod};
use crate::model::values::units::GpuCount;

/// An object that owns others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerObject {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The UID of the object that owns it.
    pub parent: Option<String>,
    pub created_at: Option<Timestamp>,
    /// When the object started and ended, according to its status.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The number of devices that the template requests, for all its pods together.
    pub gpus: GpuCount,
    /// The final state, if the object's own status contains one.
    pub verdict: Option<WorkloadState>,
    /// Why the object has no pods: `Suspended`, `ScaledToZero`, [`QUEUED`].
    pub resting: Option<&'static str>,
}

/// The object has no pods, because its queue has not admitted it.
pub const QUEUED: &str = "Queued";

/// The state of a workload, in the terms of the workloads document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum WorkloadState {
    Running,
    Completed,
    Failed,
    Pending,
    Unknown,
}

impl WorkloadState {
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// The color of this state in the workloads document.
    pub fn color(self) -> &'static str {
        match self {
            Self::Running | Self::Completed => "green",
            Self::Failed => "red",
            Self::Pending => "yellow",
            Self::Unknown => "gray",
        }
    }
}

/// A workload and its pods.
#[derive(Clone, Debug)]
pub struct Workload {
    pub top: OwnerObject,
    /// Its pods, sorted by name. If pods without devices were not requested by name, only the pods
    /// with devices.
    pub pods: Vec<Rc<WorkPod>>,
    /// Sums over all its pods.
    pub sums: PodSums,
    pub state: WorkloadState,
    /// The devices that are requested by its pods that have not terminated. If it has no such pods,
    /// the devices that its template requests.
    pub requested: GpuCount,
    /// The whole devices that it holds, keyed by the product label of their nodes.
    pub held: BTreeMap<String, GpuCount>,
    /// The slices that it holds, keyed by name.
    pub slices: BTreeMap<String, u64>,
}

impl Workload {
    /// Returns the Kubernetes reason why one of its pods does not work.
    pub fn trouble(&self) -> Option<&str> {
        self.sums.trouble.as_deref()
    }

    /// Returns the number of whole devices that it holds.
    pub fn gpus_held(&self) -> GpuCount {
        self.held.values().copied().sum()
    }

    /// Returns when the first container of its pods started. The object's own start is used only if
    /// the workload has ended and has no pods left. It is also set on objects that still wait.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.sums
            .started_at
            .or(self.top.started_at.filter(|_| self.has_ended()))
    }

    /// Returns when its object was created. Pausing and resuming does not change it, so that every
    /// list shows the same age.
    pub fn created_at(&self) -> Option<Timestamp> {
        let pods = || self.pods.iter().filter_map(|pod| pod.created_at).min();
        self.top.created_at.or_else(pods)
    }

    /// Returns when the workload ended. `None` if it still runs, or if no end was recorded.
    pub fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.state, WorkloadState::Completed | WorkloadState::Failed)
            .then(|| self.top.ended_at.or(self.sums.ended_at))
            .flatten()
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, WorkloadState::Completed | WorkloadState::Failed)
    }
}
