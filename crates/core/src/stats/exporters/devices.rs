//! Builds the readings of all devices, with the pods that hold them, from samples of one instant.
//! Impossible values are dropped and counted.

use std::collections::{BTreeMap, BTreeSet};

use super::device_numbers::DeviceNumbers;
use super::dialect::{Quantity, metric_of};
use super::identity::{ApiFacts, IdentityReader, SeriesDevice};
use super::xid;
use crate::model::facts::reading::{PodKey, Reading, Readings};
use crate::model::facts::unit::is_instance;
use crate::model::values::natural;
use crate::model::{Celsius, Inventory, Mebibytes, NodeUsage, Percent, Series, Watts};

/// Series from a metrics server for one instant.
#[derive(Clone, Debug, Default)]
pub struct ExporterReading {
    /// Current values of gauges.
    pub values: Vec<Series>,
    /// Ages in seconds of utilization samples that are older than two scrape intervals.
    pub stale_ages: Vec<Series>,
}

/// Values of one device by quantity, as (rank, whether the series names a pod, value).
#[derive(Default)]
struct DeviceValues {
    identity: Option<SeriesDevice>,
    model: Option<String>,
    values: BTreeMap<Quantity, Vec<(u8, bool, f64)>>,
    holders: BTreeSet<PodKey>,
}

/// Ages of a device's utilization samples, including samples with impossible values.
#[derive(Clone, Copy, Default)]
struct SampleAges {
    /// True if at least one sample is at most two scrape intervals old.
    is_fresh: bool,
    /// Age of the newest stale sample in seconds.
    stale: Option<f64>,
}

/// Builds the readings of the cluster's devices from samples of one instant.
pub fn read(samples: &ExporterReading, inventory: &Inventory, facts: &ApiFacts) -> Readings {
    let reader = IdentityReader::new(facts, &samples.values);
    let numbers = DeviceNumbers::from_devices(
        samples
            .values
            .iter()
            .filter_map(|series| reader.device(series)),
    );
    let mut tally = SampleTally::new(&samples.stale_ages);
    for series in &samples.values {
        tally.add(series, &reader, &numbers);
    }
    // For partitioned devices, exporters report some metrics for the whole device too.
    tally.remove_partitioned(&numbers);
    let mut devices: Vec<Reading> = tally
        .devices
        .into_iter()
        .map(|(device, values)| {
            let ages = tally.ages.get(&device).copied().unwrap_or_default();
            let board = (device.node.clone(), numbers.number(&device));
            let board_power = tally
                .boards
                .get(&board)
                .and_then(|board| board.value(Quantity::Power));
            let reading = reading(device, values, ages, &numbers);
            let is_fresh_slice = reading.slice.is_some() && !reading.stale;
            let board_power = board_power.filter(|_| is_fresh_slice).map(Watts);
            Reading {
                board_power,
                ..reading
            }
        })
        .collect();
    devices.sort_by(|a, b| {
        let node = natural::compare(&a.node, &b.node);
        node.then_with(|| (a.index, &a.slice, &a.uuid).cmp(&(b.index, &b.slice, &b.uuid)))
    });
    let hosts: BTreeMap<&str, &NodeUsage> = inventory
        .hosts
        .iter()
        .map(|host| (host.name(), host))
        .collect();
    for node_devices in devices.chunk_by_mut(|a, b| a.node == b.node) {
        match hosts.get(node_devices[0].node.as_str()) {
            Some(host) => attribute(host, node_devices),
            // Without the node in the inventory, rely on the exporter: a device is held if a series
            // names a pod.
            None => node_devices
                .iter_mut()
                .for_each(|reading| reading.held = (!reading.holders.is_empty()).then_some(true)),
        }
    }
    let mut readings = Readings::new(devices, tally.samples, tally.dropped, tally.elsewhere);
    readings.unmatched = tally.unmatched;
    readings
}

/// Samples by device, with counts.
#[derive(Default)]
struct SampleTally<'m> {
    /// Ages of stale samples in seconds, by the labels of their series.
    stale: BTreeMap<Vec<(&'m str, &'m str)>, f64>,
    /// Ages of utilization samples by device.
    ages: BTreeMap<SeriesDevice, SampleAges>,
    /// Values by device.
    devices: BTreeMap<SeriesDevice, DeviceValues>,
    /// Power of partitioned boards, by node and number.
    boards: BTreeMap<(String, Option<u32>), DeviceValues>,
    samples: u64,
    /// Number of samples with a physically impossible value.
    dropped: u64,
    /// Number of samples from devices on unknown nodes.
    elsewhere: u64,
    /// Labels of these samples that name no node.
    unmatched: BTreeSet<String>,
}

impl<'m> SampleTally<'m> {
    fn new(stale_ages: &'m [Series]) -> Self {
        Self {
            stale: stale_ages
                .iter()
                .filter_map(|series| Some((series.without_name(), series.last()?.value)))
                .collect(),
            ..Self::default()
        }
    }

    fn add(&mut self, series: &'m Series, reader: &IdentityReader<'_>, numbers: &DeviceNumbers) {
        let Some((metric, point)) = metric_of(series.name()).zip(series.last()) else {
            return;
        };
        let identity = reader.device(series);
        // Record the age before checking the value, because a stale series may contain an
        // impossible value.
        if let Some(identity) = identity
            .clone()
            .filter(|_| metric.quantity == Quantity::Utilization)
        {
            self.add_age(numbers.key(identity), series);
        }
        let Some(value) = metric.read(point.value) else {
            self.dropped += 1;
            return;
        };
        let Some(identity) = identity else {
            self.elsewhere += 1;
            if let Some((label, value)) = reader.unmatched(series) {
                self.unmatched.insert(format!("{label}=\"{value}\""));
            }
            return;
        };
        self.samples += 1;
        let reports =
            identity.reports(series, metric.quantity) && identity.describes(metric, value);
        let rank = identity.rank(metric);
        let holder = reader.holder(series, &identity.node);
        if identity.slice.is_some() && metric.quantity == Quantity::Power {
            self.add_board_power(&identity, numbers, (rank, holder.is_some(), value));
        }
        let device = self.device(identity, numbers);
        if !reports {
            return;
        }
        device.model = device
            .model
            .take()
            .or_else(|| IdentityReader::model(series).map(ToOwned::to_owned));
        device
            .values
            .entry(metric.quantity)
            .or_default()
            .push((rank, holder.is_some(), value));
        device
            .holders
            .extend(holder.into_iter().flat_map(|pod| reader.users(pod)));
    }

    /// Adds the power of a board, which its instances repeat.
    fn add_board_power(
        &mut self,
        device: &SeriesDevice,
        numbers: &DeviceNumbers,
        value: (u8, bool, f64),
    ) {
        let board = (device.node.clone(), numbers.number(device));
        let values = &mut self.boards.entry(board).or_default().values;
        values.entry(Quantity::Power).or_default().push(value);
    }

    fn add_age(&mut self, device: SeriesDevice, series: &'m Series) {
        let ages = self.ages.entry(device).or_default();
        match self.stale.get(&series.without_name()) {
            None => ages.is_fresh = true,
            Some(age) => ages.stale = Some(ages.stale.map_or(*age, |stale| stale.min(*age))),
        }
    }

    fn device(
        &mut self,
        series_device: SeriesDevice,
        numbers: &DeviceNumbers,
    ) -> &mut DeviceValues {
        let device = self
            .devices
            .entry(numbers.key(series_device.clone()))
            .or_default();
        if device
            .identity
            .as_ref()
            .is_none_or(|identity| identity.uuid.is_none())
        {
            device.identity = Some(series_device);
        }
        device
    }

    /// Removes devices that are partitioned into instances, and keeps the instances.
    fn remove_partitioned(&mut self, numbers: &DeviceNumbers) {
        let partitioned: BTreeSet<(String, Option<u32>)> = self
            .devices
            .keys()
            .filter(|device| device.slice.is_some())
            .map(|device| (device.node.clone(), numbers.number(device)))
            .collect();
        let boards = &mut self.boards;
        self.devices.retain(|device, values| {
            let board = (device.node.clone(), numbers.number(device));
            let keeps = device.slice.is_some() || !partitioned.contains(&board);
            if !keeps && let Some(power) = values.values.remove(&Quantity::Power) {
                let values = &mut boards.entry(board).or_default().values;
                values.entry(Quantity::Power).or_default().extend(power);
            }
            keeps
        });
    }
}

impl DeviceValues {
    /// Returns the value of the metric with the lowest rank. Exporters repeat the value of a shared
    /// device for each pod, so a series without a pod takes precedence. Otherwise returns the
    /// highest value, because the copies differ only in their scrape time.
    fn value(&self, quantity: Quantity) -> Option<f64> {
        let candidates = self.values.get(&quantity)?;
        let best = candidates.iter().map(|(rank, ..)| *rank).min()?;
        let best_ranked = || candidates.iter().filter(move |(rank, ..)| *rank == best);
        let unattributed = best_ranked()
            .filter(|(_, has_holder, _)| !has_holder)
            .map(|(.., value)| *value)
            .reduce(f64::max);
        unattributed.or_else(|| best_ranked().map(|(.., value)| *value).reduce(f64::max))
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
        if let Some(code) = codes.filter(|code| xid::is_fatal(*code)).max() {
            return Some(format!("XID {code}"));
        }
        if self.value(Quantity::RowRemapFailure) == Some(1.0) {
            return Some("row remapping failed".to_owned());
        }
        let fabric = self.value(Quantity::FabricHealth).unwrap_or_default();
        if fabric > 1.0 {
            let state = if fabric < 3.0 { "unhealthy" } else { "limited" };
            return Some(format!("fabric {state}"));
        }
        (self.value(Quantity::Health) == Some(0.0)).then(|| "unhealthy".to_owned())
    }
}

fn reading(
    key: SeriesDevice,
    values: DeviceValues,
    ages: SampleAges,
    numbers: &DeviceNumbers,
) -> Reading {
    let index = numbers.number(&key).unwrap_or(0);
    let age = ages.stale.filter(|_| !ages.is_fresh);
    let stale = age.is_some();
    let value = |quantity| values.value(quantity).filter(|_| !stale);
    let used = value(Quantity::MemoryUsed);
    let free = value(Quantity::MemoryFree);
    // DCGM's FB_TOTAL includes memory that the driver reserves and programs cannot use.
    let total = used
        .zip(free)
        .map(|(used, free)| used + free)
        .or_else(|| value(Quantity::MemoryTotal));
    Reading {
        index,
        uuid: values
            .identity
            .as_ref()
            .and_then(|identity| identity.uuid.clone()),
        slice: key.slice,
        model: values.model.clone(),
        held: None,
        utilization: value(Quantity::Utilization).map(Percent),
        memory_copy: value(Quantity::MemoryCopy).map(Percent),
        memory_used: used.map(Mebibytes),
        memory_total: total.map(Mebibytes),
        power: value(Quantity::Power).map(Watts),
        board_power: None,
        power_limit: value(Quantity::PowerLimit).map(Watts),
        temperature: value(Quantity::Temperature).map(Celsius),
        fault: values.fault(),
        sample_age_seconds: age,
        stale,
        node: key.node,
        holders: values.holders.into_iter().collect(),
    }
}

/// Decides which devices of a node are held, after checking the pods that the exporter names
/// against the API server. If the node is full, all its devices are held, even if no series names a
/// pod.
fn attribute(host: &NodeUsage, devices: &mut [Reading]) {
    let attributed = |namespace: &str, pod: &str| {
        devices
            .iter()
            .filter(|reading| reading.is_held_by(namespace, pod))
            .count() as u64
    };
    let usage_known =
        host.gpus.used.is_some() && host.slices.values().all(|count| count.used.is_some());
    // If series name a device for every device that pods hold, devices without a pod are free.
    let complete = usage_known
        && host.holders.iter().all(|holder| {
            let instances: u64 = holder
                .slices
                .iter()
                .filter(|(name, _)| is_instance(name))
                .map(|(_, count)| *count)
                .sum();
            // A pod that holds only shares must still be named at least once.
            attributed(&holder.namespace, &holder.pod) >= (holder.gpus.0 + instances).max(1)
        });
    let whole_devices = devices
        .iter()
        .filter(|reading| reading.slice.is_none())
        .count() as u64;
    // The exporter may report more devices than the node offers.
    let full = host.gpus.total > 0
        && host
            .gpus
            .used
            .is_some_and(|used| used >= host.gpus.allocatable().max(whole_devices));
    let nameless = devices.iter().all(|reading| reading.holders.is_empty());
    // If one pod holds the whole node, it holds every device, even if no series names the pod.
    let only = match host.holders.as_slice() {
        [sole_holder] if full && nameless && sole_holder.gpus.0 >= whole_devices => Some((
            sole_holder.namespace.to_string(),
            sole_holder.pod.to_string(),
        )),
        _ => None,
    };
    for reading in devices {
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

#[cfg(test)]
mod tests;
