//! What the devices of a cluster measure now: each device once, with its node and the pods that
//! hold it. A missing value is unknown, never zero.

use std::collections::{BTreeMap, BTreeSet};

use super::device::DeviceId;
use crate::model::values::units;
use crate::model::values::units::{Celsius, Mebibytes, Percent, UnitValue, Watts};

/// A pod as (namespace, name).
pub type PodKey = (String, String);

/// One device, or one instance of a device that is cut into several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub node: String,
    /// The device's number on its node.
    pub index: u32,
    pub uuid: Option<String>,
    /// MIG profile or partition, with its number on the device.
    pub slice: Option<(String, u32)>,
    /// As the exporter calls the device.
    pub model: Option<String>,
    /// Pods that hold it; several where it is shared.
    pub holders: Vec<PodKey>,
    /// Whether a pod holds it; `None` when nobody can tell.
    pub held: Option<bool>,
    /// The time in which something ran on it.
    pub utilization: Option<Percent>,
    /// The time in which its memory was read or written.
    pub memory_copy: Option<Percent>,
    pub memory_used: Option<Mebibytes>,
    /// What programs can use, so without what the driver keeps.
    pub memory_total: Option<Mebibytes>,
    pub power: Option<Watts>,
    pub power_limit: Option<Watts>,
    pub temperature: Option<Celsius>,
    /// Why it is broken, when its exporter says so.
    pub fault: Option<String>,
    /// How old the newest sample of its utilization is, where that is more than two scrapes.
    pub sample_age_seconds: Option<f64>,
    /// True when its newest sample is older than two scrapes; its values are unknown then.
    pub stale: bool,
}

impl Reading {
    pub(crate) fn is_held_by(&self, namespace: &str, pod: &str) -> bool {
        self.holders
            .iter()
            .any(|(ours, name)| ours == namespace && name == pod)
    }

    /// Returns the device's name on its node.
    pub fn id(&self) -> DeviceId {
        DeviceId {
            index: self.index,
            slice: self.slice.clone(),
        }
    }
}

/// All devices, and what was left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// By node, number and slice.
    pub devices: Vec<Reading>,
    /// Samples outside what is physically possible.
    pub dropped: u64,
    /// Samples that were used.
    pub samples: u64,
    /// Samples of devices in no node of this cluster.
    pub elsewhere: u64,
    /// Places among the devices by the pod that holds them.
    held_by: BTreeMap<PodKey, Vec<usize>>,
}

impl Readings {
    /// Of these devices.
    pub fn new(devices: Vec<Reading>, samples: u64, dropped: u64, elsewhere: u64) -> Self {
        let mut held_by: BTreeMap<PodKey, Vec<usize>> = BTreeMap::new();
        for (place, reading) in devices.iter().enumerate() {
            for holder in &reading.holders {
                held_by.entry(holder.clone()).or_default().push(place);
            }
        }
        Self {
            devices,
            dropped,
            samples,
            elsewhere,
            held_by,
        }
    }

    /// Means over the devices that pods of a namespace hold, each once.
    pub fn figures_of(&self, namespace: &str, pods: &[&str]) -> Figures {
        self.figures_of_all(pods.iter().map(|pod| (namespace, *pod)))
    }

    /// The same for pods of several namespaces.
    pub fn figures_of_all<'p>(&self, pods: impl Iterator<Item = (&'p str, &'p str)>) -> Figures {
        let places = |(namespace, pod): (&str, &str)| {
            self.held_by
                .get(&(namespace.to_owned(), pod.to_owned()))
                .into_iter()
                .flatten()
        };
        let places: BTreeSet<usize> = pods.flat_map(places).copied().collect();
        Figures::of(places.iter().map(|place| &self.devices[*place]))
    }
}

/// Means over devices, with what they rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Devices that were asked about.
    pub devices: u64,
    /// Those of them with a utilization.
    pub sampled: u64,
    /// Mean of those sampled.
    pub utilization: Option<Percent>,
    /// The lowest of them.
    pub lowest: Option<Percent>,
    /// Mean per device.
    pub memory_used: Option<Mebibytes>,
    pub memory_total: Option<Mebibytes>,
    /// Mean per device.
    pub power: Option<Watts>,
    /// Sum over the devices; `None` when one of them does not tell.
    pub power_in_all: Option<Watts>,
}

impl Figures {
    /// Of these devices.
    pub fn of<'a>(readings: impl Iterator<Item = &'a Reading> + Clone) -> Self {
        // Used and total must be of the same devices to stand beside each other.
        let both = |reading: &Reading| reading.memory_used.zip(reading.memory_total);
        let pairs = || readings.clone().filter_map(both);
        let memory_used = if pairs().next().is_some() {
            units::mean(pairs().map(|(used, _)| used))
        } else {
            mean(readings.clone(), |reading| reading.memory_used)
        };
        Self {
            devices: readings.clone().count() as u64,
            sampled: readings
                .clone()
                .filter(|reading| reading.utilization.is_some())
                .count() as u64,
            utilization: mean(readings.clone(), |reading| reading.utilization),
            lowest: units::lowest(readings.clone().filter_map(|reading| reading.utilization)),
            memory_used,
            memory_total: units::mean(pairs().map(|(_, total)| total)),
            power: mean(readings.clone(), |reading| reading.power),
            power_in_all: sum_of_all(readings.clone().map(|reading| reading.power)),
        }
    }
}

/// Returns the sum; `None` for no device at all, and when one of them does not tell.
fn sum_of_all(values: impl Iterator<Item = Option<Watts>>) -> Option<Watts> {
    let watts: Option<Vec<f64>> = values
        .map(|value| value.map(|Watts(watts)| watts))
        .collect();
    watts
        .filter(|watts| !watts.is_empty())
        .map(|watts| Watts(watts.iter().sum()))
}

fn mean<'a, U: UnitValue>(
    readings: impl Iterator<Item = &'a Reading>,
    value: fn(&Reading) -> Option<U>,
) -> Option<U> {
    units::mean(readings.filter_map(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_of_all_devices_or_unknown() {
        let total = |watts: &[Option<f64>]| {
            let readings: Vec<Reading> = watts
                .iter()
                .map(|watts| Reading {
                    power: watts.map(Watts),
                    ..Reading::default()
                })
                .collect();
            Figures::of(readings.iter()).power_in_all
        };
        // 300 + 250 + 62.
        assert_eq!(
            total(&[Some(300.0), Some(250.0), Some(62.0)]),
            Some(Watts(612.0))
        );
        assert_eq!((total(&[Some(300.0), None]), total(&[])), (None, None));
    }

    #[test]
    fn means_are_over_what_was_sampled() {
        let reading = |utilization: Option<f64>, used: Option<f64>| Reading {
            utilization: utilization.map(Percent),
            memory_used: used.map(Mebibytes),
            memory_total: used.map(|_| Mebibytes(100.0)),
            ..Reading::default()
        };
        let devices = [
            reading(Some(90.0), Some(40.0)),
            reading(None, None),
            reading(Some(30.0), Some(10.0)),
        ];
        let figures = Figures::of(devices.iter());
        assert_eq!((figures.devices, figures.sampled), (3, 2));
        assert_eq!(
            (figures.utilization, figures.lowest),
            (Some(Percent(60.0)), Some(Percent(30.0)))
        );
        assert_eq!(
            (figures.memory_used, figures.memory_total),
            (Some(Mebibytes(25.0)), Some(Mebibytes(100.0)))
        );
        let none = Figures::of(devices[1..2].iter());
        assert_eq!(
            (
                none.utilization,
                none.lowest,
                none.memory_used,
                none.sampled
            ),
            (None, None, None, 0)
        );
    }
}
