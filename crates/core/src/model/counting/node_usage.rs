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

/// A device offered through dynamic resource allocation (DRA).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub node: String,
    pub driver: String,
    /// The key of a taint that prevents its allocation.
    pub taint: Option<String>,
    /// `None` for a whole device, else the MIG profile.
    pub profile: Option<String>,
    pub product: Option<String>,
    /// Pods that the claim of this device is reserved for, as (namespace, name); `None` while it is
    /// not allocated.
    pub held_by: Option<Vec<(String, String)>>,
    /// False when the user cannot read claims, so that the holder is unknown.
    pub claims_readable: bool,
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

/// A node and the usage of its resources.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    pub details: NodeDetails,
    pub health: NodeHealth,
    /// Why its health is not `Active`.
    pub reason: Option<String>,
    /// Whole devices; the total is 0 on a node without any.
    pub gpus: Count,
    /// Slices and shares by the short name of their resource: `mig-1g.10gb`, `gpu.shared`.
    pub slices: BTreeMap<String, Count>,
    /// Whole devices by type.
    pub types: BTreeMap<String, u64>,
    pub cpu_used_milli: Option<u64>,
    pub memory_used_bytes: Option<u64>,
    pub holders: Vec<Holder>,
    /// Readings of its devices; `None` without a metrics source.
    pub devices: Option<Vec<Reading>>,
}

impl NodeUsage {
    pub fn name(&self) -> &str {
        &self.details.node.name
    }

    /// GPU types of the node's devices, including slices, as far as labels show them.
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

    /// The only GPU type of the node; `None` without devices, with several types, or without a type
    /// label.
    pub fn gpu_type(&self) -> Option<GpuType> {
        self.kinds()
            .pop()
            .filter(|_| self.kinds().len() == 1 && self.types.len() < 2)
    }

    /// The node's capacity of a resource, in thousandths of its unit.
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

/// The type name of devices without a type label.
pub const UNTYPED: &str = "unknown";
