//! Instances and pods in the series of exporters, as evidence that the units of a resource for
//! whole devices are instances or shares. Labels of the node are checked first, in `unit.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::fractions::counted_fraction;
use super::gpu::GpuType;
use super::part::Part;
use super::reading::PodKey;

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
    /// First and last sample of each pod on a device, in Unix milliseconds.
    pods: BTreeMap<String, BTreeMap<PodKey, (i64, i64)>>,
}

/// Time in milliseconds for which two pods must be on a device. Replicas of an exporter can report
/// the end of one pod after the start of the next.
const SHARED_TIME: i64 = 60_000;

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

    /// Adds a pod that a device's series name from `first` to `last`, in Unix milliseconds.
    pub fn add_pod(&mut self, device: &str, pod: PodKey, first: i64, last: i64) {
        let pods = self.pods.entry(device.to_owned()).or_default();
        let (start, end) = pods.entry(pod).or_insert((first, last));
        (*start, *end) = ((*start).min(first), (*end).max(last));
    }

    /// Adds the pods that hold a device now.
    pub fn add_holders(&mut self, device: &str, holders: &[PodKey]) {
        for holder in holders {
            self.add_pod(device, holder.clone(), 0, SHARED_TIME);
        }
    }

    /// Returns what `units` of a resource for whole devices are, or `None` if the series do not
    /// prove that they are parts of devices. `product` is the type of the devices.
    pub fn part(&self, units: u64, product: Option<&GpuType>) -> Option<Part> {
        match self.instances.is_empty() {
            true => self.share(units),
            false => self
                .instance_name(units, product)
                .map(|name| self.sized(Part::from_name(&name, product), units)),
        }
    }

    /// Adds the fraction of an AMD partition from the number of devices and of their `units`, if
    /// the product does not show it. Without it, each partition would count as a device.
    pub fn sized(&self, part: Part, units: u64) -> Part {
        let is_exported = part.name.contains("_nps") && self.kinds.iter().eq([&part.name]);
        let counted = || counted_fraction(self.first_partitions(), units);
        let fraction = part.fraction.or_else(|| counted().filter(|_| is_exported));
        Part { fraction, ..part }
    }

    /// Returns the number of devices with AMD partitions: one partition of each has the number 0.
    fn first_partitions(&self) -> u64 {
        let firsts = self.instances.iter().filter(|(_, number)| *number == 0);
        firsts.count() as u64
    }

    /// Returns the share if there are more units than devices and several pods use a device at the
    /// same time. Fewer devices than units alone prove nothing: series of some devices can be
    /// missing.
    fn share(&self, units: u64) -> Option<Part> {
        let devices = self.whole.len() as u64;
        let is_shared = self.pods.values().any(|pods| {
            let spans: Vec<(i64, i64)> = pods.values().copied().collect();
            let overlaps = |(place, one): (usize, &(i64, i64))| {
                let later = spans[place + 1..].iter();
                later
                    .map(|other| one.1.min(other.1) - one.0.max(other.0))
                    .any(|overlap| overlap >= SHARED_TIME)
            };
            spans.iter().enumerate().any(overlaps)
        });
        (devices > 0 && units > devices && is_shared)
            .then(|| Part::share(devices as f64 / units as f64))
    }

    /// Returns the name of the instances that the units are. If there are as many units as devices,
    /// the device plugin ignores the instances.
    fn instance_name(&self, units: u64, product: Option<&GpuType>) -> Option<String> {
        let kind = self.kinds.first().filter(|_| self.kinds.len() == 1)?;
        let is_partition = kind.contains("_nps");
        // AMD's exporter numbers each partition like a device.
        let devices = match is_partition {
            true => self.first_partitions(),
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
        let fraction = self.sized(Part::from_name(&name, product), units).fraction;
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
            exported(&mig).instance_name(7, None).as_deref(),
            Some("mig-1g.5gb")
        );
        assert_eq!(
            exported(&mig).instance_name(1, None),
            None,
            "the device plugin offers the device"
        );
        assert_eq!(
            exported(&mig).instance_name(8, None),
            None,
            "not all of them"
        );
        let with_whole = [&mig[..], &[("1", None)]].concat();
        assert_eq!(exported(&with_whole).instance_name(7, None), None);
        // ROCm/device-metrics-exporter#495: only the first of two partitions is exported.
        let first: Vec<(String, u32)> = (0..8).map(|gpu| (gpu.to_string(), 0)).collect();
        let first: Vec<_> = first
            .iter()
            .map(|(gpu, number)| (gpu.as_str(), Some(("dpx_nps1", *number))))
            .collect();
        assert_eq!(
            exported(&first).instance_name(16, None).as_deref(),
            Some("dpx_nps1")
        );
        assert_eq!(exported(&first).instance_name(8, None), None);
        let all: Vec<(String, u32)> = (0..16).map(|gpu: u32| (gpu.to_string(), gpu % 2)).collect();
        let all: Vec<_> = all
            .iter()
            .map(|(gpu, number)| (gpu.as_str(), Some(("dpx_nps1", *number))))
            .collect();
        assert_eq!(
            exported(&all).instance_name(16, None).as_deref(),
            Some("dpx_nps1"),
            "each partition has its own number"
        );
    }
    #[test]
    fn more_units_than_devices_are_shares_if_pods_share_a_device() {
        let minutes = |count: i64| count * 60_000;
        let node = |devices: u64, pods: &[(&str, i64, i64)]| {
            let mut exported = ExportedInstances::default();
            for device in 0..devices {
                exported.add(&device.to_string(), None);
            }
            for (pod, first, last) in pods {
                let pod = ("ns".to_owned(), (*pod).to_owned());
                exported.add_pod("0", pod, minutes(*first), minutes(*last));
            }
            exported
        };
        let share = |exported: &ExportedInstances, units| {
            let part = exported.part(units, None)?;
            assert_eq!((part.name.as_str(), part.instance), ("gpu.shared", false));
            part.fraction
        };
        let together = [("a", 0, 50), ("b", 10, 60)];
        // 10 units of one device.
        assert_eq!(share(&node(1, &together), 10), Some(0.1));
        // 10 units of four devices: two of them have four shares, and two are whole.
        assert_eq!(share(&node(4, &together), 10), Some(0.4));
        assert_eq!(share(&node(1, &together), 1), None, "as many as devices");
        // One pod follows the other, and replicas of the exporter overlap by seconds.
        assert_eq!(share(&node(1, &[("a", 0, 30), ("b", 30, 60)]), 4), None);
        // Series of some devices are missing.
        assert_eq!(share(&node(1, &[("a", 0, 60)]), 8), None);
        assert_eq!(share(&node(4, &[]), 8), None);
        assert_eq!(share(&node(0, &together), 8), None);
        let mut now = node(1, &[]);
        let pods = ["a", "b"].map(|pod| ("ns".to_owned(), pod.to_owned()));
        now.add_holders("0", &pods[..1]);
        assert_eq!(share(&now, 4), None);
        now.add_holders("0", &pods);
        assert_eq!(share(&now, 4), Some(0.25));
    }
    #[test]
    fn partitions_of_unknown_products_are_counted() {
        let node = |devices: u32, kind: &str| {
            let mut exported = ExportedInstances::default();
            for device in 0..devices {
                exported.add(&device.to_string(), Some(&(kind.to_owned(), 0)));
            }
            exported
        };
        let part = |exported: &ExportedInstances, units| {
            let part = exported.part(units, None)?;
            Some((part.name, part.fraction))
        };
        let cpx = |fraction| Some(("cpx_nps1".to_owned(), Some(fraction)));
        // 8 devices with 8 dies each. The exporter reports the first partition of each.
        assert_eq!(part(&node(8, "cpx_nps1"), 64), cpx(0.125));
        // 8 devices with 4 dies each.
        assert_eq!(part(&node(8, "cpx_nps1"), 32), cpx(0.25));
        assert_eq!(part(&node(8, "cpx_nps1"), 30), None, "30 of 8 devices");
        assert_eq!(part(&node(1, "cpx_nps1"), 16), None, "more than 8 dies");
        // A node with labels of the mode, but without the product.
        let sized = node(8, "cpx_nps4").sized(Part::from_name("cpx_nps4", None), 64);
        assert_eq!(sized.fraction, Some(0.125));
        let other = node(8, "dpx_nps1").sized(Part::from_name("cpx_nps4", None), 64);
        assert_eq!(other.fraction, None, "series of another mode");
    }
}
