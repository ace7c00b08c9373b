//! Adds the readings of devices to an inventory.

use std::collections::BTreeMap;

use super::count::Count;
use super::held_use::held_figures;
use super::inventory::Inventory;
use super::node_usage::NodeUsage;
use crate::model::facts::exported_instances::ExportedInstances;
use crate::model::facts::gpu::GpuType;
use crate::model::facts::host::NodeHealth;
use crate::model::facts::reading::{Figures, PodKey, Reading, Readings};
use crate::model::values::units::GpuCount;

impl Inventory {
    /// Assigns readings to their nodes. A broken device makes its node faulty.
    pub fn measure(&mut self, readings: &Readings) {
        let mut by_node: BTreeMap<&str, Vec<Reading>> = BTreeMap::new();
        for reading in &readings.devices {
            by_node
                .entry(&reading.node)
                .or_default()
                .push(reading.clone());
        }
        for host in &mut self.hosts {
            let host_readings = by_node.remove(host.name()).unwrap_or_default();
            let fault = host_readings
                .iter()
                .find_map(|reading| Some(format!("{}: {}", reading.id(), reading.fault.as_ref()?)));
            if let Some(fault) = fault.filter(|_| host.health != NodeHealth::Faulty) {
                (host.health, host.reason) = (NodeHealth::Faulty, Some(fault));
            }
            host.count_exported(&host_readings);
            host.devices = Some(host_readings);
        }
    }
}

impl NodeUsage {
    /// Counts the units of whole devices as slices or shares if only the exporter shows that they
    /// are.
    fn count_exported(&mut self, readings: &[Reading]) {
        if self.gpus.total == 0 || !self.slices.is_empty() {
            return;
        }
        let shares_whole = |(namespace, pod): &PodKey| {
            let mut holders = self.holders.iter();
            holders.any(|holder| {
                holder.shares_whole && *holder.namespace == **namespace && *holder.pod == **pod
            })
        };
        let mut instances = ExportedInstances::default();
        for reading in readings {
            let device = reading.index.to_string();
            instances.add(&device, reading.slice.as_ref());
            // Pods of a reservation or of a claim share a whole device, so they prove nothing.
            let is_whole = self.details.may_be_claimed || reading.holders.iter().any(shares_whole);
            if !is_whole {
                instances.add_holders(&device, &reading.holders);
            }
        }
        let model = readings
            .iter()
            .find_map(|reading| GpuType::parse(reading.model.as_deref()?));
        let Some(part) = instances.part(self.gpus.total, model.as_ref()) else {
            return;
        };
        let name = part.name;
        for holder in &mut self.holders {
            if holder.gpus > GpuCount::ZERO {
                *holder.slices.entry(name.clone()).or_default() += holder.gpus.0;
                holder.gpus = GpuCount::ZERO;
            }
        }
        let empty = Count::usable_units(0, self.gpus.used.map(|_| 0));
        let units = std::mem::replace(&mut self.gpus, empty);
        self.slices.insert(name, units);
        self.types.clear();
    }

    /// Computes means over the node's held devices.
    pub fn figures(&self) -> Figures {
        held_figures(std::iter::once(self))
    }

    /// Returns the readings of the devices that are known to be held.
    pub fn held_devices(&self) -> impl Iterator<Item = &Reading> + Clone {
        self.devices
            .iter()
            .flatten()
            .filter(|reading| reading.held == Some(true))
    }
}
