//! Workloads: top-level owners of pods that request GPUs, with the objects below them.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;

use super::work_pod::{PodSums, WorkPod};
use crate::model::values::units::GpuCount;

/// An object that owns others, directly or through further objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerObject {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// UID of the object's own owner.
    pub parent: Option<String>,
    pub created_at: Option<Timestamp>,
    /// Start and end of the object according to its status.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Number of devices that all pods of the template request.
    pub gpus: GpuCount,
    /// Final state, if the object's status contains one.
    pub verdict: Option<WorkloadState>,
    /// Reason why the object has no pods: `Suspended`, `ScaledToZero` or [`QUEUED`].
    pub resting: Option<&'static str>,
}

/// Reason of an object without pods whose queue has not admitted it.
pub const QUEUED: &str = "Queued";

/// State of a workload, as in the workloads document.
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

    /// Returns the color of the state in the workloads document.
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
    /// Pods, sorted by name. Pods without devices are included only if the caller requested them.
    pub pods: Vec<Rc<WorkPod>>,
    /// Sums over all pods, including those that are not in `pods`.
    pub sums: PodSums,
    pub state: WorkloadState,
    /// Number of requested devices: those of pods that have not terminated, or more if the workload
    /// holds more or its templates request more.
    pub requested: GpuCount,
    /// Whole devices that the workload holds, by the product label of their nodes.
    pub held: BTreeMap<String, GpuCount>,
    /// Slices that the workload holds, by name.
    pub slices: BTreeMap<String, u64>,
}

impl Workload {
    /// Returns the Kubernetes reason why a pod does not work.
    pub fn trouble(&self) -> Option<&str> {
        self.sums.trouble.as_deref()
    }

    /// Returns the number of whole devices that the workload holds.
    pub fn gpus_held(&self) -> GpuCount {
        self.held.values().copied().sum()
    }

    /// Returns the start of the first container. For an ended workload without pods, returns the
    /// object's own start, which is not used otherwise because waiting objects have one too.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.sums
            .started_at
            .or(self.top.started_at.filter(|_| self.has_ended()))
    }

    /// Returns when the object was created. Pausing and resuming do not change this time, so all
    /// lists show the same age.
    pub fn created_at(&self) -> Option<Timestamp> {
        let pods = || self.pods.iter().filter_map(|pod| pod.created_at).min();
        self.top.created_at.or_else(pods)
    }

    /// Returns when the workload ended, or `None` if it still runs or no end was recorded.
    pub fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.state, WorkloadState::Completed | WorkloadState::Failed)
            .then(|| self.top.ended_at.or(self.sums.ended_at))
            .flatten()
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, WorkloadState::Completed | WorkloadState::Failed)
    }
}
