//! A node with its devices, and the pods that hold them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::consumer::Consumer;
use super::count::Count;
use crate::model::facts::gpu::GpuType;
use crate::model::facts::host::{NodeDetails, NodeHealth};
use crate::model::facts::reading::Reading;
use crate::model::values::quantity;
use crate::model::values::units::GpuCount;

/// A device that a driver offers by dynamic resource allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub node: String,
    /// The driver that offers it.
    pub driver: String,
    /// The key of a taint that keeps claims off it.
    pub taint: Option<String>,
    /// `None` for a whole device, else the MIG profile.
    pub profile: Option<String>,
    pub product: Option<String>,
    /// Pods that a claim with this device is reserved for, as (namespace, name); `None` while
    /// nobody has it.
    pub held_by: Option<Vec<(String, String)>>,
    /// False when claims may not be read, so that nobody knows who has it.
    pub known: bool,
}

/// A pod that holds devices of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub namespace: Rc<str>,
    pub pod: Rc<str>,
    pub job: Option<Rc<str>>,
    /// Whole devices.
    pub gpus: GpuCount,
    pub slices: BTreeMap<String, u64>,
}

impl Holder {
    pub(super) fn without_devices(consumer: &Consumer) -> Self {
        Self {
            namespace: Rc::clone(&consumer.namespace),
            pod: Rc::clone(&consumer.name),
            job: consumer.job.clone(),
            gpus: GpuCount::ZERO,
            slices: BTreeMap::new(),
        }
    }
}

/// A node and what is taken of it.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    pub details: NodeDetails,
    pub health: NodeHealth,
    /// Why it is not active.
    pub reason: Option<String>,
    /// Whole devices; zero in all where the node has none.
    pub gpus: Count,
    /// Slices and shares by their resource's own name: `mig-1g.10gb`, `gpu.shared`.
    pub slices: BTreeMap<String, Count>,
    /// Whole devices by type.
    pub types: BTreeMap<String, u64>,
    pub cpu_used_milli: Option<u64>,
    pub memory_used_bytes: Option<u64>,
    pub holders: Vec<Holder>,
    /// What its devices measure; `None` without a metrics source.
    pub devices: Option<Vec<Reading>>,
}

impl NodeUsage {
    pub fn name(&self) -> &str {
        &self.details.node.name
    }

    /// Types of the node's devices, of slices too, as far as a label tells.
    pub fn kinds(&self) -> Vec<GpuType> {
        let whole: Vec<GpuType> = self
            .types
            .keys()
            .filter(|kind| *kind != UNTYPED)
            .filter_map(|kind| GpuType::parse(kind))
            .collect();
        match self
            .details
            .node
            .gpu_type()
            .filter(|_| self.types.is_empty() && !self.slices.is_empty())
        {
            Some(kind) => vec![kind],
            None => whole,
        }
    }

    /// Returns the one type of the node's devices; `None` without devices, with several types, or
    /// where no label tells.
    pub fn gpu_type(&self) -> Option<GpuType> {
        self.kinds()
            .pop()
            .filter(|_| self.kinds().len() == 1 && self.types.len() < 2)
    }

    /// Sums a resource over all nodes, in thousandths of its unit.
    pub fn capacity_milli(&self, resource: &str) -> Option<i128> {
        self.details
            .capacity
            .get(resource)
            .and_then(|text| quantity::milli(text))
    }

    pub fn has_gpus(&self) -> bool {
        self.gpus.total > 0 || !self.slices.is_empty()
    }
}

/// What stands for the type of devices that no label names.
pub const UNTYPED: &str = "unknown";
