//! Samples of devices in a window of history, each with who held the device when it was taken. Garbage is dropped and
//! counted; what nobody held is in no group.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

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
    /// Places among the tenures; several where the device is shared. Equal ones that follow each other are one.
    pub holders: Rc<[usize]>,
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
    holders: Rc<[usize]>,
}

/// Memory of a device at a time, in MiB.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    device: usize,
    used: f64,
    total: Option<f64>,
    holders: Rc<[usize]>,
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
    of_tenures: Vec<Places>,
    /// Devices by their number in the samples.
    pub devices: Vec<Place>,
    /// How their exporters call them.
    pub models: Vec<Option<String>>,
    /// Samples that no device can have.
    pub dropped: u64,
}

/// Places among the samples, and among the values of memory.
type Places = (Vec<usize>, Vec<usize>);

/// A value: who collected it, by number, and whether no pod is named beside it.
type Value = (u32, bool, Point);

/// What one device told, by quantity and rank of the metric.
#[derive(Default)]
struct Told {
    model: Option<String>,
    values: BTreeMap<(Quantity, u8), Vec<Value>>,
    /// Pods that the labels name, by time and number.
    pods: Vec<(i64, u32)>,
}

impl Told {
    /// Of several metrics for one quantity the best counts. Where a value is told with its pod and without, it is still one.
    fn curve(&mut self, quantity: Quantity) -> Vec<Point> {
        let best = self.values.keys().filter(|(own, _)| *own == quantity).min().copied();
        let mut values = best.and_then(|best| self.values.remove(&best)).unwrap_or_default();
        values.sort_by_key(|(collector, nameless, point)| (point.at, *collector, *nameless));
        values.dedup_by_key(|(collector, _, point)| (point.at, *collector));
        once(values.into_iter().map(|(collector, _, point)| (collector, point)).collect())
    }
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
        let tenants = Tenants::of(ledger);
        let mut usage = Self { of_tenures: vec![Default::default(); ledger.tenures.len()], ..Self::default() };
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
            let pod = reader.named_pod(series).map(|pod| tenants.number(&pod));
            let told = devices.entry(place).or_default();
            told.model = told.model.take().or_else(|| Reader::model(series).map(ToOwned::to_owned));
            let values = told.values.entry((metric.quantity, metric.rank)).or_default();
            for point in series.points.iter().filter(|point| (ledger.stretch.start..ledger.stretch.end).contains(&point.at)) {
                let Some(value) = metric.read(point.value) else {
                    usage.dropped += 1;
                    continue;
                };
                values.push((collector, pod.is_none(), Point { at: point.at, value }));
                told.pods.extend(pod.map(|pod| (point.at, pod)));
            }
        }
        // A device that is cut into instances is those.
        let cut: Vec<(String, Option<String>, Option<u32>)> = devices
            .keys()
            .filter(|place| place.slice.is_some())
            .map(|place| (place.node.clone(), place.uuid.clone(), place.index))
            .collect();
        devices.retain(|place, _| place.slice.is_some() || !cut.contains(&(place.node.clone(), place.uuid.clone(), place.index)));
        for (device, (mut place, mut told)) in devices.into_iter().enumerate() {
            if let Some(uuid) = &place.uuid {
                place.index = numbers.get(&(place.node.clone(), uuid.clone())).copied().flatten();
            }
            let mut watch = tenants.watch(&place, std::mem::take(&mut told.pods));
            let seconds = |points: &[Point]| interval([points].into_iter()).unwrap_or(ledger.slot) as f64 / 1000.0;
            let points = told.curve(Quantity::Utilization);
            let each = seconds(&points);
            for point in points {
                let (holders, held) = watch.at(point.at);
                usage.samples.push(Sample { device, at: point.at, value: point.value, holders, held, seconds: each });
            }
            let points = told.curve(Quantity::Power);
            let each = seconds(&points);
            for point in points {
                let (holders, _) = watch.at(point.at);
                usage.power.push(Power { device, at: point.at, watts: point.value, seconds: each, holders });
            }
            let at = |points: Vec<Point>| points.into_iter().map(|point| (point.at, point.value)).collect::<BTreeMap<_, _>>();
            let (free, total) = (at(told.curve(Quantity::MemoryFree)), at(told.curve(Quantity::MemoryTotal)));
            for point in told.curve(Quantity::MemoryUsed) {
                let (holders, _) = watch.at(point.at);
                let total = free.get(&point.at).map(|free| free + point.value).or_else(|| total.get(&point.at).copied());
                usage.memory.push(Memory { device, used: point.value, total, holders });
            }
            usage.devices.push(place);
            usage.models.push(told.model);
        }
        for (place, sample) in usage.samples.iter().enumerate() {
            sample.holders.iter().for_each(|holder| usage.of_tenures[*holder].0.push(place));
        }
        for (place, memory) in usage.memory.iter().enumerate() {
            memory.holders.iter().for_each(|holder| usage.of_tenures[*holder].1.push(place));
        }
        usage
    }

    /// Samples of devices that one of these tenures held, each once, in order of devices and time.
    #[must_use]
    pub fn of_tenures(&self, own: &BTreeSet<usize>) -> Vec<&Sample> {
        let places = self.places(own, |(samples, _)| samples);
        places.into_iter().map(|place| &self.samples[place]).collect()
    }

    /// Used memory of such devices, and all there was where that is known, in MiB.
    #[must_use]
    pub fn memory_of(&self, own: &BTreeSet<usize>) -> (Vec<f64>, Vec<f64>) {
        let places = self.places(own, |(_, memory)| memory);
        let memory = || places.iter().map(|place| &self.memory[*place]);
        (memory().map(|one| one.used).collect(), memory().filter_map(|one| one.total).collect())
    }

    /// Places of what these tenures have, each once and in order.
    fn places(&self, own: &BTreeSet<usize>, of: fn(&Places) -> &Vec<usize>) -> Vec<usize> {
        let mut places: Vec<usize> = own.iter().filter_map(|tenure| self.of_tenures.get(*tenure)).flat_map(of).copied().collect();
        places.sort_unstable();
        places.dedup();
        places
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

/// Five-minute means of samples, which come in order of devices and time, by the number of the window: of each device first,
/// then of the devices. One without samples is left out.
#[must_use]
pub fn windows(stretch: Stretch, samples: &[&Sample]) -> BTreeMap<i64, f64> {
    let of = |sample: &Sample| (sample.device, (sample.at - stretch.start).div_euclid(WINDOW));
    let mut windows: BTreeMap<i64, (f64, u32)> = BTreeMap::new();
    for own in samples.chunk_by(|a, b| of(a) == of(b)) {
        let (all, number) = windows.entry(of(own[0]).1).or_default();
        *all += own.iter().map(|sample| sample.value).sum::<f64>() / own.len() as f64;
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
    /// Numbers of pods.
    numbers: BTreeMap<&'l PodKey, u32>,
    /// The number of each tenure's pod.
    pods: Vec<u32>,
}

impl<'l> Tenants<'l> {
    fn of(ledger: &'l Ledger) -> Self {
        let (mut of_nodes, mut numbers): (BTreeMap<&str, Vec<usize>>, BTreeMap<&PodKey, u32>) = Default::default();
        let mut pods = Vec::with_capacity(ledger.tenures.len());
        for (index, tenure) in ledger.tenures.iter().enumerate() {
            of_nodes.entry(&tenure.node).or_default().push(index);
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            pods.push(*numbers.entry(&tenure.pod).or_insert(next));
        }
        Self { ledger, of_nodes, numbers, pods }
    }

    /// The number of a pod; one that requested nothing has one that is nobody's.
    fn number(&self, pod: &PodKey) -> u32 {
        self.numbers.get(pod).copied().unwrap_or(u32::MAX)
    }

    /// Looks at one device, whose labels name these pods, by time.
    fn watch<'t>(&'t self, place: &Place, mut named: Vec<(i64, u32)>) -> Watch<'t> {
        named.sort_unstable();
        named.dedup();
        // Whole devices are counted; of instances nobody knows who has which.
        let capacity = self.ledger.of_nodes.get(&place.node).copied().filter(|_| place.slice.is_none());
        Watch {
            tenants: self,
            there: self.of_nodes.get(place.node.as_str()).map_or(&[][..], Vec::as_slice),
            capacity: capacity.unwrap_or(0),
            named,
            holders: Rc::default(),
            found: Vec::new(),
        }
    }
}

/// Who held one device.
struct Watch<'t> {
    tenants: &'t Tenants<'t>,
    /// Tenures on its node.
    there: &'t [usize],
    /// Devices of the node where it may be told by them alone who has this one, else 0.
    capacity: u64,
    named: Vec<(i64, u32)>,
    holders: Rc<[usize]>,
    found: Vec<usize>,
}

impl Watch<'_> {
    /// Who held it at a time: pods that its labels name and that the ledger knows to have held some on that node;
    /// without names the only pod of a node that has all of it. And whether anybody did.
    fn at(&mut self, at: i64) -> (Rc<[usize]>, bool) {
        let ledger = self.tenants.ledger;
        let Some(slot) = ledger.slot_of(at).and_then(|slot| ledger.seen(slot)) else { return (Rc::default(), false) };
        let first = self.named.partition_point(|(time, _)| *time < at);
        let end = self.named[first..].iter().take_while(|(time, _)| *time == at).count() + first;
        let named = &self.named[first..end];
        let is_named = |tenure: &usize| named.iter().any(|(_, pod)| *pod == self.tenants.pods[*tenure]);
        let there = self.there.iter().copied().filter(|index| ledger.tenures[*index].held[slot]);
        self.found.clear();
        let held = if named.is_empty() {
            self.found.extend(there);
            let taken: u64 = self.found.iter().map(|index| ledger.tenures[*index].gpus).sum();
            let full = self.capacity > 0 && taken >= self.capacity;
            if !full || self.found.len() > 1 {
                self.found.clear();
            }
            full
        } else {
            self.found.extend(there.filter(is_named));
            !self.found.is_empty()
        };
        if *self.holders != *self.found {
            self.holders = Rc::from(self.found.as_slice());
        }
        (Rc::clone(&self.holders), held)
    }
}
