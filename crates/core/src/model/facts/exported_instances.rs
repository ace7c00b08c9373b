//! Instances and pods in the series of exporters, as evidence that the units of a resource for
//! whole devices are instances or shares. Labels of the node are checked first, in `unit.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::fractions::counted_fraction;
use super::gpu::GpuType;
use super::part::Part;
use super::reading::PodKey;
use crate::model::values::series::Point;

/// Devices and instances of one node in the series of exporters.
#[derive(Clone, Debug, Default)]
pub struct ExportedInstances<'s> {
    /// Devices without instances.
    whole: BTreeSet<String>,
    /// Partitioned devices.
    partitioned: BTreeSet<String>,
    /// Instances as (device, number).
    instances: BTreeSet<(String, u32)>,
    kinds: BTreeSet<String>,
    /// Samples of the series that name a pod, by device.
    pods: BTreeMap<String, Vec<(PodKey, &'s [Point])>>,
}

/// Time in milliseconds for which two pods must be on a device. Replicas of an exporter can report
/// the end of one pod after the start of the next.
const SHARED_TIME: i64 = 60_000;

/// Samples of a pod that holds a device now. Only their times count.
const NOW: &[Point] = &[
    Point { at: 0, value: 0.0 },
    Point {
        at: SHARED_TIME,
        value: 0.0,
    },
];

impl<'s> ExportedInstances<'s> {
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

    /// Adds the samples of a device's series that names a pod, in ascending order.
    pub fn add_pod(&mut self, device: &str, pod: PodKey, samples: &'s [Point]) {
        let pods = self.pods.entry(device.to_owned()).or_default();
        pods.push((pod, samples));
    }

    /// Adds the pods that hold a device now.
    pub fn add_holders(&mut self, device: &str, holders: &[PodKey]) {
        for holder in holders {
            self.add_pod(device, holder.clone(), NOW);
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
        let is_shared = || {
            self.pods.values().any(|pods| {
                let shares = |(place, (pod, samples)): (usize, &(PodKey, &[Point]))| {
                    let mut later = pods[place + 1..].iter();
                    later.any(|(other, others)| other != pod && are_together(samples, others))
                };
                pods.iter().enumerate().any(shares)
            })
        };
        (devices > 0 && units > devices && is_shared())
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

/// Returns true if two series have the same times for [`SHARED_TIME`]. A sample of only one of them
/// ends the common time: one pod can be on a device before and after another, as pods of a
/// StatefulSet that keep their names.
fn are_together(one: &[Point], other: &[Point]) -> bool {
    let (mut ones, mut others) = (one.iter().peekable(), other.iter().peekable());
    let mut since = None;
    while let (Some(a), Some(b)) = (ones.peek(), others.peek()) {
        if a.at == b.at {
            if a.at - *since.get_or_insert(a.at) >= SHARED_TIME {
                return true;
            }
            ones.next();
            others.next();
            continue;
        }
        since = None;
        match a.at < b.at {
            true => ones.next(),
            false => others.next(),
        };
    }
    false
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
    fn each_minute(minutes: std::ops::RangeInclusive<i64>) -> Vec<Point> {
        let point = |minute| Point {
            at: minute * 60_000,
            value: 1.0,
        };
        minutes.map(point).collect()
    }

    #[test]
    fn more_units_than_devices_are_shares_if_pods_share_a_device() {
        fn node(devices: u64, pods: &[(&str, i64, i64)]) -> ExportedInstances<'static> {
            let mut exported = ExportedInstances::default();
            for device in 0..devices {
                exported.add(&device.to_string(), None);
            }
            for (pod, first, last) in pods {
                let pod = ("ns".to_owned(), (*pod).to_owned());
                exported.add_pod("0", pod, each_minute(*first..=*last).leak());
            }
            exported
        }
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
        // A pod with a stable name is on the device before and after another one.
        let between = [("a", 0, 20), ("b", 20, 40), ("a", 40, 60)];
        assert_eq!(share(&node(1, &between), 4), None);
        let gap = [each_minute(0..=20), each_minute(40..=60)].concat();
        let mut returned = node(1, &[("b", 20, 40)]);
        returned.add_pod("0", ("ns".to_owned(), "a".to_owned()), gap.leak());
        assert_eq!(share(&returned, 4), None);
        // Both came back together.
        let again = [("a", 0, 20), ("b", 20, 60), ("a", 50, 60)];
        assert_eq!(share(&node(1, &again), 4), Some(0.25));
        // Two series of one pod.
        assert_eq!(share(&node(1, &[("a", 0, 60), ("a", 0, 60)]), 4), None);
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
