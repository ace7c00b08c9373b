//! Makes devices from the samples of one moment: each device once, invalid samples dropped and
//! counted, with the pods that hold it.

use std::collections::{BTreeMap, BTreeSet};

use super::device_numbers::DeviceNumbers;
use super::dialect::{Quantity, is_fatal_xid, metric_of};
use super::identity::{ApiFacts, IdentityReader, SeriesDevice};
use crate::model::facts::reading::{PodKey, Reading, Readings};
use crate::model::{Celsius, Inventory, Mebibytes, NodeUsage, Percent, Series, Watts};

/// What a metrics server answered about one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Values of gauges.
    pub values: Vec<Series>,
    /// How many seconds ago a utilization was sampled, as values, of series where that is more than
    /// two scrapes.
    pub stale_ages: Vec<Series>,
}

/// Values of one device, by quantity: (rank, whether a pod is named beside it, value).
#[derive(Default)]
struct Slot {
    place: Option<SeriesDevice>,
    model: Option<String>,
    values: BTreeMap<Quantity, Vec<(u8, bool, f64)>>,
    holders: BTreeSet<PodKey>,
}

/// How old the samples of a device's utilization are, also of values that no device can have.
#[derive(Clone, Copy, Default)]
struct SampleAges {
    /// Whether one is no older than two scrapes of its job.
    is_fresh: bool,
    /// Seconds since the newest of the others.
    stale: Option<f64>,
}

/// Slots by (node, uuid or number, slice).
type Slots = BTreeMap<SeriesDevice, Slot>;

/// Returns the devices of the cluster as they are at that moment.
pub fn read(moment: &Moment, inventory: &Inventory, facts: &ApiFacts) -> Readings {
    let reader = IdentityReader::new(facts, &moment.values);
    let numbers = DeviceNumbers::of(
        moment
            .values
            .iter()
            .filter_map(|series| reader.place(series)),
    );
    let mut slots = Slots::new();
    let mut ages: BTreeMap<SeriesDevice, SampleAges> = BTreeMap::new();
    let stale: BTreeMap<Vec<(&str, &str)>, f64> = moment
        .stale_ages
        .iter()
        .filter_map(|series| Some((series.without_name(), series.last()?.value)))
        .collect();
    let (mut samples, mut dropped, mut elsewhere) = (0, 0, 0);
    for series in &moment.values {
        let Some((metric, point)) = metric_of(series.name()).zip(series.last()) else {
            continue;
        };
        let place = reader.place(series);
        if let Some(place) = place
            .clone()
            .filter(|_| metric.quantity == Quantity::Utilization)
        {
            let of_device = ages.entry(numbers.key(place)).or_default();
            match stale.get(&series.without_name()) {
                None => of_device.is_fresh = true,
                Some(age) => {
                    of_device.stale = Some(of_device.stale.map_or(*age, |known| known.min(*age)));
                }
            }
        }
        let Some(value) = metric.read(point.value) else {
            dropped += 1;
            continue;
        };
        let Some(place) = place else {
            elsewhere += 1;
            continue;
        };
        samples += 1;
        let (tells, holder) = (
            place.tells(series, metric.quantity),
            reader.holder(series, &place.node),
        );
        let slot = slot(&mut slots, place, &numbers);
        if !tells {
            continue;
        }
        slot.model = slot
            .model
            .take()
            .or_else(|| IdentityReader::model(series).map(ToOwned::to_owned));
        slot.values.entry(metric.quantity).or_default().push((
            metric.rank,
            holder.is_some(),
            value,
        ));
        slot.holders.extend(holder);
    }
    let cut: BTreeSet<(String, Option<u32>)> = slots
        .keys()
        .filter(|place| place.slice.is_some())
        .map(|place| (place.node.clone(), numbers.number(place)))
        .collect();
    // A device that is cut into instances is shown as those.
    slots.retain(|place, _| {
        place.slice.is_some() || !cut.contains(&(place.node.clone(), numbers.number(place)))
    });
    let mut devices: Vec<Reading> = slots
        .into_iter()
        .map(|(place, slot)| {
            let ages = ages.get(&place).copied().unwrap_or_default();
            reading(place, slot, ages, &numbers)
        })
        .collect();
    devices.sort_by(|a, b| {
        (&a.node, a.index, &a.slice, &a.uuid).cmp(&(&b.node, b.index, &b.slice, &b.uuid))
    });
    let hosts: BTreeMap<&str, &NodeUsage> = inventory
        .hosts
        .iter()
        .map(|host| (host.name(), host))
        .collect();
    for own in devices.chunk_by_mut(|a, b| a.node == b.node) {
        match hosts.get(own[0].node.as_str()) {
            Some(host) => attribute(host, own),
            // Nothing is known of the node but what the exporter names.
            None => own
                .iter_mut()
                .for_each(|reading| reading.held = (!reading.holders.is_empty()).then_some(true)),
        }
    }
    Readings::new(devices, samples, dropped, elsewhere)
}

fn slot<'s>(slots: &'s mut Slots, place: SeriesDevice, numbers: &DeviceNumbers) -> &'s mut Slot {
    let slot = slots.entry(numbers.key(place.clone())).or_default();
    if slot.place.as_ref().is_none_or(|known| known.uuid.is_none()) {
        slot.place = Some(place);
    }
    slot
}

impl Slot {
    /// Returns the value of the best metric. Of copies that several pods get, the device's own
    /// counts; else the highest, for copies of one value differ by the time of their scrape alone.
    fn value(&self, quantity: Quantity) -> Option<f64> {
        let found = self.values.get(&quantity)?;
        let best = found.iter().map(|(rank, ..)| *rank).min()?;
        let of_best = || found.iter().filter(move |(rank, ..)| *rank == best);
        let own = of_best()
            .filter(|(_, named, _)| !named)
            .map(|(.., value)| *value)
            .reduce(f64::max);
        own.or_else(|| of_best().map(|(.., value)| *value).reduce(f64::max))
    }

    fn fault(&self) -> Option<String> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range of the quantity is small"
        )]
        let codes = self
            .values
            .get(&Quantity::Xid)
            .into_iter()
            .flatten()
            .map(|(.., value)| *value as u32);
        if let Some(code) = codes.filter(|code| is_fatal_xid(*code)).max() {
            return Some(format!("XID {code}"));
        }
        if self.value(Quantity::RowRemapFailure) == Some(1.0) {
            return Some("row remapping failed".to_owned());
        }
        (self.value(Quantity::Health) == Some(0.0)).then(|| "unhealthy".to_owned())
    }
}

fn reading(key: SeriesDevice, slot: Slot, ages: SampleAges, numbers: &DeviceNumbers) -> Reading {
    let index = numbers.number(&key).unwrap_or(0);
    let age = ages.stale.filter(|_| !ages.is_fresh);
    let stale = age.is_some();
    let value = |quantity| slot.value(quantity).filter(|_| !stale);
    let used = value(Quantity::MemoryUsed);
    let free = value(Quantity::MemoryFree);
    let total = used
        .zip(free)
        .map(|(used, free)| used + free)
        .or_else(|| value(Quantity::MemoryTotal));
    Reading {
        index,
        uuid: slot.place.as_ref().and_then(|place| place.uuid.clone()),
        slice: key.slice,
        model: slot.model.clone(),
        held: None,
        utilization: value(Quantity::Utilization).map(Percent),
        memory_copy: value(Quantity::MemoryCopy).map(Percent),
        memory_used: used.map(Mebibytes),
        memory_total: total.map(Mebibytes),
        power: value(Quantity::Power).map(Watts),
        power_limit: value(Quantity::PowerLimit).map(Watts),
        temperature: value(Quantity::Temperature).map(Celsius),
        fault: slot.fault(),
        sample_age_seconds: age,
        stale,
        node: key.node,
        holders: slot.holders.into_iter().collect(),
    }
}

/// Which devices of a node are held. Pods that the exporter names are checked against what the API
/// server says they hold; a node that is full needs no names.
fn attribute(host: &NodeUsage, own: &mut [Reading]) {
    let attributed = |namespace: &str, pod: &str| {
        own.iter()
            .filter(|reading| reading.is_held_by(namespace, pod))
            .count() as u64
    };
    let known = host.gpus.used.is_some() && host.slices.values().all(|count| count.used.is_some());
    // Every device that a pod holds is named, so that those without a name are free.
    let complete = known
        && host.holders.iter().all(|holder| {
            let instances: u64 = holder
                .slices
                .iter()
                .filter(|(name, _)| is_instance(name))
                .map(|(_, count)| *count)
                .sum();
            attributed(&holder.namespace, &holder.pod) >= (holder.gpus.0 + instances).max(1)
        });
    let whole = own.iter().filter(|reading| reading.slice.is_none()).count() as u64;
    let full = host.gpus.total > 0
        && host
            .gpus
            .used
            .is_some_and(|used| used >= host.gpus.total.max(whole));
    let nameless = own.iter().all(|reading| reading.holders.is_empty());
    let only = match host.holders.as_slice() {
        [one] if full && nameless && one.gpus.0 >= whole => {
            Some((one.namespace.to_string(), one.pod.to_string()))
        }
        _ => None,
    };
    for reading in own {
        if let Some(holder) = only.clone().filter(|_| reading.slice.is_none()) {
            reading.holders.push(holder);
        }
        reading.held = match reading.holders.is_empty() {
            false => Some(true),
            true if complete => Some(false),
            true if full && reading.slice.is_none() => Some(true),
            true => None,
        };
    }
}

/// Slices that are devices of their own, unlike shares of one.
fn is_instance(name: &str) -> bool {
    name.starts_with("mig-") || name.contains("_nps")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Consumer, Consumers, Node, NodeDetails, Point};

    fn series(name: &str, labels: &[(&str, &str)], value: f64) -> Series {
        let all = labels.iter().copied().chain([("__name__", name)]);
        let labels = all
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Series {
            labels,
            points: vec![Point { at: 0, value }],
        }
    }

    /// Returns a node with eight devices, of which the pod `train` holds two.
    fn read_on_node(values: Vec<Series>) -> Readings {
        let resources: BTreeMap<String, String> =
            [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
        let node = Node {
            name: "n".into(),
            schedulable: true,
            ..Node::default()
        };
        let host = NodeDetails {
            node,
            capacity: resources.clone(),
            allocatable: resources,
            ..NodeDetails::default()
        };
        let pod = Consumer {
            namespace: "ns".into(),
            name: "train".into(),
            node: Some("n".into()),
            devices: std::rc::Rc::new([("nvidia.com/gpu".to_owned(), 2)].into()),
            asks_for_devices: true,
            ..Consumer::default()
        };
        let pods = Consumers::from_iter([pod]);
        let inventory = Inventory::of(vec![host], Some(&pods), &[]);
        let facts = ApiFacts::of(&inventory, Some(&pods));
        read(
            &Moment {
                values,
                ..Moment::default()
            },
            &inventory,
            &facts,
        )
    }

    const UTIL: &str = "DCGM_FI_DEV_GPU_UTIL";

    #[test]
    fn a_device_is_broken_when_its_exporter_says_so() {
        let at = |gpu| [("gpu", gpu), ("Hostname", "n")];
        let found = read_on_node(vec![
            series("DCGM_FI_DEV_XID_ERRORS", &at("0"), 13.0),
            series("DCGM_FI_DEV_XID_ERRORS", &at("1"), 79.0),
            series("DCGM_FI_DEV_ROW_REMAP_FAILURE", &at("2"), 1.0),
            series("amd_gpu_health", &[("gpu_id", "3"), ("hostname", "n")], 0.0),
            series("gpu_health", &[("gpu_id", "4"), ("hostname", "n")], 1.0),
        ]);
        let faults: Vec<_> = found
            .devices
            .iter()
            .map(|reading| reading.fault.as_deref())
            .collect();
        assert_eq!(
            faults,
            [
                None,
                Some("XID 79"),
                Some("row remapping failed"),
                Some("unhealthy"),
                None
            ]
        );
    }

    #[test]
    fn a_device_that_is_cut_is_shown_as_its_instances() {
        let whole = [("gpu", "0"), ("UUID", "GPU-a"), ("Hostname", "n")];
        let instance = [
            ("gpu", "0"),
            ("UUID", "GPU-a"),
            ("Hostname", "n"),
            ("GPU_I_PROFILE", "1g.10gb"),
            ("GPU_I_ID", "7"),
        ];
        let found = read_on_node(vec![
            series("DCGM_FI_DEV_GPU_TEMP", &whole, 40.0),
            series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", &instance, 0.25),
        ]);
        assert_eq!(found.devices.len(), 1);
        assert_eq!(
            (
                found.devices[0].utilization,
                found.devices[0].id().to_string()
            ),
            (Some(Percent(25.0)), "gpu-0/1g.10gb-7".to_owned())
        );
    }

    #[test]
    fn a_shared_device_has_its_own_value_and_all_its_holders() {
        let copy = |pod| {
            [
                ("gpu", "0"),
                ("UUID", "GPU-a"),
                ("Hostname", "n"),
                ("namespace", "ns"),
                ("pod", pod),
            ]
        };
        let own = [("gpu", "0"), ("UUID", "GPU-a"), ("Hostname", "n")];
        let found = read_on_node(vec![
            series(UTIL, &copy("train"), 30.0),
            series(UTIL, &own, 70.0),
        ]);
        assert_eq!(
            (found.devices.len(), found.devices[0].utilization),
            (1, Some(Percent(70.0)))
        );
        assert_eq!(
            found.devices[0].holders,
            [("ns".to_owned(), "train".to_owned())]
        );
    }

    #[test]
    fn a_device_is_stale_when_all_its_series_are_old() {
        let of = |gpu, pod| {
            [
                ("gpu", gpu),
                ("Hostname", "n"),
                ("namespace", "ns"),
                ("pod", pod),
            ]
        };
        let values = vec![
            series(UTIL, &of("0", "gone"), 80.0),
            series(UTIL, &of("0", "train"), 30.0),
            series(UTIL, &of("1", "train"), 90.0),
            series(UTIL, &of("1", "train-too"), 20.0),
            series("DCGM_FI_DEV_FB_USED", &of("1", "train"), 500.0),
            // What no device can have is as old as any other sample.
            series(UTIL, &of("2", "train"), 2_147_483_632.0),
            series("DCGM_FI_DEV_FB_USED", &of("2", "train"), 500.0),
        ];
        // An answer about ages has no names of metrics.
        let age = |gpu, pod, seconds| Series {
            labels: of(gpu, pod)
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            points: vec![Point {
                at: 0,
                value: seconds,
            }],
        };
        let stale_ages = vec![
            age("0", "gone", 70.0),
            age("1", "train", 95.0),
            age("1", "train-too", 61.0),
            age("2", "train", 99.0),
        ];
        let found = read(
            &Moment { values, stale_ages },
            &Inventory::default(),
            &ApiFacts::default(),
        );
        let told: Vec<_> = found
            .devices
            .iter()
            .map(|one| (one.stale, one.sample_age_seconds, one.memory_used))
            .collect();
        assert_eq!(
            told,
            [
                (false, None, None),
                (true, Some(61.0), None),
                (true, Some(99.0), None)
            ]
        );
        assert_eq!(found.devices[1].utilization, None);
    }

    #[test]
    fn an_exporter_that_tells_only_uuids_is_of_the_same_devices() {
        let found = read_on_node(vec![
            series(
                UTIL,
                &[("gpu", "5"), ("UUID", "GPU-a"), ("Hostname", "n")],
                50.0,
            ),
            series(
                "hami_host_gpu_utilization_ratio",
                &[("device_uuid", "GPU-a"), ("node", "n")],
                49.0,
            ),
            series(
                "hami_container_device_utilization_ratio",
                &[
                    ("device_uuid", "GPU-a"),
                    ("node", "n"),
                    ("namespace", "ns"),
                    ("pod", "train"),
                    ("container", "main"),
                ],
                49.0,
            ),
        ]);
        assert_eq!(
            (
                found.devices.len(),
                found.devices[0].index,
                found.devices[0].utilization
            ),
            (1, 5, Some(Percent(50.0)))
        );
        assert_eq!(found.devices[0].holders.len(), 1);
    }

    #[test]
    fn what_is_held_is_not_guessed() {
        let at = |gpu, pod| {
            [
                ("gpu", gpu),
                ("Hostname", "n"),
                ("namespace", "ns"),
                ("pod", pod),
            ]
        };
        let held = |found: &Readings| {
            found
                .devices
                .iter()
                .map(|reading| reading.held)
                .collect::<Vec<_>>()
        };
        // Both devices of the pod are named: the third is free.
        let found = read_on_node(vec![
            series(UTIL, &at("0", "train"), 1.0),
            series(UTIL, &at("1", "train"), 1.0),
            series(UTIL, &at("2", ""), 1.0),
        ]);
        assert_eq!(held(&found), [Some(true), Some(true), Some(false)]);
        // One of them is: the other may be any.
        let found = read_on_node(vec![
            series(UTIL, &at("0", "train"), 1.0),
            series(UTIL, &at("2", ""), 1.0),
        ]);
        assert_eq!(held(&found), [Some(true), None]);
    }
}
