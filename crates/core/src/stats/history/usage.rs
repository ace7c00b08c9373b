//! Assigns the samples of a window to the pods that held the device at that time. Impossible values
//! are dropped and counted.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::AllocationHistory;
use super::cadence::SampleSeconds;
use super::collectors::WINDOW;
use super::device_samples::{DeviceSamples, ReportedDevices};
use super::holders::{DeviceWatch, Tenants};
use super::slots::TimeSpan;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;
use crate::model::values::units::highest;
use crate::model::{Mebibytes, Percent, Point, Watts};
use crate::stats::exporters::device_numbers::DeviceNumbers;
use crate::stats::exporters::dialect::Quantity;
use crate::stats::exporters::identity::{ApiFacts, IdentityReader, SeriesDevice};
use crate::stats::exporters::parts::NodeParts;

/// A run: consecutive values of one device with the same holders.
#[derive(Clone, Debug, PartialEq)]
pub struct HolderSamples<T = Point> {
    pub device: usize,
    /// Indexes of allocations; several if the device is shared.
    pub holders: Vec<usize>,
    /// True if a pod held the device, even if it is unknown which one.
    pub held: bool,
    /// Time that the values represent, from one scrape to the next.
    seconds: SampleSeconds,
    pub values: Vec<T>,
}

impl<T> HolderSamples<T> {
    /// Returns the values with the seconds that each represents.
    pub fn weighted(&self) -> impl Iterator<Item = (&T, f64)> {
        let seconds = |(index, value)| (value, self.seconds.at(index));
        self.values.iter().enumerate().map(seconds)
    }
}

/// A sample of the memory of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MemorySample {
    at: i64,
    used: Mebibytes,
    total: Option<Mebibytes>,
}

/// Highest used memory of a device, and highest total memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MemoryPeak {
    pub used: Mebibytes,
    pub total: Option<Mebibytes>,
}

/// Current facts about nodes. Past series may identify a node by its address.
#[derive(Clone, Debug, Default)]
pub struct NodeNames {
    /// Kinds of units that the nodes offer.
    pub parts: NodeParts,
    /// Names of nodes by name and address.
    pub aliases: BTreeMap<String, String>,
}

/// Runs of one quantity, sorted by device and time.
#[derive(Clone, Debug)]
struct Runs<T> {
    all: Vec<HolderSamples<T>>,
    /// Indexes of runs by allocation.
    by_allocation: Vec<Vec<usize>>,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            by_allocation: Vec::new(),
        }
    }
}

impl<T> Runs<T> {
    /// Splits the values of a device, which must be sorted by time, into runs with the same
    /// holders.
    fn add(
        &mut self,
        device: usize,
        mut seconds: SampleSeconds,
        watch: &mut DeviceWatch<'_>,
        mut values: Vec<T>,
        at: fn(&T) -> i64,
    ) {
        let mut begins: Vec<HolderSamples<T>> = Vec::new();
        let mut places = Vec::new();
        for (index, value) in values.iter().enumerate() {
            // Call `advance_to` even for index 0, because it changes the state of `watch`.
            if watch.advance_to(at(value)) || index == 0 {
                places.push(index);
                begins.push(HolderSamples {
                    device,
                    holders: watch.holders.clone(),
                    held: watch.held,
                    seconds: SampleSeconds::Same(0.0),
                    values: Vec::new(),
                });
            }
        }
        for (run, index) in begins.iter_mut().zip(places).rev() {
            run.seconds = seconds.split_off(index);
            run.values = if index == 0 {
                std::mem::take(&mut values)
            } else {
                values.split_off(index)
            };
        }
        for run in begins {
            for holder in &run.holders {
                if self.by_allocation.len() <= *holder {
                    self.by_allocation.resize(holder + 1, Vec::new());
                }
                self.by_allocation[*holder].push(self.all.len());
            }
            self.all.push(run);
        }
    }

    /// Selects the runs of these allocations, each once.
    fn held_by(&self, allocations: &BTreeSet<usize>) -> impl Iterator<Item = &HolderSamples<T>> {
        let run_indexes: BTreeSet<usize> = allocations
            .iter()
            .filter_map(|allocation| self.by_allocation.get(*allocation))
            .flatten()
            .copied()
            .collect();
        run_indexes.into_iter().map(|index| &self.all[index])
    }
}

/// Samples of all devices by quantity.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    utilization: Runs<Point>,
    memory: Runs<MemorySample>,
    /// Power in watts.
    power: Runs<Point>,
    /// Devices, to which runs refer by index.
    pub devices: Vec<SeriesDevice>,
    /// Model names of the devices, from exporters.
    pub models: Vec<Option<String>>,
    /// Number of samples with a physically impossible value.
    pub dropped: u64,
    /// Number of these samples by the allocation that held the device.
    dropped_of: BTreeMap<usize, u64>,
}

impl Usage {
    /// Reads raw samples of devices. `exporters` are exporter pods, whose node may be the node of a
    /// device.
    pub fn new(
        mut answer: Vec<Series>,
        ledger: &AllocationHistory,
        nodes: &NodeNames,
        exporters: &[(PodKey, String)],
    ) -> Self {
        let bound = ledger
            .allocations
            .iter()
            .filter(|allocation| !allocation.node.is_empty());
        // A node may have had only slices, or held devices without a recorded capacity.
        let node_names = ledger
            .node_capacities
            .keys()
            .chain(ledger.node_part_capacities.keys())
            .chain(bound.clone().map(|allocation| &allocation.node))
            .map(|node| (node.clone(), node.clone()));
        let names = nodes
            .aliases
            .clone()
            .into_iter()
            .chain(node_names)
            .collect();
        let pods = bound.map(|allocation| (allocation.pod.clone(), allocation.node.clone()));
        let facts = ApiFacts::for_past(names, pods.chain(exporters.iter().cloned()));
        let tenants = Tenants::new(ledger);
        // Move the points out of the series, because there are too many to clone.
        let samples: Vec<Vec<Point>> = answer
            .iter_mut()
            .map(|series| std::mem::take(&mut series.points))
            .collect();
        let reader = IdentityReader::new(&facts, &answer);
        let mut reported =
            ReportedDevices::read(answer.iter().zip(samples), ledger.span, &reader, &tenants);
        let device_numbers = DeviceNumbers::from_devices(reported.with_numbers());
        let numbers = reported.partitioned_numbers();
        reported.remove_partitioned();
        let mut usage = Self {
            dropped: reported.dropped,
            ..Self::default()
        };
        for (mut identity, device) in reported.devices {
            let shared = identity
                .uuid
                .as_ref()
                .and_then(|uuid| numbers.get(&(identity.node.clone(), uuid.clone())).copied());
            identity.index = shared
                .or(device.index)
                .or_else(|| device_numbers.number(&identity));
            let mut watch = tenants.watch(&identity, device.names());
            usage.add(identity, device, &mut watch, ledger.slot);
        }
        usage
    }

    /// Adds a device. Assumes one sample per slot for a curve whose interval is unknown.
    fn add(
        &mut self,
        index: SeriesDevice,
        mut samples: DeviceSamples,
        watch: &mut DeviceWatch<'_>,
        slot: i64,
    ) {
        let device = self.devices.len();
        let seconds = |points: &[Point]| {
            let times: Vec<i64> = points.iter().map(|point| point.at).collect();
            SampleSeconds::new(&times, slot)
        };
        for (quantity, runs) in [
            (Quantity::Utilization, &mut self.utilization),
            (Quantity::Power, &mut self.power),
        ] {
            let points = samples.curve(quantity);
            runs.add(device, seconds(&points), watch, points, |point| point.at);
        }
        let memory = memory_samples(&mut samples);
        self.memory
            .add(device, seconds(&[]), watch, memory, |memory| memory.at);
        for at in samples.dropped_at {
            watch.advance_to(at);
            for holder in &watch.holders {
                *self.dropped_of.entry(*holder).or_default() += 1;
            }
        }
        self.devices.push(index);
        self.models.push(samples.model);
    }

    /// Returns the utilization in percent, sorted by device and time.
    pub fn runs(&self) -> &[HolderSamples] {
        &self.utilization.all
    }

    /// Returns the utilization of devices while one of these allocations held them, without
    /// duplicates and sorted by device and time.
    pub fn runs_of(&self, allocations: &BTreeSet<usize>) -> impl Iterator<Item = &HolderSamples> {
        self.utilization.held_by(allocations)
    }

    /// Counts samples with a physically impossible value of devices that these allocations held.
    pub fn dropped_of(&self, allocations: &BTreeSet<usize>) -> u64 {
        let counts = allocations.iter().map(|index| self.dropped_of.get(index));
        counts.flatten().sum()
    }

    /// Returns the power in watts of devices while one of these allocations held them.
    pub(super) fn power_runs_of(
        &self,
        allocations: &BTreeSet<usize>,
    ) -> impl Iterator<Item = &HolderSamples> {
        self.power.held_by(allocations)
    }

    /// Returns the used memory of the devices of these allocations and, where known, the total
    /// memory.
    pub fn memory_of(&self, allocations: &BTreeSet<usize>) -> (Vec<Mebibytes>, Vec<Mebibytes>) {
        let memory = || self.memory.held_by(allocations).flat_map(|run| &run.values);
        (
            memory().map(|sample| sample.used).collect(),
            memory().filter_map(|sample| sample.total).collect(),
        )
    }

    /// Computes the mean power of each device of a group.
    pub fn power(&self, allocations: &BTreeSet<usize>) -> BTreeMap<usize, Watts> {
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for run in self.power.held_by(allocations) {
            let (sum, count) = sums.entry(run.device).or_default();
            run.values
                .iter()
                .for_each(|point| (*sum, *count) = (*sum + point.value, *count + 1.0));
        }
        sums.into_iter()
            .map(|(device, (sum, count))| (device, Watts(sum / count)))
            .collect()
    }

    /// Returns the highest used memory and the total memory of each device of a group.
    pub(crate) fn peaks(&self, allocations: &BTreeSet<usize>) -> BTreeMap<usize, MemoryPeak> {
        let mut peaks: BTreeMap<usize, MemoryPeak> = BTreeMap::new();
        for run in self.memory.held_by(allocations) {
            let peak = peaks.entry(run.device).or_default();
            for memory in &run.values {
                peak.used = highest([peak.used, memory.used].into_iter()).unwrap_or_default();
                peak.total = highest(peak.total.into_iter().chain(memory.total));
            }
        }
        peaks
    }
}

/// Combines the used memory of a device with its total memory, where free or total memory is known.
fn memory_samples(samples: &mut DeviceSamples) -> Vec<MemorySample> {
    let mut by_time = |quantity: Quantity| -> BTreeMap<i64, f64> {
        let points = samples.curve(quantity);
        points
            .into_iter()
            .map(|point| (point.at, point.value))
            .collect()
    };
    let free = by_time(Quantity::MemoryFree);
    let total = by_time(Quantity::MemoryTotal);
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
    let points = samples.curve(Quantity::MemoryUsed);
    points.into_iter().map(memory).collect()
}

/// Computes five-minute means by window number: first of each device, then over the devices. Omits
/// windows without samples. The runs must be sorted by device and time.
pub fn windows<'u>(
    span: TimeSpan,
    runs: impl Iterator<Item = &'u HolderSamples>,
) -> BTreeMap<i64, Percent> {
    let mut windows: BTreeMap<i64, (f64, u32)> = BTreeMap::new();
    let mut close = |(_, window): (usize, i64), sum: f64, count: f64| {
        let (sum_of_means, number) = windows.entry(window).or_default();
        (*sum_of_means, *number) = (*sum_of_means + sum / count, *number + 1);
    };
    // Device and window of the running sum, end of the window, sum and count.
    let mut open: Option<((usize, i64), i64, f64, f64)> = None;
    for (device, point) in runs.flat_map(|run| run.values.iter().map(|point| (run.device, point))) {
        match &mut open {
            Some(((open_device, _), end, sum, count))
                if *open_device == device && point.at < *end =>
            {
                (*sum, *count) = (*sum + point.value, *count + 1.0);
            }
            _ => {
                if let Some((closed, _, sum, count)) = open {
                    close(closed, sum, count);
                }
                let window = (point.at - span.start).div_euclid(WINDOW);
                open = Some((
                    (device, window),
                    span.start + (window + 1) * WINDOW,
                    point.value,
                    1.0,
                ));
            }
        }
    }
    if let Some((closed, _, sum, count)) = open {
        close(closed, sum, count);
    }
    windows
        .into_iter()
        .map(|(window, (sum, count))| (window, Percent(sum / f64::from(count))))
        .collect()
}
