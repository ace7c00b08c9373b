//! The devices that drivers of dynamic resource allocation (DRA) offer, and the counters that
//! devices of one board share (Kubernetes, KEP-4815).

use std::collections::BTreeMap;

use crate::model::Taint;

/// Identifies a device in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey {
    pub driver: String,
    pub pool: String,
    pub name: String,
}

/// A value of a device's attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttributeValue {
    Text(String),
    Int(i64),
    Bool(bool),
    /// A semantic version (semver 2.0.0).
    Version(String),
    /// A kind of value that gpuctl does not know, such as a list.
    Other,
}

/// What one device takes from a counter set of its pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterUse {
    pub set: String,
    /// Amounts in thousandths by counter name.
    pub amounts: BTreeMap<String, i128>,
}

/// A device that a driver publishes for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferedDevice {
    pub key: DeviceKey,
    /// Empty if several nodes can reach the device.
    pub node: String,
    /// Attributes by name, including the domain: `gpu.nvidia.com/type`.
    pub attributes: BTreeMap<String, AttributeValue>,
    /// Capacities as Kubernetes quantities, by name with the domain.
    pub capacity: BTreeMap<String, String>,
    pub counters: Vec<CounterUse>,
    pub taints: Vec<Taint>,
    /// True if a claim holds the device.
    pub is_held: bool,
    /// False for a device that several nodes can reach or several claims can share, because
    /// the number of further claims that it can serve is unknown.
    pub is_countable: bool,
    /// False while the driver has not published the device's whole pool, or if the pool is invalid.
    /// The scheduler does not allocate such devices.
    pub is_pool_usable: bool,
}

/// Amounts in thousandths by counter set and counter.
pub type CounterSets = BTreeMap<String, BTreeMap<String, i128>>;

/// All devices of the cluster, in the scheduler's order, and the counters of their pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSupply {
    pub devices: Vec<OfferedDevice>,
    /// Counters by (driver, pool), as if no device were allocated.
    pub counters: BTreeMap<(String, String), CounterSets>,
}

impl OfferedDevice {
    /// Returns a string attribute in the driver's own domain.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.text_of(&self.key.driver, name)
    }

    fn text_of(&self, domain: &str, name: &str) -> Option<&str> {
        match self.attributes.get(&format!("{domain}/{name}"))? {
            AttributeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the PCI address of the board. Drivers before the standard attribute used their own.
    pub(super) fn pci_address(&self) -> Option<&str> {
        self.text_of("resource.kubernetes.io", "pciBusID")
            .or_else(|| self.text("pciBusID"))
            .or_else(|| self.text("pcieBusID"))
    }

    /// Returns the first taint that prevents allocation to claims without tolerations.
    pub fn repelling_taint(&self) -> Option<&Taint> {
        self.taints.iter().find(|taint| is_repelling(taint))
    }
}

/// Returns true if a taint prevents allocation. Other effects, such as `None`, only inform.
pub(super) fn is_repelling(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}
