//! Sums GPU-hours of a group: held, measured, used, wasted, and the energy drawn. What was not
//! measured is neither used nor wasted.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationGroup, AllocationHistory};
use super::part_hours::PartHours;
use super::serving_hours::ServingHours;
use super::usage::Usage;
use crate::model::values::units::{highest, mean};
use crate::model::{DeviceId, Mebibytes, Percent, Watts};

/// GPU-hours of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuHours {
    /// Held by a pod, as kube-state-metrics saw it.
    pub held: f64,
    /// Requested and not held: waiting.
    pub waited: f64,
    /// Of those held, the part that exporters measured.
    pub measured: f64,
    /// Measured time by utilization: an hour at 40 % is 0.4.
    used: f64,
    /// kWh, as far as it was measured; `None` when nothing was.
    pub energy: Option<f64>,
    pub workloads: BTreeSet<(String, String, String)>,
    /// Parts of devices by name, which are in none of the sums above.
    pub parts: BTreeMap<String, PartHours>,
}

impl GpuHours {
    /// Of the part of a ledger's time that a group held devices.
    pub fn of(
        ledger: &AllocationHistory,
        usage: &Usage,
        group: impl Fn(&Allocation) -> bool,
    ) -> Self {
        Self::of_group(ledger, usage, &ledger.group(group))
    }

    /// Of the part of a ledger's time that these allocations held devices.
    pub fn of_group(ledger: &AllocationHistory, usage: &Usage, own: &AllocationGroup) -> Self {
        let tenures = || own.whole.iter().map(|index| &ledger.tenures[*index]);
        // Time in which nobody looked is in no sum: neither held, nor measured, nor used.
        let each = ledger.slot as f64 / 3_600_000.0;
        let count = |slots: fn(&Allocation) -> &[bool]| -> f64 {
            let of = |tenure: &Allocation| {
                let seen = slots(tenure)
                    .iter()
                    .zip(&ledger.observed)
                    .filter(|(held, observed)| **held && **observed)
                    .count();
                seen as f64 * tenure.gpus.as_f64()
            };
            tenures().map(of).sum::<f64>() * each
        };
        let (held, requested) = (
            count(|tenure| &tenure.held),
            count(|tenure| &tenure.requested),
        );
        let looked = |at: i64| ledger.slot_of(at).is_some_and(|slot| ledger.observed[slot]);
        let samples = || {
            let all = usage
                .runs_of(&own.whole)
                .flat_map(|run| run.values.iter().map(|point| (run.seconds, point)));
            all.filter(|(_, point)| looked(point.at))
        };
        let all = || {
            own.whole
                .iter()
                .chain(&own.parts)
                .map(|index| &ledger.tenures[*index])
        };
        let top = |tenure: &Allocation| {
            (
                tenure.top.namespace.clone(),
                tenure.top.kind.clone(),
                tenure.top.name.clone(),
            )
        };
        Self {
            held,
            waited: (requested - held).max(0.0),
            measured: samples().map(|(seconds, _)| seconds).sum::<f64>() / 3600.0,
            used: samples()
                .map(|(seconds, point)| seconds * point.value / 100.0)
                .sum::<f64>()
                / 3600.0,
            energy: usage.energy(&own.whole, &looked),
            workloads: all()
                .filter(|tenure| tenure.held.iter().any(|held| *held))
                .map(top)
                .collect(),
            parts: PartHours::of(ledger, usage, &own.parts),
        }
    }

    /// Returns measured time by utilization; `None` where devices were held and none was measured.
    pub fn used(&self) -> Option<f64> {
        (self.measured > 0.0 || self.held == 0.0).then_some(self.used)
    }

    /// Returns the time measured and not used.
    pub fn wasted(&self) -> Option<f64> {
        Some((self.measured - self.used()?).max(0.0))
    }

    /// Returns the time held and not measured.
    pub fn unknown(&self) -> f64 {
        (self.held - self.measured).max(0.0)
    }

    /// Returns how much of the measured time was used; `None` where nothing was measured.
    pub fn utilization(&self) -> Option<Percent> {
        Percent::of_whole(self.used, self.measured)
    }

    pub fn add(&mut self, other: Self) {
        self.held += other.held;
        self.waited += other.waited;
        self.measured += other.measured;
        self.used += other.used;
        self.energy = match (self.energy, other.energy) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        self.workloads.extend(other.workloads);
        for (name, hours) in &other.parts {
            self.parts
                .entry(name.clone())
                .or_insert_with(PartHours::none)
                .add(hours);
        }
    }

    /// Returns the GPU-hours that the parts are worth; `None` where the fraction of one is not
    /// known.
    pub fn part_equivalent(&self) -> Option<f64> {
        self.parts
            .values()
            .try_fold(0.0, |all, hours| Some(all + hours.equivalent?))
    }

    /// Returns how much of all that was held was measured, parts by their fraction; one of unknown
    /// fraction counts like a device. `None` where nothing was held.
    pub fn covered(&self) -> Option<Percent> {
        let weighed = |hours: &PartHours| {
            let fraction = hours.fraction().unwrap_or(1.0);
            (
                hours.measured.min(hours.held) * fraction,
                hours.held * fraction,
            )
        };
        let whole = (self.measured.min(self.held), self.held);
        let (measured, held) = self
            .parts
            .values()
            .map(weighed)
            .fold(whole, |(a, b), (measured, held)| (a + measured, b + held));
        Percent::of_whole(measured, held)
    }
}

/// What one device did for a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceWork {
    /// Sum of percent by seconds, and seconds.
    sum: f64,
    pub seconds: f64,
    pub memory_peak: Option<Mebibytes>,
    pub memory_total: Option<Mebibytes>,
    /// As its exporter calls it.
    pub model: Option<String>,
    watts: f64,
    watt_looks: f64,
    /// True where others used the device as well: what it did is not this workload's alone.
    pub shared: bool,
}

impl DeviceWork {
    /// Returns the mean over the seconds measured.
    pub fn utilization(&self) -> Option<Percent> {
        (self.seconds > 0.0).then(|| Percent(self.sum / self.seconds))
    }

    pub fn power(&self) -> Option<Watts> {
        (self.watt_looks > 0.0).then(|| Watts(self.watts / self.watt_looks))
    }
}

/// Devices by node and what they are called there.
pub type Works = BTreeMap<(String, DeviceId), DeviceWork>;

/// Adds what devices did for a group within a ledger's time.
pub fn add_work(
    works: &mut Works,
    ledger: &AllocationHistory,
    usage: &Usage,
    group: impl Fn(&Allocation) -> bool,
) {
    let own = ledger.group(group);
    let name = |device: usize| {
        let place = &usage.devices[device];
        // Usage numbers every device; one that tells neither number nor UUID is the only one of its
        // node.
        let id = DeviceId {
            index: place.index.unwrap_or(0),
            slice: place.slice.clone(),
        };
        (place.node.clone(), id)
    };
    let own: BTreeSet<usize> = own.whole.union(&own.parts).copied().collect();
    let is_share = |index: &usize| {
        ledger.tenures[*index]
            .part
            .as_ref()
            .is_some_and(|(part, _)| !part.instance)
    };
    for run in usage.runs_of(&own) {
        let work = works.entry(name(run.device)).or_default();
        work.shared |= run.holders.iter().any(is_share);
        work.model = work
            .model
            .take()
            .or_else(|| usage.models[run.device].clone());
        for point in &run.values {
            work.sum += point.value * run.seconds;
            work.seconds += run.seconds;
        }
    }
    for (device, peak) in usage.peaks(&own) {
        let work = works.entry(name(device)).or_default();
        work.memory_peak = highest(work.memory_peak.into_iter().chain([peak.used]));
        work.memory_total = highest(work.memory_total.into_iter().chain(peak.total));
    }
    for (device, Watts(watts)) in usage.power(&own) {
        let work = works.entry(name(device)).or_default();
        work.watts += watts;
        work.watt_looks += 1.0;
    }
}

/// What somebody should change, with what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// So many of all did nothing.
    FewerGpus {
        idle: usize,
        all: usize,
        /// One pod had all of them.
        alone: bool,
    },
    /// All of the work and its memory would fit into a part of a device.
    Slice { memory_peak: Mebibytes },
    /// One device drew another power than its peers. Its utilization says nothing: those that wait
    /// for it spin.
    Straggler {
        device: String,
        power: Watts,
        others: Watts,
    },
    /// Busy by its utilization and idle by its power: a kernel that waits for something that never
    /// comes.
    Stuck { devices: usize, power: Watts },
    /// A server of which nothing was asked for most of the time. GPU-hours.
    NoRequests { idle: f64, held: f64 },
}

/// Below this a device did nothing.
const IDLE: Percent = Percent(5.0);
/// Share of a device's memory that a slice of an eighth has room for.
const EIGHTH: f64 = 0.12;

/// How a workload was spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Devices that it held at the same time, at most.
    pub most: u64,
    /// Pods that it ever had.
    pub pods: usize,
}

/// Share of a server's time without requests from which it is worth saying.
const MOSTLY: f64 = 0.5;

/// Returns what is worth saying. `limit` is what a device may draw, by its model; `serving` what a
/// server told of its requests.
pub fn advice(
    works: &Works,
    spread: Spread,
    limit: Option<Watts>,
    serving: Option<ServingHours>,
) -> Vec<Advice> {
    let mostly_idle = serving.filter(|sum| sum.held > 0.0 && sum.idle >= sum.held * MOSTLY);
    let mut found: Vec<Advice> = mostly_idle
        .map(|ServingHours { idle, held, .. }| Advice::NoRequests { idle, held })
        .into_iter()
        .collect();
    found.extend(of_devices(works, spread, limit));
    found
}

fn of_devices(works: &Works, spread: Spread, limit: Option<Watts>) -> Vec<Advice> {
    let known: Vec<(&(String, DeviceId), Percent)> = works
        .iter()
        .filter_map(|(name, work)| Some((name, work.utilization()?)))
        .collect();
    let mut found = Vec::new();
    // Who knows half of the devices knows nothing of the job.
    if known.is_empty() || known.len() < works.len() || works.values().any(|work| work.shared) {
        return found;
    }
    let idle = known
        .iter()
        .filter(|(_, utilization)| *utilization < IDLE)
        .count();
    // One that moved has left devices behind, which did nothing for the time it was elsewhere.
    let stayed = known.len() as u64 <= spread.most;
    if idle > 0 && idle < known.len() && stayed {
        found.push(Advice::FewerGpus {
            idle,
            all: known.len(),
            alone: spread.pods == 1,
        });
    }
    let small = works.values().all(|work| {
        work.memory_peak
            .zip(work.memory_total)
            .is_some_and(|(peak, total)| peak.0 < total.0 * EIGHTH)
    });
    if let Some(memory_peak) = highest(works.values().filter_map(|work| work.memory_peak))
        && known.len() == 1
        && works.keys().all(|(_, device)| device.slice.is_none())
        && small
        && known[0].1 < Percent(30.0)
    {
        found.push(Advice::Slice { memory_peak });
    }
    found.extend(straggler(works));
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
        found.push(Advice::Stuck {
            devices: stuck.len(),
            power,
        });
    }
    found
}

/// Shares of the peers' power, and watts beside it, by which a device differs at least.
const ANOTHER_POWER: (f64, f64) = (0.2, 30.0);

/// Returns the busy device whose power differs most from that of its peers; of fewer than three
/// nobody knows which is the odd one.
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
    let others = drawn[drawn.len() / 2].1;
    let distance = |one: &(String, f64)| (one.1 - others).abs();
    let (device, power) = drawn
        .into_iter()
        .max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let (share, watts) = ANOTHER_POWER;
    ((power - others).abs() > (others * share).max(watts)).then_some(Advice::Straggler {
        device,
        power: Watts(power),
        others: Watts(others),
    })
}

#[cfg(test)]
mod tests;
