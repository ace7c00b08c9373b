//! Workloads: the top-level owners of pods that request GPUs, with what is below them.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;

use super::work_pod::{PodSums, WorkPod};
use crate::model::values::units::GpuCount;

/// An object that owns others, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerObject {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The UID of its own owner.
    pub parent: Option<String>,
    pub created_at: Option<Timestamp>,
    /// When the object says that it began and ended.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Devices that its template asks for, in all.
    pub gpus: GpuCount,
    /// What the object itself says of its end.
    pub verdict: Option<Standing>,
    /// Why it has no pods: `Suspended`, `ScaledToZero`, [`QUEUED`].
    pub resting: Option<&'static str>,
}

/// It has no pods because its queue has not let it run.
pub const QUEUED: &str = "Queued";

/// The workloads document's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Standing {
    Running,
    Completed,
    Failed,
    Pending,
    Unknown,
}

impl Standing {
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Returns the document's color for it.
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
    /// Pods below it, by name: all, or those that ask for devices where the names of the others
    /// were not wanted.
    pub pods: Vec<Rc<WorkPod>>,
    /// What all its pods tell together.
    pub sums: PodSums,
    pub standing: Standing,
    /// Devices that its living pods ask for, or its template where it has none.
    pub requested: GpuCount,
    /// Whole devices that it holds, by the product label of their nodes.
    pub held: BTreeMap<String, GpuCount>,
    /// Slices that it holds.
    pub slices: BTreeMap<String, u64>,
}

impl Workload {
    /// Returns why one of its pods does not work, in Kubernetes' word.
    pub fn trouble(&self) -> Option<&str> {
        self.sums.trouble.as_deref()
    }

    /// Counts the whole devices that it holds.
    pub fn gpus_held(&self) -> GpuCount {
        self.held.values().copied().sum()
    }

    /// Returns when the first container of its pods began; the object's own time where it has ended
    /// and no pod is left, for an object that waits says that it started, too.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.sums
            .started_at
            .or(self.top.started_at.filter(|_| self.has_ended()))
    }

    /// Returns when it ended; `None` while it goes on, or where nothing recorded it.
    pub fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.standing, Standing::Completed | Standing::Failed)
            .then(|| self.top.ended_at.or(self.sums.ended_at))
            .flatten()
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.standing, Standing::Completed | Standing::Failed)
    }
}
