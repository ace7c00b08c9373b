//! Devices that one pod requested and held, and the series from which they are read.

use std::collections::BTreeMap;

use crate::model::GpuCount;
use crate::model::facts::part::Part;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;

use super::top_owner::{OwnerSeries, TopOwner};

/// Slots for which kube-state-metrics has no samples of a pod. Empty lists mean no gaps.
#[derive(Clone, Debug, Default)]
pub struct AllocationGaps {
    /// Held slots in a gap. The same pod, by its UID, was seen before and after.
    pub bridged: Vec<bool>,
    /// Slots in which the pod may have held its devices, which `held` does not contain. The pod was
    /// seen on one side of the gap only, or had ended on the other side.
    pub unseen: Vec<bool>,
}

/// Devices that a pod requested and held on one node.
#[derive(Clone, Debug)]
pub struct Allocation {
    pub pod: PodKey,
    /// Node of the pod, or empty while the pod is not scheduled.
    pub node: String,
    pub top: TopOwner,
    /// Number of whole devices, or 0 if the pod requested slices.
    pub gpus: GpuCount,
    /// Kind and number of slices. All slices of one kind on one node form one allocation.
    pub part: Option<(Part, u64)>,
    /// Slots during which the pod requested devices, because it was pending or running.
    pub requested: Vec<bool>,
    /// Slots during which the pod was bound and pending or running. A pod that pulls its image
    /// already holds its devices.
    pub held: Vec<bool>,
    /// How gaps between samples affect `held`.
    pub gaps: AllocationGaps,
    /// Held slots during which the phase was Running or unknown.
    pub running: Vec<bool>,
    /// Last observed phase with its slot.
    pub phase: Option<(usize, String)>,
    /// Labels of the pod, or `None` if kube-state-metrics exports no labels.
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

impl Allocation {
    /// Returns the number of devices or slices.
    pub fn units(&self) -> u64 {
        self.gpus.0 + self.part.as_ref().map_or(0, |(_, units)| *units)
    }

    /// Returns the number of devices, counting a slice by its fraction. A slice of unknown fraction
    /// counts as one device, and a GiB of memory as zero.
    pub fn devices(&self) -> f64 {
        let parts = self.part.as_ref().map_or(0.0, |(part, units)| {
            *units as f64 * part.fraction.unwrap_or_else(|| part.unknown())
        });
        self.gpus.as_f64() + parts
    }
}

/// Responses to the kube-state-metrics queries for a window.
#[derive(Clone, Debug, Default)]
pub struct AllocationSeries {
    pub requests: Vec<Series>,
    /// All phases that each pod was ever in.
    pub phases_ever: Vec<Series>,
    /// Phases over time of pods that were in more than one phase.
    pub phases: Vec<Series>,
    pub owners: OwnerSeries,
    /// Init containers of pods whose init containers request devices.
    pub init_containers: Vec<Series>,
    pub labels: Vec<Series>,
    pub annotations: Vec<Series>,
    /// Samples of devices that were allocated through claims.
    pub claimed: Vec<Series>,
    /// Groups of pods that share a device which another pod reserves for them.
    pub groups: Vec<Series>,
    /// Fractions of a device that such pods requested.
    pub fractions: Vec<Series>,
}
