//! Samples of devices in a window of history, each with who held the device when it was taken. Garbage is dropped and
//! counted; what nobody held is in no group.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Point;
use crate::model::reading::PodKey;
use crate::model::series::Series;

use super::dialect::{self, Quantity, metric_of};
use super::hourly::{WINDOW, once};
use super::identity::{Facts, Place, Reader};
use super::ledger::{Ledger, Stretch, interval};

/// A utilization of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub device: usize,
    /// Unix milliseconds.
    pub at: i64,
    /// Percent.
    pub value: f64,
    /// Places among the tenures; several where the device is shared.
    pub holders: Vec<usize>,
    /// True when somebody held it, known or not.
    pub held: bool,
    /// Time that it stands for: from one scrape to the next.
    pub seconds: f64,
}

/// Power that a device drew at a time.
#[derive(Clone, Debug, PartialEq)]
struct Power {
    device: usize,
    at: i64,
    watts: f64,
    seconds: f64,
    holders: Vec<usize>,
}

/// Memory of a device at a time, in MiB.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    device: usize,
    used: f64,
    total: Option<f64>,
    holders: Vec<usize>,
}

/// Nodes as they are known now: the past is told in names that may be addresses.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Whose units are parts of devices.
    pub shared: BTreeSet<String>,
    /// Names and addresses → names.
    pub aliases: BTreeMap<String, String>,
}

/// All samples.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    samples: Vec<Sample>,
    memory: Vec<Memory>,
    power: Vec<Power>,
    /// Places of samples, and of memory, by tenure.
    of_tenures: BTreeMap<usize, (Vec<usize>, Vec<usize>)>,
    /// Devices by their number in the samples.
    pub devices: Vec<Place>,
    /// How their exporters call them.
    pub models: Vec<Option<String>>,
    /// Samples that no device can have.
    pub dropped: u64,
}

/// By collector and time: whether a pod is named beside the value, and the value.
type Values = BTreeMap<(u32, i64), (bool, f64)>;

/// What one device told: by quantity and rank of the metric, with a number for who collected it.
#[derive(Default)]
struct Told {
    model: Option<String>,
    values: BTreeMap<(Quantity, u8), Values>,
    /// Pods that the labels name, by time.
    pods: BTreeMap<i64, Vec<PodKey>>,
}

impl Usage {
    /// From raw samples of the devices. `exporters` are pods that may name a device's node by their own.
    #[must_use]
    pub fn of(answer: &[Series], ledger: &Ledger, nodes: &Nodes, exporters: &[(PodKey, String)]) -> Self {
        let bound = ledger.tenures.iter().filter(|tenure| !tenure.node.is_empty());
        let own = ledger.of_nodes.keys().map(|node| (node.clone(), node.clone()));
        let names = nodes.aliases.clone().into_iter().chain(own).collect();
        let pods = bound.map(|tenure| (tenure.pod.clone(), tenure.node.clone()));
        let facts = Facts::of_past(names, pods.chain(exporters.iter().cloned()));
        let reader = Reader::new(&facts, answer);
        let mut usage = Self::default();
        // What a series has beside what says of which device and pod it is, says who collected it.
        let read: BTreeSet<&str> =
            dialect::labels().filter(|name| !matches!(*name, "job" | "instance")).chain(["__name__"]).collect();
        let mut collectors: BTreeMap<Vec<(&str, &str)>, u32> = BTreeMap::new();
        let mut devices: BTreeMap<Place, Told> = BTreeMap::new();
        // Not all exporters count alike: a UUID is one device whatever its number.
        let mut numbers: BTreeMap<(String, String), Option<u32>> = BTreeMap::new();
        for series in answer {
            let Some((metric, mut place)) = metric_of(series.name()).zip(reader.place(series)) else { continue };
            if !place.tells(metric.quantity) {
                continue;
            }
            if let Some(uuid) = place.uuid.clone() {
                let number = numbers.entry((place.node.clone(), uuid)).or_insert(place.index);
                *number = number.or(place.index);
                place.index = None;
            }
            let next = u32::try_from(collectors.len()).unwrap_or(u32::MAX);
            let own = series.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let key = own.filter(|(name, _)| !read.contains(name)).collect();
            let collector = *collectors.entry(key).or_insert(next);
            let pod = reader.named_pod(series);
            let told = devices.entry(place).or_default();
            told.model = told.model.take().or_else(|| Reader::model(series).map(ToOwned::to_owned));
            for point in series.points.iter().filter(|point| (ledger.stretch.start..ledger.stretch.end).contains(&point.at)) {
                let Some(value) = metric.read(point.value) else {
                    usage.dropped += 1;
                    continue;
                };
                let values = told.values.entry((metric.quantity, metric.rank)).or_default();
                // Where a device is told with its pod and without, it is still one.
                let known = values.entry((collector, point.at)).or_insert((pod.is_some(), value));
                if pod.is_some() && !known.0 {
                    *known = (true, value);
                }
                if let Some(pod) = &pod {
                    let pods = told.pods.entry(point.at).or_default();
                    if !pods.contains(pod) {
                        pods.push(pod.clone());
                    }
                }
            }
        }
        // A device that is cut into instances is those.
        let cut: Vec<(String, Option<String>, Option<u32>)> = devices
            .keys()
            .filter(|place| place.slice.is_some())
            .map(|place| (place.node.clone(), place.uuid.clone(), place.index))
            .collect();
        devices.retain(|place, _| place.slice.is_some() || !cut.contains(&(place.node.clone(), place.uuid.clone(), place.index)));
        let tenants = Tenants::of(ledger);
        for (device, (mut place, mut told)) in devices.into_iter().enumerate() {
            if let Some(uuid) = &place.uuid {
                place.index = numbers.get(&(place.node.clone(), uuid.clone())).copied().flatten();
            }
            let holders = |told: &Told, at: i64| tenants.of_device(&place, told.pods.get(&at), at);
            let curve = |told: &mut Told, quantity: Quantity| {
                // Of several metrics for one quantity the best counts.
                let best = told.values.keys().filter(|(own, _)| *own == quantity).min().copied();
                let values = best.and_then(|best| told.values.remove(&best)).unwrap_or_default();
                once(values.into_iter().map(|((collector, at), (_, value))| (collector, Point { at, value })).collect())
            };
            let seconds = |points: &[Point]| interval([points].into_iter()).unwrap_or(ledger.slot) as f64 / 1000.0;
            let points = curve(&mut told, Quantity::Utilization);
            let each = seconds(&points);
            for point in points {
                let (holders, held) = holders(&told, point.at);
                usage.samples.push(Sample { device, at: point.at, value: point.value, holders, held, seconds: each });
            }
            let points = curve(&mut told, Quantity::Power);
            let each = seconds(&points);
            for point in points {
                let (holders, _) = holders(&told, point.at);
                usage.power.push(Power { device, at: point.at, watts: point.value, seconds: each, holders });
            }
            let at = |points: Vec<Point>| points.into_iter().map(|point| (point.at, point.value)).collect::<BTreeMap<_, _>>();
            let (free, total) = (at(curve(&mut told, Quantity::MemoryFree)), at(curve(&mut told, Quantity::MemoryTotal)));
            for point in curve(&mut told, Quantity::MemoryUsed) {
                let (holders, _) = holders(&told, point.at);
                let total = free.get(&point.at).map(|free| free + point.value).or_else(|| total.get(&point.at).copied());
                usage.memory.push(Memory { device, used: point.value, total, holders });
            }
            usage.devices.push(place);
            usage.models.push(told.model);
        }
        for (place, sample) in usage.samples.iter().enumerate() {
            sample.holders.iter().for_each(|holder| usage.of_tenures.entry(*holder).or_default().0.push(place));
        }
        for (place, memory) in usage.memory.iter().enumerate() {
            memory.holders.iter().for_each(|holder| usage.of_tenures.entry(*holder).or_default().1.push(place));
        }
        usage
    }

    /// Samples of devices that one of these tenures held, each once, in order of devices and time.
    #[must_use]
    pub fn of_tenures(&self, own: &BTreeSet<usize>) -> Vec<&Sample> {
        let places: BTreeSet<usize> =
            own.iter().filter_map(|tenure| self.of_tenures.get(tenure)).flat_map(|(samples, _)| samples).copied().collect();
        places.into_iter().map(|place| &self.samples[place]).collect()
    }

    /// Used memory of such devices, and all there was where that is known, in MiB.
    #[must_use]
    pub fn memory_of(&self, own: &BTreeSet<usize>) -> (Vec<f64>, Vec<f64>) {
        let places: BTreeSet<usize> =
            own.iter().filter_map(|tenure| self.of_tenures.get(tenure)).flat_map(|(_, memory)| memory).copied().collect();
        let memory = || places.iter().map(|place| &self.memory[*place]);
        (memory().map(|one| one.used).collect(), memory().filter_map(|one| one.total).collect())
    }

    /// Samples, in order of devices and time.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// What a group drew at some times, in kWh; `None` where nobody measured it. Gaps are not filled.
    #[must_use]
    pub fn energy(&self, group: &impl Fn(&[usize]) -> bool, when: &impl Fn(i64) -> bool) -> Option<f64> {
        let own: Vec<f64> =
            self.power.iter().filter(|one| group(&one.holders) && when(one.at)).map(|one| one.watts * one.seconds).collect();
        (!own.is_empty()).then(|| own.iter().sum::<f64>() / 3_600_000.0)
    }

    /// Means of the power of a group's devices, in watts.
    #[must_use]
    pub fn watts(&self, group: &impl Fn(&[usize]) -> bool) -> BTreeMap<usize, f64> {
        mean_by(self.power.iter().filter(|one| group(&one.holders)).map(|one| (one.device, one.watts)))
    }

    /// The most memory that a group's devices used, with what there was of it, in MiB.
    #[must_use]
    pub fn peaks(&self, group: &impl Fn(&[usize]) -> bool) -> BTreeMap<usize, (f64, Option<f64>)> {
        let mut peaks: BTreeMap<usize, (f64, Option<f64>)> = BTreeMap::new();
        for memory in self.memory.iter().filter(|memory| group(&memory.holders)) {
            let (used, total) = peaks.entry(memory.device).or_default();
            (*used, *total) = (used.max(memory.used), greater(*total, memory.total));
        }
        peaks
    }
}

/// Five-minute means of samples by the number of the window: of each device first, then of the devices. One without samples is
/// left out.
#[must_use]
pub fn windows(stretch: Stretch, samples: &[&Sample]) -> BTreeMap<i64, f64> {
    let mut devices: BTreeMap<(i64, usize), (f64, u32)> = BTreeMap::new();
    for sample in samples {
        let (sum, count) = devices.entry(((sample.at - stretch.start).div_euclid(WINDOW), sample.device)).or_default();
        *sum += sample.value;
        *count += 1;
    }
    let mut windows: BTreeMap<i64, (f64, u32)> = BTreeMap::new();
    for ((window, _), (sum, count)) in devices {
        let (all, number) = windows.entry(window).or_default();
        *all += sum / f64::from(count);
        *number += 1;
    }
    windows.into_iter().map(|(window, (sum, count))| (window, sum / f64::from(count))).collect()
}

/// The greater of two, as far as they are known.
pub(super) fn greater(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// Means by device.
fn mean_by(values: impl Iterator<Item = (usize, f64)>) -> BTreeMap<usize, f64> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (device, value) in values {
        let (sum, count) = sums.entry(device).or_default();
        (*sum, *count) = (*sum + value, *count + 1.0);
    }
    sums.into_iter().map(|(device, (sum, count))| (device, sum / count)).collect()
}

/// Who held devices when, by node.
struct Tenants<'l> {
    ledger: &'l Ledger,
    of_nodes: BTreeMap<&'l str, Vec<usize>>,
}

impl<'l> Tenants<'l> {
    fn of(ledger: &'l Ledger) -> Self {
        let mut of_nodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, tenure) in ledger.tenures.iter().enumerate() {
            of_nodes.entry(&tenure.node).or_default().push(index);
        }
        Self { ledger, of_nodes }
    }

    /// Who held a device at a time: pods that its labels name and that the ledger knows to have held some on that node;
    /// without names the only pod of a node that has all of it. And whether anybody did.
    fn of_device(&self, place: &Place, named: Option<&Vec<PodKey>>, at: i64) -> (Vec<usize>, bool) {
        let ledger = self.ledger;
        let Some(slot) = ledger.slot_of(at).and_then(|slot| ledger.seen(slot)) else { return (Vec::new(), false) };
        let all = self.of_nodes.get(place.node.as_str()).map_or(&[][..], Vec::as_slice);
        let there: Vec<usize> = all.iter().copied().filter(|index| ledger.tenures[*index].held[slot]).collect();
        if let Some(named) = named {
            let own: Vec<usize> = there.iter().copied().filter(|index| named.contains(&ledger.tenures[*index].pod)).collect();
            let held = !own.is_empty();
            return (own, held);
        }
        // Whole devices are counted; of instances nobody knows who has which.
        let capacity = ledger.of_nodes.get(&place.node).copied().unwrap_or(0);
        let taken: u64 = there.iter().map(|index| ledger.tenures[*index].gpus).sum();
        let full = capacity > 0 && taken >= capacity && place.slice.is_none();
        match there.as_slice() {
            [only] if full => (vec![*only], true),
            _ => (Vec::new(), full),
        }
    }
}
