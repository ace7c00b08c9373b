//! Devices that pods requested as resources, from kube-state-metrics.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::part::Part;
use crate::model::facts::reading::PodKey;
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::series::Series;
use crate::model::values::units::{MOST_PER_NODE, total};

use super::presence::Presence;
use crate::stats::exporters::kube_state::{label, label_name, pod, shared_memory};
use crate::stats::exporters::parts::{NodeParts, ResourceUnit};

/// Role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ContainerRole {
    Main,
    /// An init container that ends before the main containers start.
    Init,
    /// An init container that runs as long as the pod (restart policy `Always`).
    Sidecar,
}

/// Amounts by container and resource. A container is identified by its role and name.
type Containers = BTreeMap<(ContainerRole, String, String), f64>;
/// A pod on a node: the pod, its UID (empty if unknown) and the node.
pub type PodPlace = (PodKey, String, String);

/// Request of a pod on a node: whole devices, or slices of one kind.
pub struct Requested {
    pub gpus: u64,
    pub part: Option<(Part, u64)>,
    pub(crate) presence: Presence,
}

/// Identifies an init container by its pod, the pod's UID and its name.
type InitContainer = (PodKey, String, String);

/// Reads which init containers are sidecars. kube-state-metrics has the label since version 2.11.
fn sidecars(answer: &[Series]) -> BTreeSet<InitContainer> {
    let sidecar = |series: &Series| {
        let (key, uid) = pod(series)?;
        Some((key, uid, label(series, "container")?.to_owned()))
    };
    answer
        .iter()
        .filter(|series| series.label("restart_policy") == Some("Always"))
        .filter_map(sidecar)
        .collect()
}

/// Groups requests by pod and node. `init_containers` are series that tell sidecars from other init
/// containers. `presence` determines the life of a pod from its series and its UID.
pub(crate) fn by_pod<'s>(
    answer: &'s [Series],
    init_containers: &[Series],
    presence: impl Fn(&[&'s Series], &str) -> Presence,
    parts: &NodeParts,
) -> Vec<(PodPlace, Requested)> {
    let mut by_place: BTreeMap<PodPlace, (Containers, Vec<&'s Series>)> = BTreeMap::new();
    let sidecars = sidecars(init_containers);
    // The `node` label of an unscheduled pod is empty, and a scrape may replace an empty label with
    // its own.
    let where_it_is = label_name(answer, "node");
    for series in answer {
        let Some((key, uid)) = pod(series) else {
            continue;
        };
        let node = series.label(&where_it_is).unwrap_or_default().to_owned();
        let name = label(series, "container").unwrap_or_default().to_owned();
        let init = (key, uid, name);
        let role = match series.name() == "kube_pod_init_container_resource_requests" {
            true if sidecars.contains(&init) => ContainerRole::Sidecar,
            true => ContainerRole::Init,
            false => ContainerRole::Main,
        };
        let (key, uid, name) = init;
        let resource = series.label("resource").unwrap_or_default().to_owned();
        let container = (role, name, resource);
        let largest = series
            .points
            .iter()
            .map(|point| point.value)
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        let (containers, pod_series) = by_place.entry((key, uid, node)).or_default();
        let amount = containers.entry(container).or_default();
        *amount = amount.max(largest);
        pod_series.push(series);
    }
    // An unscheduled pod waits for the kind of unit that it later gets on its node.
    let bound: BTreeMap<(PodKey, String), String> = by_place
        .keys()
        .filter(|(_, _, node)| !node.is_empty())
        .map(|(key, uid, node)| ((key.clone(), uid.clone()), node.clone()))
        .collect();
    let mut rows = Vec::new();
    for (pod_place, (containers, pod_series)) in by_place {
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
        let presence = presence(&pod_series, &pod_place.1);
        let requests = units.requests(&presence);
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
    fn requests(self, presence: &Presence) -> impl Iterator<Item = Requested> {
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
                presence: presence.clone(),
            })
    }
}

/// Sets the fraction of a slice to the mean over its units, from the memory that each container
/// requests for its units.
fn with_requested_memory(part: Part, containers: &Containers, resource: &str) -> Part {
    if !part.by_memory {
        return part;
    }
    let (mebibytes, percent) = shared_memory(resource);
    let (mut units, mut devices) = (0.0, Some(0.0));
    for ((role, name, _), amount) in containers
        .iter()
        .filter(|((.., container_resource), _)| container_resource == resource)
    {
        let memory = |resource: &str| {
            containers
                .get(&(*role, name.clone(), resource.to_owned()))
                .copied()
        };
        let per_device = part
            .clone()
            .with_memory(memory(mebibytes), memory(percent))
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

/// Computes a pod's request for a resource as Kubernetes does: the sum of its main containers and
/// sidecars, or the highest init container with the sidecars, whichever is higher.
/// kube-state-metrics does not report the order of init containers, so sidecars count as the first.
fn amount(containers: &Containers, resource: &str) -> f64 {
    let amounts = |role: ContainerRole| {
        let is_meant = move |(container_role, _, name): &(ContainerRole, String, String)| {
            *container_role == role && name == resource
        };
        let matching = containers.iter().filter(move |(key, _)| is_meant(key));
        matching.map(|(_, value)| *value)
    };
    let sidecars = total(amounts(ContainerRole::Sidecar));
    let main = total(amounts(ContainerRole::Main));
    sidecars + amounts(ContainerRole::Init).fold(main, f64::max)
}

#[cfg(test)]
mod tests;
