//! Mean utilization of the devices that pods hold. Means never mix whole devices with parts,
//! because counts of GPUs contain only whole devices.

use super::inventory::total;
use super::node_usage::NodeUsage;
use crate::model::facts::reading::{Figures, Reading};
use crate::model::values::units::Percent;

/// Mean utilization over devices of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldMean {
    /// `None` when no device has a sample.
    pub utilization: Option<Percent>,
    /// Number of devices with a sample, which the mean covers.
    pub sampled: u64,
}

/// Mean utilization of the devices that pods hold on several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldUse {
    /// Whole devices that pods hold, measured or not. `None` if pods cannot be listed.
    pub held: Option<u64>,
    pub whole: HeldMean,
    /// MIG instances, partitions, and devices whose shares pods hold.
    pub parts: HeldMean,
}

impl HeldUse {
    pub fn from_hosts<'n>(hosts: impl Iterator<Item = &'n NodeUsage> + Clone) -> Self {
        let mean = |is_whole: bool| {
            let figures = Figures::from_readings(held_readings(hosts.clone(), is_whole));
            HeldMean {
                utilization: figures.utilization,
                sampled: figures.sampled,
            }
        };
        Self {
            held: total(hosts.clone().map(|host| host.gpus)).used,
            whole: mean(true),
            parts: mean(false),
        }
    }

    /// Whether the mean covers parts, because pods hold no whole device.
    pub fn is_of_parts(&self) -> bool {
        self.held.unwrap_or(0) == 0 && self.whole.sampled == 0 && self.parts.sampled > 0
    }

    /// Returns the mean over whole devices, or over parts if pods hold no whole device.
    pub fn utilization(&self) -> Option<Percent> {
        if self.is_of_parts() {
            self.parts.utilization
        } else {
            self.whole.utilization
        }
    }

    /// Returns the number of held whole devices without a sample.
    pub fn unmeasured(&self) -> Option<u64> {
        Some(self.held?.saturating_sub(self.whole.sampled))
    }
}

/// Computes means over the held devices of nodes: over whole devices, or over parts if pods hold no
/// whole device. The total power includes both.
pub fn held_figures<'n>(hosts: impl Iterator<Item = &'n NodeUsage> + Clone) -> Figures {
    let is_whole = !HeldUse::from_hosts(hosts.clone()).is_of_parts();
    let all = Figures::with_boards(hosts.clone().flat_map(NodeUsage::held_devices));
    Figures {
        power_in_all: all.power_in_all,
        ..Figures::from_readings(held_readings(hosts, is_whole))
    }
}

/// Selects the readings of whole devices or of parts that pods hold.
fn held_readings<'n>(
    hosts: impl Iterator<Item = &'n NodeUsage> + Clone,
    is_whole: bool,
) -> impl Iterator<Item = &'n Reading> + Clone {
    hosts.flat_map(move |host| {
        host.held_devices()
            .filter(move |reading| host.holds_whole(reading) == is_whole)
    })
}

impl NodeUsage {
    /// Whether a held device counts among the node's whole GPUs. Exporters report a shared device
    /// as a whole one; only the pods that hold it show that they have shares. A device that a
    /// reservation shares counts, because the reservation holds a whole GPU.
    pub fn holds_whole(&self, reading: &Reading) -> bool {
        let has_only_parts = |(namespace, pod): &(String, String)| {
            let mut holders = self.holders.iter();
            holders.any(|holder| {
                *holder.namespace == **namespace
                    && *holder.pod == **pod
                    && holder.gpus.0 == 0
                    && !holder.shares_whole
            })
        };
        reading.slice.is_none()
            && self.gpus.total > 0
            && (reading.holders.is_empty() || !reading.holders.iter().all(has_only_parts))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Count, GpuCount, Holder, Node, NodeDetails, NodeHealth, Watts};

    fn held(index: u32, utilization: Option<f64>, slice: Option<&str>, pod: &str) -> Reading {
        Reading {
            index,
            slice: slice.map(|profile| (profile.to_owned(), index)),
            holders: vec![("ns".to_owned(), pod.to_owned())],
            held: Some(true),
            utilization: utilization.map(Percent),
            power: Some(Watts(100.0)),
            ..Reading::default()
        }
    }

    /// A node whose pods hold whole devices as (pod, number), and any number of parts.
    fn node(gpus: u64, holders: &[(&str, u64)], devices: Vec<Reading>) -> NodeUsage {
        let holder = |(pod, gpus): &(&str, u64)| Holder {
            namespace: "ns".into(),
            pod: (*pod).into(),
            job: None,
            gpus: GpuCount(*gpus),
            slices: BTreeMap::new(),
            shares_whole: false,
        };
        NodeUsage {
            details: NodeDetails {
                node: Node::default(),
                ..NodeDetails::default()
            },
            health: NodeHealth::Active,
            reason: None,
            gpus: Count::usable_units(gpus, Some(holders.iter().map(|(_, gpus)| gpus).sum())),
            slices: BTreeMap::new(),
            listed_board_slices: BTreeMap::new(),
            types: BTreeMap::new(),
            cpu_used_milli: None,
            memory_used_bytes: None,
            holders: holders.iter().map(holder).collect(),
            devices: Some(devices),
        }
    }

    #[test]
    fn shared_devices_do_not_hide_silent_ones() {
        // `busy` measures both GPUs of its pod, `silent` none of its 8, and `shared` has one board
        // whose shares two pods hold.
        let busy = node(
            8,
            &[("a", 2)],
            vec![
                held(0, Some(40.0), None, "a"),
                held(1, Some(60.0), None, "a"),
            ],
        );
        let silent = node(8, &[("b", 8)], Vec::new());
        let shared = node(0, &[("c", 0)], vec![held(0, Some(90.0), None, "c")]);
        let mixed = node(4, &[("d", 0)], vec![held(0, Some(70.0), None, "d")]);
        let hosts = [busy, silent, shared, mixed];
        let held_use = HeldUse::from_hosts(hosts.iter());
        // (40 + 60) / 2 over 2 of 10 held devices; (90 + 70) / 2 over the shared ones.
        let expected = HeldUse {
            held: Some(10),
            whole: HeldMean {
                utilization: Some(Percent(50.0)),
                sampled: 2,
            },
            parts: HeldMean {
                utilization: Some(Percent(80.0)),
                sampled: 2,
            },
        };
        assert_eq!(held_use, expected);
        assert_eq!(
            (held_use.utilization(), held_use.unmeasured()),
            (Some(Percent(50.0)), Some(8))
        );
        let figures = held_figures(hosts.iter());
        assert_eq!(
            (figures.devices, figures.sampled, figures.utilization),
            (2, 2, Some(Percent(50.0)))
        );
        assert_eq!(figures.power_in_all, Some(Watts(400.0)));
    }

    #[test]
    fn devices_of_reservations_are_whole() {
        // Pods `a` and `b` share one GPU that a reservation holds. `c` holds one GPU. Both GPUs
        // are measured: (30 + 70) / 2 over 2 of 2 held, 0 unknown.
        let mut device = held(0, Some(30.0), None, "a");
        device.holders.push(("ns".to_owned(), "b".to_owned()));
        let devices = vec![device, held(1, Some(70.0), None, "c")];
        let mut host = node(8, &[("a", 0), ("b", 0), ("c", 1)], devices);
        host.gpus = Count::usable_units(8, Some(2));
        for holder in &mut host.holders {
            holder.shares_whole = holder.gpus == GpuCount::ZERO;
        }
        let held_use = HeldUse::from_hosts([&host].into_iter());
        assert_eq!(
            (held_use.utilization(), held_use.unmeasured()),
            (Some(Percent(50.0)), Some(0))
        );
        assert_eq!((held_use.whole.sampled, held_use.parts.sampled), (2, 0));
    }

    #[test]
    fn parts_are_averaged_only_where_no_whole_device_is_held() {
        let parts = || {
            vec![
                held(0, Some(20.0), Some("1g.10gb"), "p"),
                held(1, None, Some("1g.10gb"), "p"),
            ]
        };
        let sliced = node(0, &[("p", 0)], parts());
        let alone = HeldUse::from_hosts([&sliced].into_iter());
        assert!(alone.is_of_parts());
        assert_eq!(
            (alone.utilization(), alone.parts.sampled),
            (Some(Percent(20.0)), 1)
        );
        // The whole devices of the other node have no samples: unknown, and not 20 %.
        let silent = node(8, &[("b", 8)], Vec::new());
        let both = HeldUse::from_hosts([&sliced, &silent].into_iter());
        assert_eq!((both.utilization(), both.unmeasured()), (None, Some(8)));
        assert_eq!(HeldUse::from_hosts([].into_iter()).utilization(), None);
    }
}
