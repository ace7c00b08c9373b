//! Current readings of the devices in the cluster, with their nodes and holders. A missing value is
//! unknown, not zero.

use std::collections::{BTreeMap, BTreeSet};

use super::device::DeviceId;
use crate::model::values::units;
use crate::model::values::units::{Celsius, Mebibytes, Percent, UnitValue, Watts};

/// A pod as (namespace, name).
pub type PodKey = (String, String);

/// Current values of a device, or of one instance of a partitioned device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub node: String,
    /// Number of the device on its node.
    pub index: u32,
    pub uuid: Option<String>,
    /// MIG profile or partition type, and index of the instance on the device.
    pub slice: Option<(String, u32)>,
    /// Model name from the exporter.
    pub model: Option<String>,
    /// Pods that hold the device; a shared device has several.
    pub holders: Vec<PodKey>,
    /// True if a pod holds the device, or `None` if that is unknown.
    pub held: Option<bool>,
    /// Percentage of the time in which a kernel ran on the device.
    pub utilization: Option<Percent>,
    /// Percentage of the time in which the device memory was read or written.
    pub memory_copy: Option<Percent>,
    pub memory_used: Option<Mebibytes>,
    /// Memory that programs can use, without the memory that the driver reserves.
    pub memory_total: Option<Mebibytes>,
    /// `None` for an instance: only the power of its board is measured.
    pub power: Option<Watts>,
    /// Power of the board that this instance is a part of.
    pub board_power: Option<Watts>,
    pub power_limit: Option<Watts>,
    pub temperature: Option<Celsius>,
    /// Reason why the device is broken, if its exporter reports one.
    pub fault: Option<String>,
    /// Age of the newest utilization sample, or `None` if it is at most two scrape intervals old.
    pub sample_age_seconds: Option<f64>,
    /// True if the newest sample is older than two scrape intervals. The values are then unknown.
    pub stale: bool,
}

impl Reading {
    pub(crate) fn is_held_by(&self, namespace: &str, pod: &str) -> bool {
        self.holders
            .iter()
            .any(|(held_in, name)| held_in == namespace && name == pod)
    }

    /// Returns the id of the device on its node.
    pub fn id(&self) -> DeviceId {
        DeviceId {
            index: self.index,
            slice: self.slice.clone(),
        }
    }
}

/// Readings of all devices, with counts of the samples behind them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// Readings, sorted by node, number and slice.
    pub devices: Vec<Reading>,
    /// Number of samples that were omitted as physically impossible.
    pub dropped: u64,
    /// Number of samples that were used.
    pub samples: u64,
    /// Number of samples from nodes of other clusters.
    pub elsewhere: u64,
    /// Labels of those samples, as `Hostname="x"`, that name no node of this cluster.
    pub unmatched: BTreeSet<String>,
    /// Indexes into `devices` by the pod that holds the device.
    held_by: BTreeMap<PodKey, Vec<usize>>,
}

impl Readings {
    /// Creates the readings and indexes them by the pods that hold the devices.
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
            unmatched: BTreeSet::new(),
            held_by,
        }
    }

    /// Lists a few of the labels that name no node, for messages.
    pub fn unmatched_list(&self) -> String {
        const MAX: usize = 3;
        let shown: Vec<&str> = self
            .unmatched
            .iter()
            .take(MAX)
            .map(String::as_str)
            .collect();
        let more = if self.unmatched.len() > MAX {
            ", …"
        } else {
            ""
        };
        format!("{}{more}", shown.join(", "))
    }

    /// Computes means over the devices that these pods of one namespace hold. A device that several
    /// of them hold counts once.
    pub fn figures_of(&self, namespace: &str, pods: &[&str]) -> Figures {
        self.figures_of_all(pods.iter().map(|pod| (namespace, *pod)))
    }

    /// Computes means like `figures_of`, for pods as (namespace, name).
    pub fn figures_of_all<'p>(&self, pods: impl Iterator<Item = (&'p str, &'p str)>) -> Figures {
        let pods: BTreeSet<(&str, &str)> = pods.collect();
        let readings = self.held_by_pods(pods.iter().copied());
        let is_shared = |reading: &&&Reading| {
            let mut holders = reading.holders.iter();
            holders.any(|(namespace, pod)| !pods.contains(&(namespace.as_str(), pod.as_str())))
        };
        Figures {
            shared: readings.iter().filter(is_shared).count() as u64,
            ..Figures::from_readings(readings.iter().copied())
        }
    }

    /// Returns the readings of the devices that these pods hold, each once.
    pub fn held_by_pods<'p>(
        &self,
        pods: impl Iterator<Item = (&'p str, &'p str)>,
    ) -> Vec<&Reading> {
        let places = |(namespace, pod): (&str, &str)| {
            self.held_by
                .get(&(namespace.to_owned(), pod.to_owned()))
                .into_iter()
                .flatten()
        };
        let places: BTreeSet<usize> = pods.flat_map(places).copied().collect();
        places.iter().map(|place| &self.devices[*place]).collect()
    }
}

/// Means over several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of devices.
    pub devices: u64,
    /// Number of devices with known utilization.
    pub sampled: u64,
    /// Mean over the devices with known utilization.
    pub utilization: Option<Percent>,
    /// Lowest utilization of any device.
    pub lowest: Option<Percent>,
    /// Mean per device.
    pub memory_used: Option<Mebibytes>,
    pub memory_total: Option<Mebibytes>,
    /// Mean per device.
    pub power: Option<Watts>,
    /// Number of devices that other pods share, so that the values include the use of these pods.
    pub shared: u64,
    /// Sum over all devices, or `None` if the power of any device is unknown.
    pub power_in_all: Option<Watts>,
}

impl Figures {
    /// Computes the means of these readings.
    pub fn from_readings<'a>(readings: impl Iterator<Item = &'a Reading> + Clone) -> Self {
        // Used and total memory are comparable only over the same devices, so use those with both
        // values.
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
            shared: 0,
            power: mean(readings.clone(), |reading| reading.power),
            power_in_all: sum_of_all(readings.clone().map(|reading| reading.power)),
        }
    }
}

impl Figures {
    /// Computes the means of readings of whole nodes or clusters. Their power includes each board
    /// of an instance once. The power of one workload does not, because others may use the board.
    pub fn with_boards<'a>(readings: impl Iterator<Item = &'a Reading> + Clone) -> Self {
        let boards: BTreeMap<(&str, u32), Option<Watts>> = readings
            .clone()
            .filter(|reading| reading.slice.is_some())
            .map(|reading| ((reading.node.as_str(), reading.index), reading.board_power))
            .collect();
        let whole = readings
            .clone()
            .filter(|reading| reading.slice.is_none())
            .map(|reading| reading.power);
        Self {
            power_in_all: sum_of_all(whole.chain(boards.into_values())),
            ..Self::from_readings(readings)
        }
    }
}

/// Sums the values, or returns `None` if there are none or any is unknown.
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
    fn total_is_unknown_unless_all_devices_are_measured() {
        let total = |watts: &[Option<f64>]| {
            let readings: Vec<Reading> = watts
                .iter()
                .map(|watts| Reading {
                    power: watts.map(Watts),
                    ..Reading::default()
                })
                .collect();
            Figures::from_readings(readings.iter()).power_in_all
        };
        // 300 + 250 + 62
        assert_eq!(
            total(&[Some(300.0), Some(250.0), Some(62.0)]),
            Some(Watts(612.0))
        );
        assert_eq!((total(&[Some(300.0), None]), total(&[])), (None, None));
    }

    #[test]
    fn devices_that_other_pods_share_are_counted() {
        let reading = |pods: &[&str], index| Reading {
            index,
            holders: pods
                .iter()
                .map(|pod| ("ns".to_owned(), (*pod).to_owned()))
                .collect(),
            utilization: Some(Percent(71.0)),
            ..Reading::default()
        };
        let devices = vec![reading(&["a", "b", "c"], 0), reading(&["a"], 1)];
        let readings = Readings::new(devices, 2, 0, 0);
        let shared = |pods: &[&str]| readings.figures_of("ns", pods).shared;
        assert_eq!((shared(&["a"]), shared(&["b"])), (1, 1));
        // A workload that shares a device only with itself has all of it.
        assert_eq!(shared(&["a", "b", "c"]), 0);
    }

    #[test]
    fn means_cover_only_sampled_devices() {
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
        let figures = Figures::from_readings(devices.iter());
        assert_eq!((figures.devices, figures.sampled), (3, 2));
        assert_eq!(
            (figures.utilization, figures.lowest),
            (Some(Percent(60.0)), Some(Percent(30.0)))
        );
        assert_eq!(
            (figures.memory_used, figures.memory_total),
            (Some(Mebibytes(25.0)), Some(Mebibytes(100.0)))
        );
        let none = Figures::from_readings(devices[1..2].iter());
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

    #[test]
    fn board_power_counts_once_on_a_node_and_not_for_a_workload() {
        let instance = |index: u32, number: u32, watts: Option<f64>| Reading {
            node: "n".into(),
            index,
            slice: Some(("1g.10gb".into(), number)),
            board_power: watts.map(Watts),
            ..Reading::default()
        };
        let whole = Reading {
            node: "n".into(),
            index: 2,
            power: Some(Watts(90.0)),
            ..Reading::default()
        };
        let mut devices: Vec<Reading> = (0..7).map(|i| instance(0, i, Some(350.0))).collect();
        devices.extend([instance(1, 0, Some(60.0)), whole]);
        // 350 of the board with seven instances, 60 of the other board, 90 of the whole device.
        assert_eq!(
            Figures::with_boards(devices.iter()).power_in_all,
            Some(Watts(500.0))
        );
        assert_eq!(Figures::from_readings(devices.iter()).power_in_all, None);
        devices.push(instance(3, 0, None));
        assert_eq!(Figures::with_boards(devices.iter()).power_in_all, None);
    }
}
