//! Determines whether a unit of a node's resource was a whole GPU or a slice: for the past from
//! labels in kube-state-metrics and series of exporters, and for the present from the API server.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::evidence::{EVIDENCE_LABELS, LABELED, has_profile_labels, is_evidence};
use crate::model::facts::exported_instances::ExportedInstances;
use crate::model::facts::gpu::WHOLE;
use crate::model::facts::part::Part;
use crate::model::facts::resource::{
    ascend, is_device, is_passthrough, mig_label, resource_name, whole_partition,
};
use crate::model::values::series::Series;
use crate::model::values::units::MOST_PER_NODE;
use crate::model::{GpuType, Node, NodeUsage};

use super::dialect::CLAIM;
use super::identity::{ApiFacts, IdentityReader};
use super::kube_state::{clean, label};

#[derive(Clone, Debug, PartialEq)]
pub enum ResourceUnit {
    Device,
    Part(Part),
}

/// Slices that nodes offer, by node and resource, in the form of kube-state-metrics.
#[derive(Clone, Debug, Default)]
pub struct NodeParts {
    by_resource: BTreeMap<(String, String), Part>,
    /// Labels of nodes now that show how their devices are divided.
    labels: BTreeMap<String, BTreeMap<String, String>>,
    claimable: BTreeMap<String, ClaimableNow>,
    /// Nodes whose exporters' series were read.
    seen: BTreeSet<String>,
}

/// Devices of a node that are allocated only through DRA claims. kube-state-metrics does not count
/// them.
#[derive(Clone, Debug, Default)]
pub struct ClaimableNow {
    /// Creation time of the node in Unix milliseconds.
    pub since: Option<i64>,
    pub gpus: u64,
    pub parts: BTreeMap<String, u64>,
    /// Those of the parts that are cut from boards in `gpus`.
    pub listed_board_parts: BTreeMap<String, u64>,
}

impl ClaimableNow {
    /// Returns the parts that add to the hardware in `gpus`, by name.
    pub(crate) fn separate_parts(&self) -> impl Iterator<Item = (&String, u64)> {
        self.parts.iter().filter_map(|(name, count)| {
            let listed = self.listed_board_parts.get(name).copied();
            let separate = count.saturating_sub(listed.unwrap_or(0));
            (separate > 0).then_some((name, separate))
        })
    }
}

/// Labels in kube-state-metrics of NVIDIA devices at the time of the sample.
const PRODUCT: &str = "label_nvidia_com_gpu_product";
const REPLICAS: &str = "label_nvidia_com_gpu_replicas";

impl NodeParts {
    /// Reads the current state of nodes.
    pub fn from_nodes<'n>(nodes: impl Iterator<Item = &'n NodeUsage>) -> Self {
        let mut parts = Self::default();
        for host in nodes {
            let details = &host.details;
            let resources = || details.capacity.keys().chain(details.allocatable.keys());
            // The node's resources do not include devices that are allocated through claims.
            let by_name = resources().any(|resource| {
                is_device(resource)
                    || Part::read(&details.node, &details.capacity, resource).is_some()
            });
            if !by_name && host.has_gpus() {
                let since = details.created_at.map(jiff::Timestamp::as_millisecond);
                let parts_now = host
                    .slices
                    .iter()
                    .map(|(name, count)| (name.clone(), count.total))
                    .collect();
                parts.claimable.insert(
                    host.name().to_owned(),
                    ClaimableNow {
                        since,
                        gpus: host.gpus.total,
                        parts: parts_now,
                        listed_board_parts: host.listed_board_slices.clone(),
                    },
                );
            }
            let labels = details.node.labels.iter();
            let labels = labels.filter(|(key, _)| is_evidence(key));
            parts.labels.insert(
                details.node.name.clone(),
                labels
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            );
            for resource in resources() {
                if let Some(part) = Part::read(&details.node, &details.capacity, resource) {
                    parts
                        .by_resource
                        .insert((details.node.name.clone(), clean(resource)), part);
                }
            }
        }
        parts
    }

    /// Returns the nodes whose devices are allocated only through claims.
    pub fn claimable(&self) -> impl Iterator<Item = (&String, &ClaimableNow)> {
        self.claimable.iter()
    }

    /// Replaces the current state with the state in the recorded labels, for nodes that have any.
    /// `capacity` has the recorded amounts. Labels that were not recorded are as now.
    #[must_use]
    pub fn with_past_labels(mut self, labels: &[Series], capacity: &[Series]) -> Self {
        let capacity = recorded_units(capacity);
        for series in labels {
            let Some(name) = label(series, "node") else {
                continue;
            };
            let recorded = recorded_labels(series);
            // The number of shares is in a separate label, which may not have been exported.
            let is_shared = series
                .label(PRODUCT)
                .is_some_and(|product| product.ends_with("-SHARED"));
            if recorded.is_empty() || (is_shared && series.label(REPLICAS).is_none()) {
                continue;
            }
            // `Part::read` needs the labels of a node, so rebuild them from the series.
            let mut node = Node {
                name: name.to_owned(),
                labels: self.labels.get(name).cloned().unwrap_or_default(),
                ..Node::default()
            };
            node.labels.extend(recorded);
            let of_node = capacity.iter().filter(|((node, _), _)| node == name);
            let of_node = of_node.map(|((_, resource), units)| (resource_name(resource), units));
            let counted = of_node
                .filter(|(name, _)| LABELED.contains(&name.as_str()) || has_profile_labels(name));
            node.allocatable = counted
                .map(|(name, units)| (name, units.to_string()))
                .collect();
            let mut names: BTreeSet<String> = node.allocatable.keys().cloned().collect();
            names.extend(LABELED.map(str::to_owned));
            for resource in names {
                self.replace(&node, &resource);
            }
        }
        self
    }

    /// Replaces the kind of one resource with the kind on a node of the past.
    fn replace(&mut self, node: &Node, resource: &str) {
        let key = (node.name.clone(), clean(resource));
        match Part::read(node, &BTreeMap::new(), resource) {
            Some(part) => {
                self.by_resource.insert(key, part);
            }
            // Sharing by memory is recorded in an annotation, so labels cannot rule it out.
            None if self
                .by_resource
                .get(&key)
                .is_some_and(|part| !part.by_memory) =>
            {
                self.by_resource.remove(&key);
            }
            None => {}
        }
    }

    /// Adds the kinds that only the exporters' own series show. `aliases` are the names of nodes by
    /// name and address. Skips nodes with series in an earlier call, so that series of other times
    /// can be added after those of the time in question.
    #[must_use]
    pub fn with_exported(
        mut self,
        devices: &[Series],
        capacity: &[Series],
        aliases: &BTreeMap<String, String>,
    ) -> Self {
        let capacity = recorded_units(capacity);
        let names = capacity
            .keys()
            .map(|(node, _)| (node.clone(), node.clone()));
        let facts = ApiFacts::for_past(aliases.clone().into_iter().chain(names).collect(), []);
        let reader = IdentityReader::new(&facts, devices);
        let mut exported: BTreeMap<String, (ExportedInstances<'_>, Option<GpuType>)> =
            BTreeMap::new();
        for series in devices {
            let Some(device) = reader.device(series) else {
                continue;
            };
            let id = device
                .index
                .map(|index| index.to_string())
                .or_else(|| device.uuid.clone())
                .unwrap_or_default();
            let (instances, model) = exported.entry(device.node).or_default();
            instances.add(&id, device.slice.as_ref());
            // Several pods can have the same claim of a whole device.
            let pod = reader.named_pod(series);
            if let Some(pod) = pod.filter(|_| series.label(CLAIM).is_none()) {
                instances.add_pod(&id, pod, &series.points);
            }
            if model.is_none() {
                *model = IdentityReader::model(series).and_then(GpuType::parse);
            }
        }
        exported.retain(|node, _| !self.seen.contains(node));
        for ((node, resource), units) in capacity {
            let Some((instances, model)) = exported.get(&node) else {
                continue;
            };
            match self.unit(&node, &resource) {
                Some(ResourceUnit::Device) => {}
                Some(ResourceUnit::Part(part)) => {
                    let sized = instances.sized(part.clone(), units);
                    if sized != part {
                        self.by_resource.insert((node, resource), sized);
                    }
                    continue;
                }
                None => continue,
            }
            if self.has_instances(&node) {
                continue;
            }
            if let Some(part) = instances.part(units, model.as_ref()) {
                self.by_resource.insert((node, resource), part);
            }
        }
        self.seen.extend(exported.into_keys());
        self
    }

    /// Returns true if some node has several units that count as whole devices, and its exporter's
    /// series, which could show that they are parts, were not read.
    pub fn has_unseen_devices(&self, capacity: &[Series]) -> bool {
        recorded_units(capacity)
            .into_iter()
            .any(|((node, resource), units)| {
                units > 1
                    && !self.seen.contains(&node)
                    && self.unit(&node, &resource) == Some(ResourceUnit::Device)
            })
    }

    /// Returns true if another resource of the node has its instances.
    fn has_instances(&self, node: &str) -> bool {
        let mut on_node = self
            .by_resource
            .iter()
            .filter(|((part_node, _), _)| part_node == node);
        on_node.any(|(_, part)| part.instance)
    }

    /// Classifies a unit of a resource on a node, or returns `None` if it is not a device.
    /// `resource` is in the form of kube-state-metrics.
    pub fn unit(&self, node: &str, resource: &str) -> Option<ResourceUnit> {
        if let Some(part) = self
            .by_resource
            .get(&(node.to_owned(), resource.to_owned()))
        {
            return Some(ResourceUnit::Part(part.clone()));
        }
        let name = resource_name(resource);
        let is_listed = WHOLE.iter().any(|whole| clean(whole) == resource);
        // The name of a resource can show that its units are shares.
        if let Some(part) = Part::from_label(resource) {
            return Some(ResourceUnit::Part(part));
        }
        let is_device =
            is_listed || whole_partition(&name) || is_passthrough(&name) || ascend(&name).is_some();
        is_device.then_some(ResourceUnit::Device)
    }
}

/// Returns the recorded labels that are evidence, by their keys on the node.
fn recorded_labels(series: &Series) -> BTreeMap<String, String> {
    let listed = EVIDENCE_LABELS.iter().filter_map(|key| {
        let value = series.label(&format!("label_{}", clean(key)))?;
        Some(((*key).to_owned(), value.to_owned()))
    });
    let of_profiles = series.labels.iter().filter_map(|(key, value)| {
        let key = mig_label(key).filter(|key| is_evidence(key))?;
        Some((key, value.to_owned()))
    });
    listed.chain(of_profiles).collect()
}

/// Returns the highest recorded number of units by node and resource.
fn recorded_units(capacity: &[Series]) -> BTreeMap<(String, String), u64> {
    let mut units: BTreeMap<(String, String), u64> = BTreeMap::new();
    for series in capacity {
        let (Some(node), Some(resource)) = (label(series, "node"), series.label("resource")) else {
            continue;
        };
        let values = series.points.iter().map(|point| point.value);
        let highest = values
            .filter(|value| value.is_finite() && *value <= MOST_PER_NODE as f64)
            .fold(0.0, f64::max);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of devices"
        )]
        let highest = highest.round() as u64;
        let amount = units
            .entry((node.to_owned(), resource.to_owned()))
            .or_default();
        *amount = highest.max(*amount);
    }
    units
}

#[cfg(test)]
mod tests;
