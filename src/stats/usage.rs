//! Samples of devices in a window of history, each with who held the device when it was taken. Garbage is dropped and
//! counted; what nobody held is in no group.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Point;
use crate::model::series::Series;

use super::dialect::{Quantity, metric_of};
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
    /// Devices by their number in the samples.
    pub devices: Vec<Place>,
    /// How their exporters call them.
    pub models: Vec<Option<String>>,
    /// Samples that no device can have.
    pub dropped: u64,
}

/// What one device told: by quantity and rank of the metric, with a number for who collected it.
#[derive(Default)]
struct Told {
    model: Option<String>,
    values: BTreeMap<(Quantity, u8), Vec<(u32, Point)>>,
    /// Pods that the labels name, by time.
    pods: BTreeMap<i64, Vec<(String, String)>>,
}

/// Labels by which copies of one series differ.
const COLLECTORS: [&str; 7] =
    ["job", "instance", "prometheus", "prometheus_replica", "replica", "receive_replica", "__replica__"];

impl Usage {
    /// From raw samples of the devices.
    #[must_use]
    pub fn of(answer: &[Series], ledger: &Ledger, nodes: &Nodes) -> Self {
        let bound = ledger.tenures.iter().filter(|tenure| !tenure.node.is_empty());
        let own = ledger.of_nodes.keys().map(|node| (node.clone(), node.clone()));
        let names = nodes.aliases.clone().into_iter().chain(own).collect();
        let facts = Facts::of_past(names, bound.map(|tenure| (tenure.pod.clone(), tenure.node.clone())));
        let reader = Reader::new(&facts, answer);
        let mut usage = Self::default();
        let mut collectors: BTreeMap<Vec<&str>, u32> = BTreeMap::new();
        let mut devices: BTreeMap<Place, Told> = BTreeMap::new();
        for series in answer {
            let Some((metric, place)) = metric_of(series.name()).zip(reader.place(series)) else { continue };
            let next = u32::try_from(collectors.len()).unwrap_or(u32::MAX);
            let key = COLLECTORS.iter().map(|name| series.label(name).unwrap_or_default()).collect();
            let collector = *collectors.entry(key).or_insert(next);
            let pod = reader.named_pod(series);
            let told = devices.entry(place).or_default();
            told.model = told.model.take().or_else(|| Reader::model(series).map(ToOwned::to_owned));
            for point in series.points.iter().filter(|point| (ledger.stretch.start..ledger.stretch.end).contains(&point.at)) {
                let Some(value) = metric.read(point.value) else {
                    usage.dropped += 1;
                    continue;
                };
                let point = Point { at: point.at, value };
                told.values.entry((metric.quantity, metric.rank)).or_default().push((collector, point));
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
        for (device, (place, mut told)) in devices.into_iter().enumerate() {
            let curve = |told: &mut Told, quantity: Quantity| {
                // Of several metrics for one quantity the best counts.
                let best = told.values.keys().filter(|(own, _)| *own == quantity).min().copied();
                best.and_then(|best| told.values.remove(&best)).map(once).unwrap_or_default()
            };
            let seconds = |points: &[Point]| interval([points].into_iter()).unwrap_or(ledger.slot) as f64 / 1000.0;
            let points = curve(&mut told, Quantity::Utilization);
            let each = seconds(&points);
            for point in points {
                let (holders, held) = holders(ledger, &place.node, told.pods.get(&point.at), point.at);
                usage.samples.push(Sample { device, at: point.at, value: point.value, holders, held, seconds: each });
            }
            let points = curve(&mut told, Quantity::Power);
            let each = seconds(&points);
            for point in points {
                let (holders, _) = holders(ledger, &place.node, told.pods.get(&point.at), point.at);
                usage.power.push(Power { device, at: point.at, watts: point.value, seconds: each, holders });
            }
            let at = |points: Vec<Point>| points.into_iter().map(|point| (point.at, point.value)).collect::<BTreeMap<_, _>>();
            let (free, total) = (at(curve(&mut told, Quantity::MemoryFree)), at(curve(&mut told, Quantity::MemoryTotal)));
            for point in curve(&mut told, Quantity::MemoryUsed) {
                let (holders, _) = holders(ledger, &place.node, told.pods.get(&point.at), point.at);
                let total = free.get(&point.at).map(|free| free + point.value).or_else(|| total.get(&point.at).copied());
                usage.memory.push(Memory { device, used: point.value, total, holders });
            }
            usage.devices.push(place);
            usage.models.push(told.model);
        }
        usage
    }

    /// Five-minute means of a group in order of time: of each device first, then of the devices. One without samples is left out.
    #[must_use]
    pub fn means(&self, stretch: Stretch, group: &impl Fn(&Sample) -> bool) -> Vec<f64> {
        self.windows(stretch, group).into_values().collect()
    }

    /// The same by the number of the window.
    #[must_use]
    pub fn windows(&self, stretch: Stretch, group: &impl Fn(&Sample) -> bool) -> BTreeMap<i64, f64> {
        let mut devices: BTreeMap<(i64, usize), (f64, u32)> = BTreeMap::new();
        for sample in self.samples.iter().filter(|sample| group(sample)) {
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

    /// Samples of a group.
    #[must_use]
    pub fn values(&self, group: &impl Fn(&Sample) -> bool) -> Vec<f64> {
        self.samples.iter().filter(|sample| group(sample)).map(|sample| sample.value).collect()
    }

    #[must_use]
    pub fn memory_used(&self, group: &impl Fn(&[usize]) -> bool) -> Vec<f64> {
        self.memory.iter().filter(|memory| group(&memory.holders)).map(|memory| memory.used).collect()
    }

    #[must_use]
    pub fn memory_total(&self, group: &impl Fn(&[usize]) -> bool) -> Vec<f64> {
        self.memory.iter().filter(|memory| group(&memory.holders)).filter_map(|memory| memory.total).collect()
    }
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

/// Who held a device at a time: pods that its labels name and that the ledger knows to have held some on that node; without
/// names the only pod of a node that has all of it. And whether anybody did.
fn holders(ledger: &Ledger, node: &str, named: Option<&Vec<(String, String)>>, at: i64) -> (Vec<usize>, bool) {
    let Some(slot) = ledger.slot_of(at).and_then(|slot| ledger.seen(slot)) else { return (Vec::new(), false) };
    let there = || ledger.tenures.iter().enumerate().filter(move |(_, tenure)| tenure.node == node && tenure.held[slot]);
    if let Some(named) = named {
        let own: Vec<usize> = there().filter(|(_, tenure)| named.contains(&tenure.pod)).map(|(index, _)| index).collect();
        if !own.is_empty() {
            return (own, true);
        }
    }
    let capacity = ledger.of_nodes.get(node).copied().unwrap_or(u64::MAX);
    let full = there().map(|(_, tenure)| tenure.gpus).sum::<u64>() >= capacity;
    let mut all = there();
    match (all.next(), all.next()) {
        (Some((only, _)), None) if full && named.is_none() => (vec![only], true),
        _ => (Vec::new(), full && named.is_none()),
    }
}
