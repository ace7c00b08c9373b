//! Devices that pods hold through claims of dynamic resource allocation. kube-state-metrics reports
//! no amounts for them, so exporters' series show them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::part::Part;
use crate::model::facts::reading::PodKey;
use crate::model::values::series::Series;

use super::presence::Presence;
use super::requested::{PodPlace, Requested};
use crate::stats::exporters::dialect;
use crate::stats::exporters::dialect::CLAIM;
use crate::stats::exporters::node_index::NodeIndex;

/// A device in a claim: its UUID or number, its instance, and the profile of the instance.
type ClaimedDevice = (String, String, Option<String>);

/// Returns the pod that holds a device through a claim.
pub fn claimant(series: &Series) -> Option<PodKey> {
    let both = |(namespace, pod): (&str, &str)| {
        Some((
            series.label(namespace)?.to_owned(),
            series.label(pod)?.to_owned(),
        ))
    };
    dialect::pod_labels().into_iter().find_map(both)
}

/// Series by device and pod, where a device is identified by its node.
type SeriesByDevice<'s> = BTreeMap<(String, ClaimedDevice), BTreeMap<PodKey, Vec<&'s Series>>>;

/// Groups the series of claims by device and pod.
fn claimed_devices<'s>(
    answer: &'s [Series],
    names: &BTreeMap<String, String>,
) -> SeriesByDevice<'s> {
    let aliases = names
        .iter()
        .map(|(alias, node)| (alias.clone(), node.clone()));
    let index = NodeIndex::new(aliases);
    let mut devices = SeriesByDevice::new();
    for series in answer.iter().filter(|series| series.label(CLAIM).is_some()) {
        let Some(key) = claimant(series) else {
            continue;
        };
        let Some(node_label) = series.first(dialect::node_labels()) else {
            continue;
        };
        let node = dialect::node_labels()
            .filter_map(|label| series.label(label))
            .find_map(|text| index.find(text))
            .unwrap_or(node_label)
            .to_owned();
        let profile = series
            .first(["GPU_I_PROFILE", "dra_mig_profile"])
            .map(ToOwned::to_owned);
        let instance = series.label("GPU_I_ID").unwrap_or_default().to_owned();
        let Some(device) = series.first(dialect::uuid_labels().chain(dialect::index_labels()))
        else {
            continue;
        };
        let pods = devices
            .entry((node, (device.to_owned(), instance, profile)))
            .or_default();
        pods.entry(key).or_default().push(series);
    }
    devices
}

/// Adds devices in claims, for pods that requested none as a resource. A device that several pods
/// claim at the same time is shared. `presence` determines from its series how long a pod held a
/// device.
pub(crate) fn add_claimed<'s>(
    requests: &mut Vec<(PodPlace, Requested)>,
    answer: &'s [Series],
    names: &BTreeMap<String, String>,
    presence: impl Fn(&[&'s Series], &PodKey) -> Presence,
) {
    let devices = claimed_devices(answer, names);
    let by_name: BTreeSet<PodKey> = requests.iter().map(|((key, ..), _)| key.clone()).collect();
    for ((node, (.., profile)), pods) in devices {
        // Two pods in the same slot may have followed each other, so only two or more common slots
        // count as sharing.
        let together =
            |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| **a && **b).count() > 1;
        let pods: BTreeMap<PodKey, Presence> = pods
            .into_iter()
            .map(|(key, series)| {
                let presence = presence(&series, &key);
                (key, presence)
            })
            .collect();
        for (key, held) in pods.iter().filter(|(key, _)| !by_name.contains(*key)) {
            let sharers = pods
                .iter()
                .filter(|(pod, other)| *pod == key || together(&held.seen, &other.seen))
                .count();
            let part = profile
                .as_ref()
                .map(|profile| Part::from_name(&format!("mig-{profile}"), None));
            let part = if sharers > 1 {
                Some(Part::shared_by(sharers, part))
            } else {
                part
            };
            let gpus = u64::from(part.is_none());
            let requested = Requested {
                gpus,
                part: part.map(|part| (part, 1)),
                presence: held.clone(),
            };
            requests.push(((key.clone(), String::new(), node.clone()), requested));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::values::series::Point;

    fn series(labels: &[(&str, &str)], times: &[i64]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Series {
            labels,
            points: times
                .iter()
                .map(|at| Point {
                    at: *at,
                    value: 50.0,
                })
                .collect(),
        }
    }

    #[test]
    fn claimed_devices_of_several_pods_are_shared() {
        let claimed = |pod: &'static str,
                       uuid: &'static str,
                       more: &[(&'static str, &'static str)],
                       times: &[i64]| {
            let labels = [
                ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
                ("Hostname", "10.0.0.1"),
                ("UUID", uuid),
                (CLAIM, "c"),
            ];
            let node_labels = [
                ("namespace", "monitoring"),
                ("pod", "exporter"),
                ("exported_namespace", "ml"),
                ("exported_pod", pod),
            ];
            series(&[&labels[..], &node_labels, more].concat(), times)
        };
        let answer = [
            claimed("a", "GPU-0", &[], &[0, 1]),
            claimed("a", "GPU-1", &[], &[1]),
            claimed(
                "b",
                "GPU-2",
                &[("GPU_I_PROFILE", "1g.10gb"), ("GPU_I_ID", "7")],
                &[0],
            ),
            claimed("c", "GPU-3", &[], &[0, 1]),
            claimed("d", "GPU-3", &[], &[0, 1]),
            // Two pods have the device one after the other.
            claimed("x", "GPU-5", &[], &[0]),
            claimed("y", "GPU-5", &[], &[0, 1]),
            // The request of this pod was already reported as a resource.
            claimed("e", "GPU-4", &[], &[0]),
        ];
        let e = (
            ("ml".to_owned(), "e".to_owned()),
            "u".to_owned(),
            "n".to_owned(),
        );
        let mut requests = vec![(
            e,
            Requested {
                gpus: 1,
                part: None,
                presence: Presence::default(),
            },
        )];
        let names = [("10.0.0.1".to_owned(), "n".to_owned())].into();
        let presence = |series: &[&Series], _: &PodKey| {
            let mut seen = vec![false; 2];
            let points = series.iter().flat_map(|series| &series.points);
            points.for_each(|point| seen[usize::try_from(point.at).unwrap()] = true);
            Presence {
                seen,
                ..Presence::default()
            }
        };
        add_claimed(&mut requests, &answer, &names, presence);
        let rows: Vec<_> = requests[1..]
            .iter()
            .map(|(((_, pod), _, node), claimed)| {
                assert_eq!(node, "n");
                let part = claimed
                    .part
                    .as_ref()
                    .map(|(part, number)| (part.name.clone(), part.fraction, *number));
                (pod.as_str(), claimed.gpus, part, &claimed.presence.seen[..])
            })
            .collect();
        let shared = || Some(("gpu.shared".to_owned(), Some(0.5), 1));
        assert_eq!(
            rows,
            [
                ("a", 1, None, &[true, true][..]),
                ("a", 1, None, &[false, true]),
                (
                    "b",
                    0,
                    Some(("mig-1g.10gb".to_owned(), Some(1.0 / 7.0), 1)),
                    &[true, false]
                ),
                ("c", 0, shared(), &[true, true]),
                ("d", 0, shared(), &[true, true]),
                ("x", 1, None, &[true, false]),
                ("y", 1, None, &[true, true]),
            ]
        );
    }
}
