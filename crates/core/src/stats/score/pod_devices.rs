//! Counts the devices of each pod for a control system, which may end the whole pod.

use std::collections::BTreeMap;

use super::selection::Scored;
use crate::model::facts::reading::PodKey;

/// Number of devices that a pod holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodDeviceCount {
    pub all: u64,
    /// Devices below the threshold. Devices without a score are not among them.
    pub low: u64,
    /// Devices that automation may act on.
    pub actionable: u64,
}

impl PodDeviceCount {
    /// Returns true if automation may act on all devices of the pod.
    pub fn is_actionable(&self) -> bool {
        self.actionable == self.all
    }
}

/// Counts the devices of each pod. Each pod of a shared device holds it. `held` are the whole
/// devices and instances of each pod in the inventory, because exporters may report fewer.
pub fn devices_by_pod<'r>(
    rows: &'r [Scored],
    held: &BTreeMap<PodKey, u64>,
    is_actionable: impl Fn(&Scored) -> bool,
) -> BTreeMap<&'r PodKey, PodDeviceCount> {
    let mut counts: BTreeMap<&PodKey, PodDeviceCount> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.reading.held == Some(true)) {
        for holder in &row.reading.holders {
            let count = counts.entry(holder).or_default();
            count.all += 1;
            count.low += u64::from(row.is_low());
            count.actionable += u64::from(is_actionable(row));
        }
    }
    for (pod, count) in &mut counts {
        count.all = held.get(*pod).copied().unwrap_or(0).max(count.all);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Reading;
    use crate::stats::score::value::{Band, Score};

    #[test]
    fn devices_of_a_pod_are_counted_with_those_to_act_on() {
        let device = |index: u32, pods: &[&str], band: Band, spared: bool| Scored {
            reading: Reading {
                index,
                held: Some(true),
                holders: pods
                    .iter()
                    .map(|pod| ("t".to_owned(), (*pod).to_owned()))
                    .collect(),
                ..Reading::default()
            },
            measured: true,
            score: Score {
                band,
                ..Score::unknown(1)
            },
            whole: true,
            trace: None,
            opinion: None,
            serving: None,
            spared,
        };
        let rows = [
            device(0, &["mixed"], Band::Idle, false),
            device(1, &["mixed"], Band::High, false),
            device(2, &["idle"], Band::Idle, false),
            device(3, &["idle", "sharer"], Band::Low, false),
            device(4, &["silent"], Band::Low, false),
            device(5, &["silent"], Band::Unknown, false),
            device(6, &["spared"], Band::Low, true),
        ];
        let pod = |name: &str| ("t".to_owned(), name.to_owned());
        // The exporter reports one device of three.
        let held = BTreeMap::from([(pod("sharer"), 3), (pod("idle"), 2)]);
        let is_idle = |device: &Scored| device.score.band == Band::Idle;
        let counts = devices_by_pod(&rows, &held, is_idle);
        let of = |name: &str| {
            let count = counts[&pod(name)];
            (count.all, count.low, count.actionable)
        };
        assert_eq!((of("mixed"), of("idle")), ((2, 1, 1), (2, 2, 1)));
        assert_eq!((of("sharer"), of("silent")), ((3, 1, 0), (2, 1, 0)));
        assert_eq!(of("spared"), (1, 0, 0));
        // One device of the pod is low but not idle.
        assert!(!counts[&pod("idle")].is_actionable());
        let counts = devices_by_pod(&rows, &held, Scored::is_low);
        assert!(counts[&pod("idle")].is_actionable() && !counts[&pod("sharer")].is_actionable());
    }
}
