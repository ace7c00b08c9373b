//! Assigns the samples of a history window to the pods that held the device at the time. Invalid
//! samples are dropped and counted.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{AllocationHistory, Stretch, interval};
use super::collectors::{WINDOW, once};
use super::holders::{DeviceWatch, NamedPods, Tenants};
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;
use crate::model::values::units::highest;
use crate::model::{Mebibytes, Percent, Point, Watts};
use crate::stats::exporters::device_numbers::DeviceNumbers;
use crate::stats::exporters::dialect;
use crate::stats::exporters::dialect::{Quantity, metric_of};
use crate::stats::exporters::identity::{ApiFacts, IdentityReader, SeriesDevice};
use crate::stats::exporters::parts::NodeParts;

/// Values of one device, in order of time, while it was held by the same.
#[derive(Clone, Debug, PartialEq)]
pub struct HolderSamples<T = Point> {
    pub device: usize,
    /// Places among the tenures; several where the device is shared.
    pub holders: Vec<usize>,
    /// True when somebody held it, known or not.
    pub held: bool,
    /// Time that each value stands for: from one scrape to the next.
    pub seconds: f64,
    pub values: Vec<T>,
}

/// Memory of a device at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MemorySample {
    at: i64,
    used: Mebibytes,
    total: Option<Mebibytes>,
}

/// The most memory that a device used, and the most it had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MemoryPeak {
    pub used: Mebibytes,
    pub total: Option<Mebibytes>,
}

/// Nodes as they are known now: the past is told in names that may be addresses.
#[derive(Clone, Debug, Default)]
pub struct NodeNames {
    /// What their units are.
    pub parts: NodeParts,
    /// Names and addresses → names.
    pub aliases: BTreeMap<String, String>,
}

/// Runs of one quantity, in order of devices and time.
#[derive(Clone, Debug)]
struct Runs<T> {
    all: Vec<HolderSamples<T>>,
    /// Their places by tenure.
    of_tenures: Vec<Vec<usize>>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            of_tenures: Vec::new(),
        }
    }
}

impl<T> Runs<T> {
    /// Adds values of a device, which come in order of time.
    fn add(
        &mut self,
        device: usize,
        seconds: f64,
        watch: &mut DeviceWatch<'_>,
        mut values: Vec<T>,
        at: fn(&T) -> i64,
    ) {
        let mut begins: Vec<HolderSamples<T>> = Vec::new();
        let mut places = Vec::new();
        for (place, value) in values.iter().enumerate() {
            // Asked first, for it remembers what it saw.
            if watch.moves_to(at(value)) || place == 0 {
                places.push(place);
                begins.push(HolderSamples {
                    device,
                    holders: watch.holders.clone(),
                    held: watch.held,
                    seconds,
                    values: Vec::new(),
                });
            }
        }
        for (run, place) in begins.iter_mut().zip(places).rev() {
            run.values = if place == 0 {
                std::mem::take(&mut values)
            } else {
                values.split_off(place)
            };
        }
        for run in begins {
            for holder in &run.holders {
                if self.of_tenures.len() <= *holder {
                    self.of_tenures.resize(holder + 1, Vec::new());
                }
                self.of_tenures[*holder].push(self.all.len());
            }
            self.all.push(run);
        }
    }

    /// Returns those of devices that one of these tenures held, each once.
    fn of(&self, own: &BTreeSet<usize>) -> impl Iterator<Item = &HolderSamples<T>> {
        let places: BTreeSet<usize> = own
            .iter()
            .filter_map(|tenure| self.of_tenures.get(*tenure))
            .flatten()
            .copied()
            .collect();
        places.into_iter().map(|place| &self.all[place])
    }
}

/// All samples.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    utilization: Runs<Point>,
    memory: Runs<MemorySample>,
    /// In watts.
    power: Runs<Point>,
    /// Devices by their number in the samples.
    pub devices: Vec<SeriesDevice>,
    /// How their exporters call them.
    pub models: Vec<Option<String>>,
    /// Samples that no device can have.
    pub dropped: u64,
}

/// What one series told: who collected it, and the pod that its labels name, by number.
struct Curve {
    collector: u32,
    pod: Option<u32>,
    points: Vec<Point>,
}

/// What one device told, by quantity and rank of the metric.
#[derive(Default)]
struct DeviceSamples {
    model: Option<String>,
    /// Its number on its node, as the first who told calls it.
    index: Option<u32>,
    curves: BTreeMap<(Quantity, u8), Vec<Curve>>,
}

impl DeviceSamples {
    /// Pods that the labels name.
    fn names(&self) -> NamedPods {
        let curves = || self.curves.values().flatten();
        let first = curves().next().and_then(|curve| curve.pod);
        if curves().all(|curve| curve.pod == first) {
            return NamedPods::Same(first);
        }
        let named = |curve: &Curve| {
            curve
                .pod
                .map(|pod| {
                    curve
                        .points
                        .iter()
                        .map(|point| (point.at, pod))
                        .collect::<Vec<_>>()
                })
                .unwrap_or_default()
        };
        NamedPods::by_time(curves().flat_map(named).collect())
    }

    /// Of several metrics for one quantity the best counts. Where a value is told with its pod and
    /// without, it is still one.
    fn curve(&mut self, quantity: Quantity) -> Vec<Point> {
        let best = self
            .curves
            .keys()
            .filter(|(own, _)| *own == quantity)
            .min()
            .copied();
        let mut curves = best
            .and_then(|best| self.curves.remove(&best))
            .unwrap_or_default();
        // Replicated stores may tell each sample twice.
        if let [curve] = curves.as_slice()
            && curve
                .points
                .is_sorted_by(|before, after| before.at < after.at)
        {
            return curves.remove(0).points;
        }
        let values = |curve: Curve| {
            curve
                .points
                .into_iter()
                .map(move |point| (curve.collector, curve.pod.is_none(), point))
        };
        let mut values: Vec<(u32, bool, Point)> = curves.into_iter().flat_map(values).collect();
        values.sort_by_key(|(collector, nameless, point)| (point.at, *collector, *nameless));
        values.dedup_by_key(|(collector, _, point)| (point.at, *collector));
        once(
            values
                .into_iter()
                .map(|(collector, _, point)| (collector, point))
                .collect(),
        )
    }
}

/// Returns what devices told, and how many samples no device can have.
fn told<'a>(
    answer: impl Iterator<Item = (&'a Series, Vec<Point>)>,
    stretch: Stretch,
    reader: &IdentityReader<'_>,
    tenants: &Tenants<'_>,
) -> (BTreeMap<SeriesDevice, DeviceSamples>, u64) {
    let mut dropped = 0;
    // What a series has beside what says of which device and pod it is, says who collected it.
    let read: BTreeSet<&str> = dialect::labels()
        .filter(|name| !matches!(*name, "job" | "instance"))
        .chain(["__name__"])
        .collect();
    let mut collectors: BTreeMap<Vec<(&str, &str)>, u32> = BTreeMap::new();
    let mut devices: BTreeMap<SeriesDevice, DeviceSamples> = BTreeMap::new();
    for (series, mut points) in answer {
        let Some((metric, mut place)) = metric_of(series.name()).zip(reader.place(series)) else {
            continue;
        };
        if !place.tells(series, metric.quantity) {
            continue;
        }
        // Not all exporters count alike: a UUID is one device whatever its number.
        let index = if place.uuid.is_some() {
            place.index.take()
        } else {
            place.index
        };
        let next = u32::try_from(collectors.len()).unwrap_or(u32::MAX);
        let key = series
            .labels
            .iter()
            .filter(|(name, _)| !read.contains(name) && !dialect::is_of_claim(name))
            .collect();
        let collector = *collectors.entry(key).or_insert(next);
        let pod = reader.named_pod(series).map(|pod| tenants.number(&pod));
        let told = devices.entry(place).or_default();
        told.index = told.index.or(index);
        told.model = told
            .model
            .take()
            .or_else(|| IdentityReader::model(series).map(ToOwned::to_owned));
        points.retain_mut(|point| {
            if !(stretch.start..stretch.end).contains(&point.at) {
                return false;
            }
            let value = metric.read(point.value);
            dropped += u64::from(value.is_none());
            value.map(|value| point.value = value).is_some()
        });
        told.curves
            .entry((metric.quantity, metric.rank))
            .or_default()
            .push(Curve {
                collector,
                pod,
                points,
            });
    }
    (devices, dropped)
}

/// Numbers of devices that are cut, by node and UUID: all instances of a device have its number,
/// whoever tells it.
fn numbers(devices: &BTreeMap<SeriesDevice, DeviceSamples>) -> BTreeMap<(String, String), u32> {
    let id = |place: &SeriesDevice| Some((place.node.clone(), place.uuid.clone()?));
    let cut: BTreeSet<_> = devices
        .keys()
        .filter(|place| place.slice.is_some())
        .filter_map(id)
        .collect();
    let mut numbers = BTreeMap::new();
    for (place, told) in devices.iter().filter(|_| !cut.is_empty()) {
        if let Some((id, index)) = id(place).filter(|id| cut.contains(id)).zip(told.index) {
            numbers.entry(id).or_insert(index);
        }
    }
    numbers
}

impl Usage {
    /// From raw samples of the devices. `exporters` are pods that may name a device's node by their
    /// own.
    pub fn of(
        mut answer: Vec<Series>,
        ledger: &AllocationHistory,
        nodes: &NodeNames,
        exporters: &[(PodKey, String)],
    ) -> Self {
        let bound = ledger
            .tenures
            .iter()
            .filter(|tenure| !tenure.node.is_empty());
        let own = ledger
            .of_nodes
            .keys()
            .map(|node| (node.clone(), node.clone()));
        let names = nodes.aliases.clone().into_iter().chain(own).collect();
        let pods = bound.map(|tenure| (tenure.pod.clone(), tenure.node.clone()));
        let facts = ApiFacts::of_past(names, pods.chain(exporters.iter().cloned()));
        let reader = IdentityReader::new(&facts, &answer);
        let tenants = Tenants::of(ledger);
        // There are many: they stay where they are.
        let samples: Vec<Vec<Point>> = answer
            .iter_mut()
            .map(|series| std::mem::take(&mut series.points))
            .collect();
        let (mut devices, dropped) = told(
            answer.iter().zip(samples),
            ledger.stretch,
            &reader,
            &tenants,
        );
        let mut usage = Self {
            dropped,
            ..Self::default()
        };
        let told_as = |(place, told): (&SeriesDevice, &DeviceSamples)| SeriesDevice {
            index: place.index.or(told.index),
            ..place.clone()
        };
        let all = DeviceNumbers::of(devices.iter().map(told_as));
        let numbers = numbers(&devices);
        // A device that is cut into instances is those.
        let whole = |place: &SeriesDevice| SeriesDevice {
            slice: None,
            ..place.clone()
        };
        let cut: BTreeSet<SeriesDevice> = devices
            .keys()
            .filter(|place| place.slice.is_some())
            .map(whole)
            .collect();
        devices.retain(|place, _| !cut.contains(place));
        for (device, (mut place, mut told)) in devices.into_iter().enumerate() {
            let shared = place
                .uuid
                .as_ref()
                .and_then(|uuid| numbers.get(&(place.node.clone(), uuid.clone())).copied());
            place.index = shared.or(told.index).or_else(|| all.number(&place));
            let mut watch = tenants.watch(&place, told.names());
            let seconds = |points: &[Point]| {
                interval([points].into_iter()).unwrap_or(ledger.slot) as f64 / 1000.0
            };
            let points = told.curve(Quantity::Utilization);
            usage
                .utilization
                .add(device, seconds(&points), &mut watch, points, |point| {
                    point.at
                });
            let points = told.curve(Quantity::Power);
            usage
                .power
                .add(device, seconds(&points), &mut watch, points, |point| {
                    point.at
                });
            let at = |points: Vec<Point>| {
                points
                    .into_iter()
                    .map(|point| (point.at, point.value))
                    .collect::<BTreeMap<_, _>>()
            };
            let (free, total) = (
                at(told.curve(Quantity::MemoryFree)),
                at(told.curve(Quantity::MemoryTotal)),
            );
            let points = told.curve(Quantity::MemoryUsed);
            let each = seconds(&[]);
            let memory = |Point { at, value: used }| {
                let total = free
                    .get(&at)
                    .map(|free| free + used)
                    .or_else(|| total.get(&at).copied());
                MemorySample {
                    at,
                    used: Mebibytes(used),
                    total: total.map(Mebibytes),
                }
            };
            usage.memory.add(
                device,
                each,
                &mut watch,
                points.into_iter().map(memory).collect(),
                |memory| memory.at,
            );
            usage.devices.push(place);
            usage.models.push(told.model);
        }
        usage
    }

    /// Returns utilization in percent, in order of devices and time.
    pub fn runs(&self) -> &[HolderSamples] {
        &self.utilization.all
    }

    /// Returns utilization of devices while one of these tenures held them, each once, in order of
    /// devices and time.
    pub fn runs_of(&self, own: &BTreeSet<usize>) -> impl Iterator<Item = &HolderSamples> {
        self.utilization.of(own)
    }

    /// Returns used memory of such devices, and all memory where that is known.
    pub fn memory_of(&self, own: &BTreeSet<usize>) -> (Vec<Mebibytes>, Vec<Mebibytes>) {
        let memory = || self.memory.of(own).flat_map(|run| &run.values);
        (
            memory().map(|one| one.used).collect(),
            memory().filter_map(|one| one.total).collect(),
        )
    }

    /// Returns what a group drew at some times, in kWh; `None` where nobody measured it. Gaps are
    /// not filled.
    pub fn energy(&self, own: &BTreeSet<usize>, when: &impl Fn(i64) -> bool) -> Option<f64> {
        let of = |run: &HolderSamples| {
            let seconds = run.seconds;
            run.values
                .iter()
                .filter(|point| when(point.at))
                .map(move |point| point.value * seconds)
                .collect::<Vec<_>>()
        };
        let drawn: Vec<f64> = self.power.of(own).flat_map(of).collect();
        (!drawn.is_empty()).then(|| drawn.iter().sum::<f64>() / 3_600_000.0)
    }

    /// Means of the power of a group's devices.
    pub fn power(&self, own: &BTreeSet<usize>) -> BTreeMap<usize, Watts> {
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for run in self.power.of(own) {
            let (sum, count) = sums.entry(run.device).or_default();
            run.values
                .iter()
                .for_each(|point| (*sum, *count) = (*sum + point.value, *count + 1.0));
        }
        sums.into_iter()
            .map(|(device, (sum, count))| (device, Watts(sum / count)))
            .collect()
    }

    /// Returns the most memory that a group's devices used, with what there was of it.
    pub(crate) fn peaks(&self, own: &BTreeSet<usize>) -> BTreeMap<usize, MemoryPeak> {
        let mut peaks: BTreeMap<usize, MemoryPeak> = BTreeMap::new();
        for run in self.memory.of(own) {
            let peak = peaks.entry(run.device).or_default();
            for memory in &run.values {
                peak.used = highest([peak.used, memory.used].into_iter()).unwrap_or_default();
                peak.total = highest(peak.total.into_iter().chain(memory.total));
            }
        }
        peaks
    }
}

/// Five-minute means of runs, which come in order of devices and time, by the number of the window:
/// of each device first, then of the devices. One without samples is left out.
pub fn windows<'u>(
    stretch: Stretch,
    runs: impl Iterator<Item = &'u HolderSamples>,
) -> BTreeMap<i64, Percent> {
    let mut windows: BTreeMap<i64, (f64, u32)> = BTreeMap::new();
    let mut close = |(_, window): (usize, i64), sum: f64, count: f64| {
        let (all, number) = windows.entry(window).or_default();
        (*all, *number) = (*all + sum / count, *number + 1);
    };
    // Device and window that are being added up, and when the window ends.
    let mut open: Option<((usize, i64), i64, f64, f64)> = None;
    for (device, point) in runs.flat_map(|run| run.values.iter().map(|point| (run.device, point))) {
        match &mut open {
            Some(((own, _), end, sum, count)) if *own == device && point.at < *end => {
                (*sum, *count) = (*sum + point.value, *count + 1.0);
            }
            _ => {
                if let Some((of, _, sum, count)) = open {
                    close(of, sum, count);
                }
                let window = (point.at - stretch.start).div_euclid(WINDOW);
                open = Some((
                    (device, window),
                    stretch.start + (window + 1) * WINDOW,
                    point.value,
                    1.0,
                ));
            }
        }
    }
    if let Some((of, _, sum, count)) = open {
        close(of, sum, count);
    }
    windows
        .into_iter()
        .map(|(window, (sum, count))| (window, Percent(sum / f64::from(count))))
        .collect()
}
