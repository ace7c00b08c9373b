//! Instances in the series of exporters, as evidence that the units of a resource for whole devices
//! are instances. Labels of the node are checked first, in `unit.rs`.

use std::collections::BTreeSet;

use super::gpu::GpuType;
use super::part::Part;

/// Devices and instances of one node in the series of exporters.
#[derive(Clone, Debug, Default)]
pub struct ExportedInstances {
    /// Devices without instances.
    whole: BTreeSet<String>,
    /// Partitioned devices.
    partitioned: BTreeSet<String>,
    /// Instances as (device, number).
    instances: BTreeSet<(String, u32)>,
    kinds: BTreeSet<String>,
}

impl ExportedInstances {
    /// Adds a device or an instance as (kind, number). `device` identifies the device on its node.
    pub fn add(&mut self, device: &str, slice: Option<&(String, u32)>) {
        let Some((kind, number)) = slice else {
            self.whole.insert(device.to_owned());
            return;
        };
        self.partitioned.insert(device.to_owned());
        self.instances.insert((device.to_owned(), *number));
        self.kinds.insert(kind.clone());
    }

    /// Returns the name of the slices that `units` of a resource for whole devices are, or `None`
    /// if the series do not prove that they are slices. `product` is the type of the devices.
    ///
    /// If there are as many units as devices, the device plugin ignores the instances.
    pub fn slice_name(&self, units: u64, product: Option<&GpuType>) -> Option<String> {
        let kind = self.kinds.first().filter(|_| self.kinds.len() == 1)?;
        let is_partition = kind.contains("_nps");
        // AMD's exporter numbers each partition like a device.
        let devices = match is_partition {
            true => self
                .instances
                .iter()
                .filter(|(_, number)| *number == 0)
                .count() as u64,
            false => self.partitioned.len() as u64,
        };
        if !self.whole.is_subset(&self.partitioned) || units <= devices {
            return None;
        }
        let name = match is_partition {
            true => kind.clone(),
            false => format!("mig-{kind}"),
        };
        // Exporters report all MIG instances, but not all partitions of AMD's devices.
        let is_all = units == self.instances.len() as u64;
        let fraction = Part::from_name(&name, product).fraction;
        let is_product = fraction.is_some_and(|fraction| {
            (units as f64 * fraction - devices as f64).abs() < 1e-6 * units as f64
        });
        (is_all || is_product).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_exporters_show_instances_that_labels_do_not() {
        let exported = |devices: &[(&str, Option<(&str, u32)>)]| {
            let mut instances = ExportedInstances::default();
            for (device, slice) in devices {
                let slice = slice.map(|(kind, number)| (kind.to_owned(), number));
                instances.add(device, slice.as_ref());
            }
            instances
        };
        let mig: Vec<_> = (7..14).map(|id| ("0", Some(("1g.5gb", id)))).collect();
        assert_eq!(
            exported(&mig).slice_name(7, None).as_deref(),
            Some("mig-1g.5gb")
        );
        assert_eq!(
            exported(&mig).slice_name(1, None),
            None,
            "the device plugin offers the device"
        );
        assert_eq!(exported(&mig).slice_name(8, None), None, "not all of them");
        let with_whole = [&mig[..], &[("1", None)]].concat();
        assert_eq!(exported(&with_whole).slice_name(7, None), None);
        // ROCm/device-metrics-exporter#495: only the first of two partitions is exported.
        let first: Vec<(String, u32)> = (0..8).map(|gpu| (gpu.to_string(), 0)).collect();
        let first: Vec<_> = first
            .iter()
            .map(|(gpu, number)| (gpu.as_str(), Some(("dpx_nps1", *number))))
            .collect();
        assert_eq!(
            exported(&first).slice_name(16, None).as_deref(),
            Some("dpx_nps1")
        );
        assert_eq!(exported(&first).slice_name(8, None), None);
        let all: Vec<(String, u32)> = (0..16).map(|gpu: u32| (gpu.to_string(), gpu % 2)).collect();
        let all: Vec<_> = all
            .iter()
            .map(|(gpu, number)| (gpu.as_str(), Some(("dpx_nps1", *number))))
            .collect();
        assert_eq!(
            exported(&all).slice_name(16, None).as_deref(),
            Some("dpx_nps1"),
            "each partition has its own number"
        );
    }
}
