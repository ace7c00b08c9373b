//! Makes one curve per device and quantity from the samples of a window. A gap stays a gap.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::reading::PodKey;
use crate::model::{DeviceId, Mebibytes, Point, Series};
use crate::stats::exporters::device_numbers::DeviceNumbers;
use crate::stats::exporters::dialect::{Quantity, metric_of};
use crate::stats::exporters::identity::{ApiFacts, IdentityReader, SeriesDevice};
use crate::stats::exporters::limits;

/// What one device measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    pub node: String,
    pub index: u32,
    pub slice: Option<(String, u32)>,
    pub model: Option<String>,
    pub uuid: Option<String>,
    /// Pods that held it in the window.
    pub pods: BTreeSet<PodKey>,
    curves: BTreeMap<Quantity, Vec<Point>>,
}

/// Curves, and what was left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// By node, number and slice.
    pub traces: Vec<Trace>,
    pub samples: u64,
    /// Samples that no device can have.
    pub dropped: u64,
}

/// When pods lived, in Unix milliseconds; what an exporter says of them before or after is of
/// others.
pub type Lifetimes = BTreeMap<PodKey, (Option<i64>, Option<i64>)>;

/// A value by its metric's rank and whether a pod was named beside it: the lowest counts.
type Best = BTreeMap<i64, (u8, bool, f64)>;

impl Trace {
    /// Returns the curve of a quantity in order of time, empty where it was never sampled.
    pub fn curve(&self, quantity: Quantity) -> &[Point] {
        self.curves.get(&quantity).map_or(&[], Vec::as_slice)
    }

    /// Removes what was measured before a time, in Unix milliseconds.
    #[must_use]
    pub fn since(&self, at: i64) -> Self {
        let mut cut = self.clone();
        cut.curves
            .values_mut()
            .for_each(|curve| curve.retain(|point| point.at >= at));
        cut
    }

    /// Makes one of curves alone.
    #[cfg(any(test, feature = "testing"))]
    pub fn made(
        node: &str,
        index: u32,
        model: &str,
        curves: BTreeMap<Quantity, Vec<Point>>,
    ) -> Self {
        Self {
            node: node.to_owned(),
            index,
            model: Some(model.to_owned()),
            curves,
            ..Self::default()
        }
    }

    /// Removes what was measured after a time, in Unix milliseconds.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn until(&self, at: i64) -> Self {
        let mut cut = self.clone();
        cut.curves
            .values_mut()
            .for_each(|curve| curve.retain(|point| point.at <= at));
        cut
    }

    /// Returns the device's name on its node.
    pub fn id(&self) -> DeviceId {
        DeviceId {
            index: self.index,
            slice: self.slice.clone(),
        }
    }

    /// Returns used memory as a share of all of it, in percent, where both were sampled.
    pub fn memory_share(&self) -> Vec<Point> {
        let free: BTreeMap<i64, f64> = self
            .curve(Quantity::MemoryFree)
            .iter()
            .map(|point| (point.at, point.value))
            .collect();
        let total: BTreeMap<i64, f64> = self
            .curve(Quantity::MemoryTotal)
            .iter()
            .map(|point| (point.at, point.value))
            .collect();
        // What the model has, where nobody measures it.
        let whole = self.slice.is_none() && free.is_empty() && total.is_empty();
        let usual = self
            .model
            .as_deref()
            .filter(|_| whole)
            .and_then(limits::memory);
        let share = |point: &Point| {
            let measured = free
                .get(&point.at)
                .map(|free| free + point.value)
                .or_else(|| total.get(&point.at).copied());
            let all = measured.or(usual.map(|Mebibytes(all)| all))?;
            (all > 0.0).then(|| Point {
                at: point.at,
                value: (point.value / all * 100.0).min(100.0),
            })
        };
        self.curve(Quantity::MemoryUsed)
            .iter()
            .filter_map(share)
            .collect()
    }
}

/// Returns the devices of an answer.
pub fn read(answer: &[Series], facts: &ApiFacts, lifetimes: &Lifetimes) -> History {
    let reader = IdentityReader::new(facts, answer);
    let numbers = DeviceNumbers::of(answer.iter().filter_map(|series| reader.place(series)));
    let mut history = History::default();
    let mut found: BTreeMap<SeriesDevice, (Trace, BTreeMap<Quantity, Best>)> = BTreeMap::new();
    for series in answer {
        let Some((metric, place)) = metric_of(series.name()).zip(reader.place(series)) else {
            continue;
        };
        if !place.tells(series, metric.quantity) {
            continue;
        }
        let pod = reader.named_pod(series);
        let (from, to) = pod
            .as_ref()
            .and_then(|pod| lifetimes.get(pod))
            .copied()
            .unwrap_or_default();
        let (trace, quantities) = found.entry(numbers.key(place.clone())).or_default();
        trace.model = trace
            .model
            .take()
            .or_else(|| IdentityReader::model(series).map(ToOwned::to_owned));
        trace.uuid = trace.uuid.take().or_else(|| place.uuid.clone());
        let named = pod.is_some();
        trace.pods.extend(pod);
        let best = quantities.entry(metric.quantity).or_default();
        for point in &series.points {
            let lived =
                from.is_none_or(|from| point.at >= from) && to.is_none_or(|to| point.at <= to);
            match metric.read(point.value) {
                None => history.dropped += 1,
                Some(value) if lived => {
                    history.samples += 1;
                    let entry = best.entry(point.at).or_insert((metric.rank, named, value));
                    if (metric.rank, named) < (entry.0, entry.1)
                        || ((metric.rank, named) == (entry.0, entry.1) && value > entry.2)
                    {
                        *entry = (metric.rank, named, value);
                    }
                }
                Some(_) => {}
            }
        }
    }
    for (place, (mut trace, quantities)) in found {
        trace.curves = quantities
            .into_iter()
            .map(|(quantity, best)| {
                (
                    quantity,
                    best.into_iter()
                        .map(|(at, (.., value))| Point { at, value })
                        .collect(),
                )
            })
            .collect();
        // A series that tells neither number nor UUID is of the only device of its node.
        (trace.node, trace.slice, trace.index) =
            (place.node, place.slice, place.index.unwrap_or(0));
        if trace
            .curves
            .values()
            .any(|curve: &Vec<Point>| !curve.is_empty())
        {
            history.traces.push(trace);
        }
    }
    history
}

/// Returns the mean of several curves at each time that one of them has.
pub fn mean<'a>(curves: impl Iterator<Item = &'a [Point]>) -> Vec<Point> {
    let mut sums: BTreeMap<i64, (f64, u32)> = BTreeMap::new();
    for point in curves.flatten() {
        let (sum, count) = sums.entry(point.at).or_default();
        *sum += point.value;
        *count += 1;
    }
    sums.into_iter()
        .map(|(at, (sum, count))| Point {
            at,
            value: sum / f64::from(count),
        })
        .collect()
}

/// Returns one sentence when devices look unused over a window, from the mean and the highest
/// utilization of each: what people want to hear before the bill. `None` when too little is known.
pub fn unused(history: &History, expected: usize) -> Option<String> {
    /// Percent at which nothing that could be called work runs.
    const IDLE: f64 = 1.0;
    let curves: Vec<&[Point]> = history
        .traces
        .iter()
        .map(|trace| trace.curve(Quantity::Utilization))
        .collect();
    let known: Vec<&&[Point]> = curves
        .iter()
        .filter(|curve| curve.len() * 2 >= expected.max(2))
        .collect();
    if known.is_empty() {
        return None;
    }
    let idle = known
        .iter()
        .filter(|curve| curve.iter().all(|point| point.value <= IDLE))
        .count();
    match (idle, known.len()) {
        (0, _) => None,
        (idle, all) if idle == all && all == 1 => {
            Some("no sample of this time shows its GPU in use".to_owned())
        }
        (idle, all) if idle == all => Some(format!(
            "no sample of this time shows any of its {all} sampled GPUs in use"
        )),
        (idle, all) => Some(format!(
            "{idle} of its {all} sampled GPUs {} in use in no sample of this time",
            if idle == 1 { "was" } else { "were" }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)], values: &[f64]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let points = values
            .iter()
            .zip(0..)
            .map(|(value, index)| Point {
                at: index * 60_000,
                value: *value,
            })
            .collect();
        Series { labels, points }
    }

    fn util<'a>(gpu: &'a str, pod: &'a str) -> [(&'a str, &'a str); 5] {
        [
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("gpu", gpu),
            ("Hostname", "n"),
            ("namespace", "ns"),
            ("pod", pod),
        ]
    }

    fn values(curve: &[Point]) -> Vec<f64> {
        curve.iter().map(|point| point.value).collect()
    }

    #[test]
    fn a_device_is_one_curve_and_garbage_a_gap() {
        let answer = [
            series(&util("0", "a"), &[90.0, f64::NAN, 70.0]),
            series(&util("0", "a"), &[90.0]),
            series(&util("1", "a"), &[10.0]),
        ];
        let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
        assert_eq!((history.traces.len(), history.dropped), (2, 1));
        assert_eq!(
            values(history.traces[0].curve(Quantity::Utilization)),
            [90.0, 70.0]
        );
        // (90 + 10) / 2, and 70 alone.
        let means = mean(
            history
                .traces
                .iter()
                .map(|trace| trace.curve(Quantity::Utilization)),
        );
        assert_eq!(
            means
                .iter()
                .map(|point| (point.at, point.value))
                .collect::<Vec<_>>(),
            [(0, 50.0), (120_000, 70.0)]
        );
    }

    #[test]
    fn what_is_said_of_a_pod_after_its_end_is_of_another() {
        let lifetimes = Lifetimes::from([(
            ("ns".to_owned(), "a".to_owned()),
            (Some(60_000), Some(120_000)),
        )]);
        let history = read(
            &[series(&util("0", "a"), &[1.0, 2.0, 3.0, 4.0])],
            &ApiFacts::default(),
            &lifetimes,
        );
        assert_eq!(
            values(history.traces[0].curve(Quantity::Utilization)),
            [2.0, 3.0]
        );
    }

    #[test]
    fn what_was_before_can_be_cut_off() {
        let history = read(
            &[series(&util("0", "a"), &[1.0, 2.0, 3.0])],
            &ApiFacts::default(),
            &Lifetimes::new(),
        );
        assert_eq!(
            values(history.traces[0].since(60_000).curve(Quantity::Utilization)),
            [2.0, 3.0]
        );
    }

    #[test]
    fn unused_devices_are_told_and_unknown_ones_are_not_called_so() {
        let of = |curves: &[&[f64]]| {
            let answer: Vec<Series> = curves
                .iter()
                .zip(["0", "1", "2"])
                .map(|(values, gpu)| series(&util(gpu, "a"), values))
                .collect();
            unused(&read(&answer, &ApiFacts::default(), &Lifetimes::new()), 4)
        };
        assert_eq!(
            of(&[&[0.0, 0.0, 1.0, 0.0]]).as_deref(),
            Some("no sample of this time shows its GPU in use")
        );
        assert_eq!(
            of(&[&[0.0; 4], &[0.0, 0.0, 60.0, 0.0]]).as_deref(),
            Some("1 of its 2 sampled GPUs was in use in no sample of this time")
        );
        assert_eq!(of(&[&[0.0]]), None, "one sample of four is too little");
        assert_eq!(of(&[&[5.0; 4]]), None);
    }

    #[test]
    fn shares_of_memory_are_of_what_programs_can_use() {
        let memory = |name: &'static str, value| {
            series(
                &[("__name__", name), ("gpu", "0"), ("Hostname", "n")],
                &[value],
            )
        };
        let answer = [
            memory("DCGM_FI_DEV_FB_USED", 300.0),
            memory("DCGM_FI_DEV_FB_FREE", 100.0),
        ];
        let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
        assert_eq!(values(&history.traces[0].memory_share()), [75.0]);
    }

    #[test]
    fn partitions_after_the_first_tell_nothing_of_what_they_report_as_zero() {
        let series = |partition: &str, name: &str, value: f64| Series {
            labels: [
                ("__name__", name),
                ("gpu_id", "0"),
                ("hostname", "n"),
                ("gpu_compute_partition_type", "cpx"),
                ("gpu_memory_partition_type", "nps4"),
                ("gpu_partition_id", partition),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
            points: vec![Point { at: 0, value }],
        };
        let answer = [
            series("0", "gpu_gfx_activity", 90.0),
            series("3", "gpu_gfx_activity", 0.0),
            series("3", "gpu_package_power", 0.0),
            series("3", "gpu_used_vram", 2000.0),
        ];
        let history = read(&answer, &ApiFacts::default(), &Lifetimes::new());
        let of = |number: u32| {
            history
                .traces
                .iter()
                .find(|trace| trace.slice == Some(("cpx_nps4".to_owned(), number)))
                .unwrap()
        };
        assert_eq!(of(0).curve(Quantity::Utilization).len(), 1);
        assert!(
            of(3).curve(Quantity::Utilization).is_empty()
                && of(3).curve(Quantity::Power).is_empty()
        );
        assert_eq!(of(3).curve(Quantity::MemoryUsed)[0].value, 2000.0);
    }
}
