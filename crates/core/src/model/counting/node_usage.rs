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

/// A board or a partition that a DRA driver (dynamic resource allocation) offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub node: String,
    pub driver: String,
    /// Key of a taint that prevents allocation of the device.
    pub taint: Option<String>,
    /// Name of the partition, such as `mig-1g.10gb`, or `None` for a whole device.
    pub profile: Option<String>,
    /// True for a partition of a board that is listed too.
    pub is_of_listed_board: bool,
    pub product: Option<String>,
    /// Pods for which the device's claim is reserved, as (namespace, name). `None` if no claim
    /// holds the device.
    pub held_by: Option<Vec<(String, String)>>,
    /// True if no claim can get the whole device, because some of its partitions are in use.
    pub is_blocked: bool,
    /// True if the device is offered only to virtual machines.
    pub is_passthrough: bool,
    /// False if the user cannot read claims, so that the device's holder is unknown.
    pub claims_readable: bool,
}

impl Device {
    /// Returns true if no further claim can get the device.
    pub(super) fn is_taken(&self) -> bool {
        self.held_by.is_some() || self.is_blocked
    }
}

/// A pod that holds devices of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub namespace: Rc<str>,
    pub pod: Rc<str>,
    pub job: Option<Rc<str>>,
    /// Number of whole devices that the pod holds.
    pub gpus: GpuCount,
    pub slices: BTreeMap<String, u64>,
    /// Whether the pod shares whole devices, which a pod of a scheduler reserves for its group.
    pub shares_whole: bool,
}

impl Holder {
    pub(super) fn without_devices(consumer: &Consumer) -> Self {
        Self {
            namespace: Rc::clone(&consumer.namespace),
            pod: Rc::clone(&consumer.name),
            job: consumer.job.clone(),
            gpus: GpuCount::ZERO,
            slices: BTreeMap::new(),
            shares_whole: false,
        }
    }
}

/// A node, its devices and their holders.
#[derive(Clone, Debug)]
pub struct NodeUsage {
    pub details: NodeDetails,
    pub health: NodeHealth,
    /// Reason why the health is not `Active`.
    pub reason: Option<String>,
    /// Whole devices; the total is 0 on a node with only slices.
    pub gpus: Count,
    /// Slices and shares by the short name of their resource, such as `mig-1g.10gb` or
    /// `gpu.shared`.
    pub slices: BTreeMap<String, Count>,
    /// Slices by name that are partitions of whole devices in `gpus`, so that they add no hardware.
    pub listed_board_slices: BTreeMap<String, u64>,
    /// Number of whole devices by type.
    pub types: BTreeMap<String, u64>,
    pub cpu_used_milli: Option<u64>,
    pub memory_used_bytes: Option<u64>,
    pub holders: Vec<Holder>,
    /// Readings of the node's devices, or `None` without a metrics source.
    pub devices: Option<Vec<Reading>>,
}

impl NodeUsage {
    pub fn name(&self) -> &str {
        &self.details.node.name
    }

    /// Returns the GPU types of the node's devices and slices, if labels show them.
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
            .filter(|_| self.types.is_empty())
        {
            Some(kind) => vec![kind],
            None => whole,
        }
    }

    /// Returns the GPU type of the node, or `None` if it has no devices, several types, or no type
    /// label.
    pub fn gpu_type(&self) -> Option<GpuType> {
        self.kinds()
            .pop()
            .filter(|_| self.kinds().len() == 1 && self.types.len() < 2)
    }

    /// Returns the node's capacity of a resource in thousandths.
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

/// GPU type of devices without a type label.
pub const UNTYPED: &str = "unknown";
