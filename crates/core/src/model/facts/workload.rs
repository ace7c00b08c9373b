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
    /// The UID of its owner.
    pub parent: Option<String>,
    pub created_at: Option<Timestamp>,
    /// When the object started and ended, according to its status.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The number of devices that its template requests for all pods.
    pub gpus: GpuCount,
    /// Its final state, according to its own status.
    pub verdict: Option<WorkloadState>,
    /// Why it has no pods: `Suspended`, `ScaledToZero`, [`QUEUED`].
    pub resting: Option<&'static str>,
}

/// It has no pods because its queue has not admitted it.
pub const QUEUED: &str = "Queued";

/// The state of a workload, in the words of the workloads document.
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

    /// The color that the workloads document assigns to it.
    pub fn color(self) -> &'static str {
        match self {
            Self::Running | Self::Completed => "green",
            Self::Failed => "red",
            Self::Pending => "yellow",
            Self::Unknown => "gray",
        }
    }
}

/// A workload with its pods.
#[derive(Clone, Debug)]
pub struct Workload {
    pub top: OwnerObject,
    /// Its pods, sorted by name. If the names of pods without devices were not requested, only pods
    /// with devices.
    pub pods: Vec<Rc<WorkPod>>,
    /// Sums over all its pods.
    pub sums: PodSums,
    pub state: WorkloadState,
    /// Devices requested by its pods that have not terminated, or by its template if it has none.
    pub requested: GpuCount,
    /// Whole devices that it holds, by the product label of their nodes.
    pub held: BTreeMap<String, GpuCount>,
    /// Slices that it holds, by name.
    pub slices: BTreeMap<String, u64>,
}

impl Workload {
    /// The Kubernetes reason why one of its pods does not work.
    pub fn trouble(&self) -> Option<&str> {
        self.sums.trouble.as_deref()
    }

    /// The number of whole devices that it holds.
    pub fn gpus_held(&self) -> GpuCount {
        self.held.values().copied().sum()
    }

    /// When the first container of its pods started. The object's own start counts only after the
    /// workload has ended without remaining pods, because it is also set on objects that still
    /// wait.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.sums
            .started_at
            .or(self.top.started_at.filter(|_| self.has_ended()))
    }

    /// When it ended; `None` while it runs, or if no end was recorded.
    pub fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.state, WorkloadState::Completed | WorkloadState::Failed)
            .then(|| self.top.ended_at.or(self.sums.ended_at))
            .flatten()
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, WorkloadState::Completed | WorkloadState::Failed)
    }
}
