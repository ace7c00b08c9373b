//! Sums the GPU-hours of a group (held, measured, used, wasted) and its energy. Unmeasured time
//! counts as neither used nor wasted.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationGroup, AllocationHistory};
use super::measured_work;
use super::part_hours::PartHours;
use super::serving_hours::ServingHours;
use super::usage::Usage;
use crate::model::values::units::{highest, mean, total};
use crate::model::{DeviceId, Mebibytes, Percent, Watts};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuHours {
    /// GPU-hours that pods held, according to kube-state-metrics. The sum of used, wasted and
    /// unknown.
    pub held: f64,
    /// Part of the held time without samples from kube-state-metrics. The same pods existed before
    /// and after.
    pub bridged: f64,
    /// GPU-hours that pods may have held while kube-state-metrics had no samples. Not part of the
    /// held time.
    pub unseen: f64,
    /// GPU-hours that waiting pods requested but did not hold.
    pub waited: f64,
    /// Part of the held time with measurements from exporters.
    pub measured: f64,
    /// Measured time, weighted by utilization: an hour at 40 % counts as 0.4.
    used: f64,
    /// Measured energy in kWh, or `None` without measurements.
    pub energy: Option<f64>,
    /// Part of the held time for which the energy was measured.
    powered: f64,
    pub workloads: BTreeSet<(String, String, String)>,
    /// Slices of devices by name. The fields above do not include them.
    pub parts: BTreeMap<String, PartHours>,
}

impl GpuHours {
    /// Sums the GPU-hours of a group.
    pub fn new(
        ledger: &AllocationHistory,
        usage: &Usage,
        group: impl Fn(&Allocation) -> bool,
    ) -> Self {
        Self::for_group(ledger, usage, &ledger.group(group))
    }

    /// Sums the GPU-hours of a group of allocations.
    pub fn for_group(ledger: &AllocationHistory, usage: &Usage, group: &AllocationGroup) -> Self {
        let allocations = || group.whole.iter().map(|index| &ledger.allocations[*index]);
        let gpu_hours = |slots: fn(&Allocation) -> &[bool]| -> f64 {
            let of = |allocation: &Allocation| {
                ledger.hours(slots(allocation)) * allocation.gpus.as_f64()
            };
            total(allocations().map(of))
        };
        let held = gpu_hours(|allocation| &allocation.held);
        let requested = gpu_hours(|allocation| &allocation.requested);
        let is_whole = |allocation: &Allocation| allocation.part.is_none();
        let runs = usage.runs_of(&group.whole);
        let works = measured_work::by_allocation(ledger, runs, &group.whole, is_whole);
        let gpus = |allocation: &Allocation| allocation.gpus.as_f64();
        let work = measured_work::sum_within_held(ledger, works, gpus);
        let runs = usage.power_runs_of(&group.whole);
        let drawn = measured_work::by_allocation(ledger, runs, &group.whole, is_whole);
        let all = || {
            group
                .whole
                .iter()
                .chain(&group.parts)
                .map(|index| &ledger.allocations[*index])
        };
        let top = |allocation: &Allocation| {
            let top = allocation.top.clone();
            (top.namespace, top.kind, top.name)
        };
        Self {
            held,
            bridged: gpu_hours(|allocation| &allocation.gaps.bridged),
            unseen: gpu_hours(|allocation| &allocation.gaps.unseen),
            waited: (requested - held).max(0.0),
            measured: work.seconds / 3600.0,
            used: work.sum / 100.0 / 3600.0,
            // One kWh is 3.6 million watt-seconds.
            energy: (!drawn.is_empty())
                .then(|| drawn.values().map(|work| work.sum).sum::<f64>() / 3_600_000.0),
            powered: drawn.values().map(|work| work.seconds).sum::<f64>() / 3600.0,
            workloads: all()
                .filter(|allocation| allocation.held.iter().any(|held| *held))
                .map(top)
                .collect(),
            parts: PartHours::by_part(ledger, usage, &group.parts),
        }
    }

    /// Returns the measured time, weighted by utilization, or `None` if devices were held but never
    /// measured.
    pub fn used(&self) -> Option<f64> {
        (self.measured > 0.0 || self.held == 0.0).then_some(self.used)
    }

    /// Returns the part of the measured time that was not used.
    pub fn wasted(&self) -> Option<f64> {
        Some((self.measured - self.used()?).max(0.0))
    }

    /// Returns the part of the held time that was not measured.
    pub fn unknown(&self) -> f64 {
        (self.held - self.measured).max(0.0)
    }

    /// Returns the used percentage of the measured time, or `None` without measurements.
    pub fn utilization(&self) -> Option<Percent> {
        Percent::from_ratio(self.used, self.measured)
    }

    pub fn add(&mut self, other: Self) {
        self.held += other.held;
        self.bridged += other.bridged;
        self.unseen += other.unseen;
        self.waited += other.waited;
        self.measured += other.measured;
        self.used += other.used;
        self.energy = match (self.energy, other.energy) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        self.powered += other.powered;
        self.workloads.extend(other.workloads);
        for (name, hours) in &other.parts {
            self.parts
                .entry(name.clone())
                .or_insert_with(PartHours::none)
                .add(hours);
        }
    }

    /// Converts slices to GPU-hours, or returns `None` if any fraction is unknown.
    pub fn part_equivalent(&self) -> Option<f64> {
        self.parts
            .values()
            .try_fold(0.0, |sum, hours| Some(sum + hours.equivalent?))
    }
}

/// Utilization, memory and power of one device while a workload held it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceWork {
    /// Sum of percent times seconds; the next field is the sum of seconds.
    sum: f64,
    pub seconds: f64,
    pub memory_peak: Option<Mebibytes>,
    pub memory_total: Option<Mebibytes>,
    /// Model name from the exporter.
    pub model: Option<String>,
    watts: f64,
    watt_samples: f64,
    /// True if other workloads also used the device. The values then include their work.
    pub shared: bool,
}

impl DeviceWork {
    /// Returns the mean over the measured seconds.
    pub fn utilization(&self) -> Option<Percent> {
        (self.seconds > 0.0).then(|| Percent(self.sum / self.seconds))
    }

    pub fn power(&self) -> Option<Watts> {
        (self.watt_samples > 0.0).then(|| Watts(self.watts / self.watt_samples))
    }
}

/// Work of devices by node and device id.
pub type Works = BTreeMap<(String, DeviceId), DeviceWork>;

/// Adds the work of a group's devices during the ledger's window.
pub fn add_work(
    works: &mut Works,
    ledger: &AllocationHistory,
    usage: &Usage,
    group: impl Fn(&Allocation) -> bool,
) {
    let members = ledger.group(group);
    let name = |device: usize| {
        let identity = &usage.devices[device];
        // A device without number and UUID is the only one of its node.
        let id = DeviceId {
            index: identity.index.unwrap_or(0),
            slice: identity.slice.clone(),
        };
        (identity.node.clone(), id)
    };
    let members: BTreeSet<usize> = members.whole.union(&members.parts).copied().collect();
    let is_share = |index: &usize| {
        ledger.allocations[*index]
            .part
            .as_ref()
            .is_some_and(|(part, _)| !part.instance)
    };
    for run in usage.runs_of(&members) {
        let work = works.entry(name(run.device)).or_default();
        work.shared |= run.holders.iter().any(is_share);
        work.model = work
            .model
            .take()
            .or_else(|| usage.models[run.device].clone());
        for (point, seconds) in run.weighted() {
            work.sum += point.value * seconds;
            work.seconds += seconds;
        }
    }
    for (device, peak) in usage.peaks(&members) {
        let work = works.entry(name(device)).or_default();
        work.memory_peak = highest(work.memory_peak.into_iter().chain([peak.used]));
        work.memory_total = highest(work.memory_total.into_iter().chain(peak.total));
    }
    for (device, Watts(watts)) in usage.power(&members) {
        let work = works.entry(name(device)).or_default();
        work.watts += watts;
        work.watt_samples += 1.0;
    }
}

/// A recommended change, with the values behind it.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// `idle` of `all` devices did nothing.
    FewerGpus {
        idle: usize,
        all: usize,
        /// True if one pod held all of them.
        alone: bool,
    },
    /// The work and the memory would fit into a slice of a device.
    Slice { memory_peak: Mebibytes },
    /// One device drew more or less power than the others. Utilization cannot show this, because
    /// the ranks that wait for it spin.
    Straggler {
        device: String,
        power: Watts,
        others: Watts,
    },
    /// Utilization was high, but power as low as on an idle device, so a kernel waited for an event
    /// that never came.
    Stuck { devices: usize, power: Watts },
    /// A server had no requests for most of the time. Both values are GPU-hours.
    NoRequests { idle: f64, held: f64 },
}

/// A device with a lower utilization counts as idle.
const IDLE: Percent = Percent(5.0);
/// Used fraction of a device's memory that fits into one eighth of the device, with a margin.
const EIGHTH: f64 = 0.12;

/// Distribution of a workload over devices and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Highest number of devices that the workload held at one time.
    pub most: u64,
    /// Number of pods that the workload ever had.
    pub pods: usize,
}

/// Minimum fraction of time without requests for advice about a server.
const MOSTLY: f64 = 0.5;

/// Returns advice for a workload. `limit` is the power limit of the device model, and `serving` the
/// request statistics if the workload is a server.
pub fn advice(
    works: &Works,
    spread: Spread,
    limit: Option<Watts>,
    serving: Option<ServingHours>,
) -> Vec<Advice> {
    let mostly_idle = serving.filter(|sum| sum.held > 0.0 && sum.idle >= sum.held * MOSTLY);
    let mut advice: Vec<Advice> = mostly_idle
        .map(|ServingHours { idle, held, .. }| Advice::NoRequests { idle, held })
        .into_iter()
        .collect();
    advice.extend(device_advice(works, spread, limit));
    advice
}

fn device_advice(works: &Works, spread: Spread, limit: Option<Watts>) -> Vec<Advice> {
    let measured: Vec<(&(String, DeviceId), Percent)> = works
        .iter()
        .filter_map(|(name, work)| Some((name, work.utilization()?)))
        .collect();
    let mut advice = Vec::new();
    // Advice about the whole job requires measurements of all its devices, by this job alone.
    if measured.is_empty() || measured.len() < works.len() || works.values().any(|work| work.shared)
    {
        return advice;
    }
    let idle = measured
        .iter()
        .filter(|(_, utilization)| *utilization < IDLE)
        .count();
    // Devices that a job left when it moved look idle, because they were while it ran elsewhere.
    let stayed = measured.len() as u64 <= spread.most;
    if idle > 0 && idle < measured.len() && stayed {
        advice.push(Advice::FewerGpus {
            idle,
            all: measured.len(),
            alone: spread.pods == 1,
        });
    }
    let small = works.values().all(|work| {
        work.memory_peak
            .zip(work.memory_total)
            .is_some_and(|(peak, total)| peak.0 < total.0 * EIGHTH)
    });
    if let Some(memory_peak) = highest(works.values().filter_map(|work| work.memory_peak))
        && measured.len() == 1
        && works.keys().all(|(_, device)| device.slice.is_none())
        && small
        && measured[0].1 < Percent(30.0)
    {
        advice.push(Advice::Slice { memory_peak });
    }
    advice.extend(straggler(works));
    // Spinning kernels keep the utilization high but draw little power.
    let stuck: Vec<Watts> = works
        .values()
        .filter(|work| {
            work.utilization()
                .is_some_and(|utilization| utilization > Percent(95.0))
        })
        .filter_map(|work| {
            work.power()
                .filter(|power| limit.is_some_and(|limit| power.0 < limit.0 * 0.35))
        })
        .collect();
    if let Some(power) = mean(stuck.iter().copied()) {
        advice.push(Advice::Stuck {
            devices: stuck.len(),
            power,
        });
    }
    advice
}

/// Minimum deviation from the power of the other devices, as a fraction and in watts. A straggler
/// exceeds both.
const ANOTHER_POWER: (f64, f64) = (0.2, 30.0);

/// Returns the busy device whose power differs most from the median of the others. With fewer than
/// three devices, the outlier cannot be identified.
fn straggler(works: &Works) -> Option<Advice> {
    let busy = works.iter().filter(|(_, work)| {
        work.utilization()
            .is_some_and(|utilization| utilization >= IDLE)
    });
    let mut drawn: Vec<(String, f64)> = busy
        .filter_map(|((node, device), work)| Some((format!("{node}/{device}"), work.power()?.0)))
        .collect();
    if drawn.len() < 3 {
        return None;
    }
    drawn.sort_by(|a, b| a.1.total_cmp(&b.1));
    let median = drawn[drawn.len() / 2].1;
    let distance = |drawing: &(String, f64)| (drawing.1 - median).abs();
    let (device, power) = drawn
        .into_iter()
        .max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let (share, watts) = ANOTHER_POWER;
    ((power - median).abs() > (median * share).max(watts)).then_some(Advice::Straggler {
        device,
        power: Watts(power),
        others: Watts(median),
    })
}

mod coverage;

#[cfg(test)]
mod conservation;
#[cfg(test)]
mod generated;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;
