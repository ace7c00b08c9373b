//! Adds the readings of devices to an inventory.

use std::collections::BTreeMap;

use super::held_use::held_figures;
use super::inventory::Inventory;
use super::node_usage::NodeUsage;
use crate::model::facts::host::NodeHealth;
use crate::model::facts::reading::{Figures, Reading, Readings};

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
            host.devices = Some(host_readings);
        }
    }
}

impl NodeUsage {
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
