//! Samples of each device in a window, grouped by quantity and collector.

use std::collections::{BTreeMap, BTreeSet};

use super::collectors::deduplicated;
use super::holders::{NamedPods, Tenants};
use super::slots::TimeSpan;
use crate::model::Point;
use crate::model::values::series::Series;
use crate::stats::exporters::dialect;
use crate::stats::exporters::dialect::{Quantity, metric_of};
use crate::stats::exporters::identity::{IdentityReader, SeriesDevice};

/// Points of one series, with numbers for its collector and for the pod in its labels.
struct Curve {
    collector: u32,
    pod: Option<u32>,
    points: Vec<Point>,
}

/// The samples of one device.
#[derive(Default)]
pub(super) struct DeviceSamples {
    pub(super) model: Option<String>,
    /// Number of the device on its node, from the first series that has one.
    pub(super) index: Option<u32>,
    /// Times of samples with a physically impossible value.
    pub(super) dropped_at: Vec<i64>,
    /// Curves by quantity and rank of the metric.
    curves: BTreeMap<(Quantity, u8), Vec<Curve>>,
}

impl DeviceSamples {
    /// Collects the pods that the labels name.
    pub(super) fn names(&self) -> NamedPods {
        let curves = || self.curves.values().flatten();
        let first = curves().next().and_then(|curve| curve.pod);
        if curves().all(|curve| curve.pod == first) {
            return NamedPods::Same(first);
        }
        let named_at = |curve: &Curve| {
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
        NamedPods::by_time(curves().flat_map(named_at).collect())
    }

    /// Removes and returns the curve of a quantity from its best metric that has samples. A value
    /// that exists both with and without its pod counts once.
    pub(super) fn curve(&mut self, quantity: Quantity) -> Vec<Point> {
        let best = self
            .curves
            .iter()
            .filter(|((measured, _), curves)| {
                *measured == quantity && curves.iter().any(|curve| !curve.points.is_empty())
            })
            .map(|(key, _)| *key)
            .min();
        let mut curves = best
            .and_then(|best| self.curves.remove(&best))
            .unwrap_or_default();
        // A replicated store may return each sample twice, so use the points directly only if their
        // times ascend.
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
        deduplicated(
            values
                .into_iter()
                .map(|(collector, _, point)| (collector, point))
                .collect(),
        )
    }
}

/// Devices that reported samples in a window.
pub(super) struct ReportedDevices {
    pub(super) devices: BTreeMap<SeriesDevice, DeviceSamples>,
    /// Number of samples with a physically impossible value.
    pub(super) dropped: u64,
}

impl ReportedDevices {
    /// Groups the samples of a window by device.
    pub(super) fn read<'a>(
        answer: impl Iterator<Item = (&'a Series, Vec<Point>)>,
        span: TimeSpan,
        reader: &IdentityReader<'_>,
        tenants: &Tenants<'_>,
    ) -> Self {
        let mut dropped = 0;
        let mut collectors = Collectors::default();
        let mut devices: BTreeMap<SeriesDevice, DeviceSamples> = BTreeMap::new();
        for (series, mut points) in answer {
            let Some((metric, mut identity)) = metric_of(series.name()).zip(reader.device(series))
            else {
                continue;
            };
            if !identity.reports(series, metric.quantity) {
                continue;
            }
            // Exporters number devices differently, so identify a device by its UUID without its
            // number.
            let index = if identity.uuid.is_some() {
                identity.index.take()
            } else {
                identity.index
            };
            let (rank, described) = (identity.rank(metric), identity.clone());
            let collector = collectors.number(series);
            let pod = reader.named_pod(series).map(|pod| tenants.number(&pod));
            let device = devices.entry(identity).or_default();
            device.index = device.index.or(index);
            device.model = device
                .model
                .take()
                .or_else(|| IdentityReader::model(series).map(ToOwned::to_owned));
            points.retain_mut(|point| {
                if !(span.start..span.end).contains(&point.at) {
                    return false;
                }
                let value = metric.read(point.value);
                dropped += u64::from(value.is_none());
                let described = value.filter(|value| described.describes(metric, *value));
                if value.is_none() {
                    device.dropped_at.push(point.at);
                }
                described.map(|value| point.value = value).is_some()
            });
            device
                .curves
                .entry((metric.quantity, rank))
                .or_default()
                .push(Curve {
                    collector,
                    pod,
                    points,
                });
        }
        Self { devices, dropped }
    }

    /// Returns the devices with the numbers that their exporters report.
    pub(super) fn with_numbers(&self) -> impl Iterator<Item = SeriesDevice> {
        self.devices.iter().map(|(identity, device)| SeriesDevice {
            index: identity.index.or(device.index),
            ..identity.clone()
        })
    }

    /// Returns the numbers of partitioned devices by node and UUID. All instances of a device share
    /// its number, whichever exporter reports them.
    pub(super) fn partitioned_numbers(&self) -> BTreeMap<(String, String), u32> {
        let id = |identity: &SeriesDevice| Some((identity.node.clone(), identity.uuid.clone()?));
        let cut: BTreeSet<_> = self
            .devices
            .keys()
            .filter(|identity| identity.slice.is_some())
            .filter_map(id)
            .collect();
        let mut numbers = BTreeMap::new();
        for (identity, device) in self.devices.iter().filter(|_| !cut.is_empty()) {
            if let Some((id, index)) = id(identity).filter(|id| cut.contains(id)).zip(device.index)
            {
                numbers.entry(id).or_insert(index);
            }
        }
        numbers
    }

    /// Removes devices that are partitioned into instances, and keeps the instances.
    pub(super) fn remove_partitioned(&mut self) {
        let whole_device = |device: &SeriesDevice| SeriesDevice {
            slice: None,
            ..device.clone()
        };
        let cut: BTreeSet<SeriesDevice> = self
            .devices
            .keys()
            .filter(|device| device.slice.is_some())
            .map(whole_device)
            .collect();
        self.devices.retain(|device, _| !cut.contains(device));
    }
}

/// Assigns numbers to the collectors of series, which are identified by the labels that do not
/// describe a device or pod.
struct Collectors<'a> {
    /// Labels that describe the device or the pod.
    read: BTreeSet<&'static str>,
    numbers: BTreeMap<Vec<(&'a str, &'a str)>, u32>,
}

impl Default for Collectors<'_> {
    fn default() -> Self {
        Self {
            read: dialect::labels()
                .filter(|name| !matches!(*name, "job" | "instance"))
                .chain(["__name__"])
                .collect(),
            numbers: BTreeMap::new(),
        }
    }
}

impl<'a> Collectors<'a> {
    fn number(&mut self, series: &'a Series) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let key = series
            .labels
            .iter()
            .filter(|(name, _)| !self.read.contains(name) && !dialect::is_of_claim(name))
            .collect();
        *self.numbers.entry(key).or_insert(next)
    }
}
