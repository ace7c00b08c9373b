//! Devices that pods requested. kube-state-metrics reports requests for resources, but only
//! exporters report devices that are allocated through DRA claims.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::part::Part;
use crate::model::facts::reading::PodKey;
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::series::Series;
use crate::model::values::units::{MOST_PER_NODE, total};

use crate::stats::exporters::dialect;
use crate::stats::exporters::dialect::CLAIM;
use crate::stats::exporters::kube_state::{
    SHARED_MEBIBYTES, SHARED_PERCENT, label, label_name, pod,
};
use crate::stats::exporters::node_index::NodeIndex;
use crate::stats::exporters::parts::{NodeParts, ResourceUnit};

/// Amounts by container and resource. A container is identified by its name and by whether it is an
/// init container.
type Containers = BTreeMap<(bool, String, String), f64>;
/// A pod on a node: the pod, its UID (empty if unknown) and the node.
pub type PodPlace = (PodKey, String, String);

/// Request of a pod on a node: whole devices, or slices of one kind.
pub struct Requested {
    pub gpus: u64,
    pub part: Option<(Part, u64)>,
    pub slots: Vec<bool>,
}

/// Groups requests by pod and node. As in Kubernetes, a pod requests the sum of its containers or
/// the maximum of its init containers, whichever is higher.
pub(crate) fn by_pod(
    answer: &[Series],
    count: usize,
    mark: impl Fn(&Series, &mut [bool]),
    parts: &NodeParts,
) -> Vec<(PodPlace, Requested)> {
    let mut by_place: BTreeMap<PodPlace, (Containers, Vec<bool>)> = BTreeMap::new();
    // The `node` label of an unscheduled pod is empty, and a scrape may replace an empty label with
    // its own.
    let where_it_is = label_name(answer, "node");
    for series in answer {
        let Some((key, uid)) = pod(series) else {
            continue;
        };
        let node = series.label(&where_it_is).unwrap_or_default().to_owned();
        let first = series.name() == "kube_pod_init_container_resource_requests";
        let container = (
            first,
            label(series, "container").unwrap_or_default().to_owned(),
            series.label("resource").unwrap_or_default().to_owned(),
        );
        let largest = series
            .points
            .iter()
            .map(|point| point.value)
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        let (containers, slots) = by_place
            .entry((key, uid, node))
            .or_insert_with(|| (Containers::new(), vec![false; count]));
        let amount = containers.entry(container).or_default();
        *amount = amount.max(largest);
        mark(series, slots);
    }
    // An unscheduled pod waits for the kind of unit that it later gets on its node.
    let bound: BTreeMap<(PodKey, String), String> = by_place
        .keys()
        .filter(|(_, _, node)| !node.is_empty())
        .map(|(key, uid, node)| ((key.clone(), uid.clone()), node.clone()))
        .collect();
    let mut rows = Vec::new();
    for (pod_place, (containers, slots)) in by_place {
        let node = bound
            .get(&(pod_place.0.clone(), pod_place.1.clone()))
            .unwrap_or(&pod_place.2);
        let units = PodUnits::from_containers(&containers, node, parts);
        if units.total() > MOST_PER_NODE as f64 {
            omissions::note(
                Omission::AbsurdRequest,
                format!("{}/{}", pod_place.0.0, pod_place.0.1),
            );
            continue;
        }
        let requests = units.requests(&slots);
        rows.extend(requests.map(|requested| (pod_place.clone(), requested)));
    }
    rows
}

/// Units that all containers of a pod request.
struct PodUnits {
    /// Number of whole devices.
    gpus: f64,
    /// Slices by name.
    parts: BTreeMap<String, (Part, f64)>,
}

impl PodUnits {
    fn from_containers(containers: &Containers, node: &str, parts: &NodeParts) -> Self {
        let resources: BTreeSet<&str> = containers
            .keys()
            .map(|(.., resource)| resource.as_str())
            .collect();
        let (mut gpus, mut of_parts) = (0.0, BTreeMap::<String, (Part, f64)>::new());
        for resource in &resources {
            let units = amount(containers, resource);
            match parts.unit(node, resource) {
                Some(ResourceUnit::Device) => gpus += units,
                Some(ResourceUnit::Part(part)) => {
                    let part = with_requested_memory(part, containers, resource);
                    of_parts.entry(part.name.clone()).or_insert((part, 0.0)).1 += units;
                }
                None => {}
            }
        }
        Self {
            gpus,
            parts: of_parts,
        }
    }

    fn total(&self) -> f64 {
        self.gpus + total(self.parts.values().map(|(_, units)| *units))
    }

    /// Splits the units into one request for whole devices and one for each kind of slice.
    fn requests(self, slots: &[bool]) -> impl Iterator<Item = Requested> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of devices"
        )]
        let rounded = |units: f64| units.round() as u64;
        let devices = (rounded(self.gpus), None);
        let parts = self
            .parts
            .into_values()
            .map(move |(part, units)| (0, Some((part, rounded(units)))));
        [devices]
            .into_iter()
            .chain(parts)
            .filter(|(gpus, part)| *gpus > 0 || part.as_ref().is_some_and(|(_, units)| *units > 0))
            .map(|(gpus, part)| Requested {
                gpus,
                part,
                slots: slots.to_vec(),
            })
    }
}

/// Sets the fraction of a slice to the mean over its units, from the memory that each container
/// requests for its units.
fn with_requested_memory(part: Part, containers: &Containers, resource: &str) -> Part {
    if !part.by_memory {
        return part;
    }
    let (mut units, mut devices) = (0.0, Some(0.0));
    for ((first, name, _), amount) in containers
        .iter()
        .filter(|((.., container_resource), _)| container_resource == resource)
    {
        let memory = |resource: &str| {
            containers
                .get(&(*first, name.clone(), resource.to_owned()))
                .copied()
        };
        let per_device = part
            .clone()
            .with_memory(memory(SHARED_MEBIBYTES), memory(SHARED_PERCENT))
            .fraction;
        units += amount;
        devices = devices
            .zip(per_device)
            .map(|(devices, per_device)| devices + per_device * amount);
    }
    Part {
        fraction: devices
            .filter(|_| units > 0.0)
            .map(|devices| devices / units),
        ..part
    }
}

/// Computes a pod's request for a resource.
fn amount(containers: &Containers, resource: &str) -> f64 {
    let amounts = |is_first: bool| {
        containers
            .iter()
            .filter(move |((first, _, container_resource), _)| {
                *first == is_first && container_resource == resource
            })
    };
    let sum = total(amounts(false).map(|(_, value)| *value));
    amounts(true).map(|(_, value)| *value).fold(sum, f64::max)
}

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

/// Adds devices in claims, for pods that requested none as a resource. A device that several pods
/// claim at the same time is shared.
pub(crate) fn add_claimed(
    requests: &mut Vec<(PodPlace, Requested)>,
    answer: &[Series],
    names: &BTreeMap<String, String>,
    count: usize,
    mark: impl Fn(&Series, &mut [bool]),
) {
    let aliases = names
        .iter()
        .map(|(alias, node)| (alias.clone(), node.clone()));
    let index = NodeIndex::new(aliases);
    // Slots by device and pod.
    let mut devices: BTreeMap<(String, ClaimedDevice), BTreeMap<PodKey, Vec<bool>>> =
        BTreeMap::new();
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
        mark(
            series,
            pods.entry(key).or_insert_with(|| vec![false; count]),
        );
    }
    let by_name: BTreeSet<PodKey> = requests.iter().map(|((key, ..), _)| key.clone()).collect();
    for ((node, (.., profile)), pods) in devices {
        // Two pods in the same slot may have followed each other, so only two or more common slots
        // count as sharing.
        let together =
            |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| **a && **b).count() > 1;
        for (key, slots) in pods.iter().filter(|(key, _)| !by_name.contains(*key)) {
            let sharers = pods
                .iter()
                .filter(|(pod, requested)| *pod == key || together(slots, requested))
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
                slots: slots.clone(),
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
                slots: vec![true; 2],
            },
        )];
        let names = [("10.0.0.1".to_owned(), "n".to_owned())].into();
        let mark = |series: &Series, slots: &mut [bool]| {
            series
                .points
                .iter()
                .for_each(|point| slots[usize::try_from(point.at).unwrap()] = true);
        };
        add_claimed(&mut requests, &answer, &names, 2, mark);
        let rows: Vec<_> = requests[1..]
            .iter()
            .map(|(((_, pod), _, node), claimed)| {
                assert_eq!(node, "n");
                let part = claimed
                    .part
                    .as_ref()
                    .map(|(part, number)| (part.name.clone(), part.fraction, *number));
                (pod.as_str(), claimed.gpus, part, &claimed.slots[..])
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
