//! A node with the details that determine which jobs it can run. For users who cannot list nodes,
//! gpuctl publishes copies in the cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu::{GpuType, REPLICAS_LABEL, SHARED_MEMORY, TYPE_LABELS, WHOLE, is_type_label};
use super::node_fault::NodeFault;
use super::resource::{is_device, passthrough_model};
use crate::model::contract::labels::POOL_LABEL;
use crate::model::counting::capacity::Amounts;
use crate::model::values::quantity;

/// Values of type labels that mean that the node has GPUs, without a type.
const FLAGS: [&str; 3] = ["true", "false", "present"];

/// The fields of a node that gpuctl reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The name of the Node object.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Only the annotations of GPU sharing systems.
    pub annotations: BTreeMap<String, String>,
    /// Extended resources and their allocatable amounts, as the kubelet writes them.
    pub allocatable: BTreeMap<String, String>,
    /// Installed extended resources, healthy or not. A device plugin that is down removes them only
    /// from `allocatable`.
    #[serde(skip)]
    pub capacity: BTreeMap<String, String>,
    /// Allocatable CPU, memory and disk.
    #[serde(skip)]
    pub machine: BTreeMap<String, String>,
    /// Taints, which repel pods that do not tolerate them.
    pub taints: Vec<Taint>,
    /// False when the node is cordoned.
    pub schedulable: bool,
    /// The fault that its conditions report. `None` in published copies, whose health is unknown.
    #[serde(skip)]
    pub fault: Option<NodeFault>,
    /// The label that contains the type of the node's GPUs, if the site uses its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site_type_label: Option<String>,
    /// Whole devices offered by DRA drivers. Devices of device plugins are in `allocatable`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claimable: Vec<ClaimableDevices>,
    /// True when most of its labels were omitted, as in published copies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slim: bool,
}

/// Whole devices of one product that a DRA driver offers on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ClaimableDevices {
    /// The driver, such as `gpu.nvidia.com`; its device class has the same name.
    pub driver: String,
    /// The product name that the driver reports.
    pub product: Option<String>,
    /// The number of devices, allocated or not.
    pub count: u64,
    /// The API version in which they were read: `v1`.
    pub api: String,
    /// Extended resources that a device class serves with them, such as `nvidia.com/gpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<String>,
}

/// A taint that repels pods.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
pub struct Taint {
    /// Such as `nvidia.com/gpu`.
    pub key: String,
    /// Often absent.
    #[serde(default)]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Taints with which vendors and clouds dedicate nodes to GPUs, with a value if the key alone is
/// ambiguous. gpuctl's jobs tolerate these. Other taints, such as a quarantine or a reservation,
/// are tolerated only if the `pod:` section of a job lists them.
pub const DEDICATED: [(&str, Option<&str>); 3] = [
    ("nvidia.com/gpu", None),
    ("amd.com/gpu", None),
    // Set by AKS. Source: learn.microsoft.com/azure/aks/use-nvidia-gpu.
    ("sku", Some("gpu")),
];

/// The nodes of the cluster, depending on the user's rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The current nodes.
    Listed(Vec<Node>),
    /// A published copy for users who cannot list nodes, which may be outdated.
    Published(Vec<Node>),
    /// The user cannot list nodes, and there is no published copy.
    #[default]
    Hidden,
}

impl Nodes {
    /// Returns the nodes, or an empty slice if the user cannot see them.
    pub fn all(&self) -> &[Node] {
        match self {
            Self::Listed(nodes) | Self::Published(nodes) => nodes,
            Self::Hidden => &[],
        }
    }
}

impl Node {
    /// Returns the pool of the node.
    pub fn pool(&self) -> Option<&str> {
        self.labels.get(POOL_LABEL).map(String::as_str)
    }

    /// Returns the product of the node's devices. Prefers the vendors' labels to types that users
    /// set.
    pub fn product(&self) -> &str {
        // The first label is set by users and gpuctl, the others by vendors and clouds.
        let vendor = TYPE_LABELS
            .iter()
            .skip(1)
            .find_map(|key| self.labels.get(*key));
        vendor
            .map(String::as_str)
            .or_else(|| self.type_label().map(|(_, value)| value))
            .unwrap_or("unknown")
    }

    /// Returns the label with the type of the node's GPUs, as (key, value).
    pub fn type_label(&self) -> Option<(&str, &str)> {
        let site_label = self
            .site_type_label
            .as_ref()
            .and_then(|key| self.labels.get_key_value(key));
        let known_label = site_label.or_else(|| {
            TYPE_LABELS
                .iter()
                .find_map(|key| self.labels.get_key_value(*key))
        });
        let label = known_label.or_else(|| self.labels.iter().find(|(key, _)| is_type_label(key)));
        label.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the GPU type according to the type label, AMD's device ID, or the resources of
    /// devices that are passed through to virtual machines.
    pub fn model(&self) -> Option<GpuType> {
        let by_label = self
            .type_label()
            .filter(|(_, value)| !FLAGS.contains(value))
            .and_then(|(_, value)| GpuType::parse(value));
        let by_id = || {
            let id = self.labels.get("amd.com/gpu.device-id")?;
            GpuType::parse(amd_model(id)?)
        };
        let by_resource = || {
            let mut resources = self.allocatable.keys().chain(self.capacity.keys());
            resources.find_map(|resource| GpuType::parse(passthrough_model(resource)?))
        };
        by_label.or_else(by_id).or_else(by_resource)
    }

    /// Returns the type of the node's GPUs, or `None` if the node has no GPUs or its type is
    /// unknown.
    pub fn gpu_type(&self) -> Option<GpuType> {
        let parsed = self.has_gpus().then(|| self.model())?;
        let mut products = self
            .claimable
            .iter()
            .filter_map(|devices| devices.product.as_deref().and_then(GpuType::parse));
        // A node whose DRA devices have several products has no single type.
        parsed.or_else(|| {
            products
                .next()
                .filter(|first| products.all(|other| other == *first))
        })
    }

    /// Returns the allocatable units of an extended resource.
    pub fn allocatable(&self, resource: &str) -> u64 {
        self.allocatable
            .get(resource)
            .and_then(|text| quantity::units(text))
            .unwrap_or(0)
    }

    /// Returns the installed units of an extended resource, healthy or not.
    pub fn installed(&self, resource: &str) -> u64 {
        let reported = self
            .capacity
            .get(resource)
            .and_then(|text| quantity::units(text))
            .unwrap_or(0);
        // Published copies do not include the capacity.
        reported.max(self.allocatable(resource))
    }

    /// Returns the amounts that one pod could request on an empty, healthy node, ignoring cordons
    /// and taints.
    pub fn most(&self) -> Amounts {
        let extended = self.allocatable.keys().chain(self.capacity.keys());
        let extended = extended.map(|resource| {
            (
                resource.clone(),
                i128::from(self.installed(resource)) * 1000,
            )
        });
        extended.chain(self.machine_amounts()).collect()
    }

    /// Returns the amounts that pods could request now if the node were empty.
    pub fn now(&self) -> Amounts {
        let extended = self.allocatable.keys().map(|resource| {
            (
                resource.clone(),
                i128::from(self.allocatable(resource)) * 1000,
            )
        });
        extended.chain(self.machine_amounts()).collect()
    }

    fn machine_amounts(&self) -> impl Iterator<Item = (String, i128)> {
        self.machine
            .iter()
            .filter_map(|(resource, text)| Some((resource.clone(), quantity::milli(text)?)))
    }

    /// Returns the extended resource that counts the node's whole GPUs.
    pub fn whole_resource(&self) -> Option<&'static str> {
        WHOLE
            .into_iter()
            .find(|resource| self.installed(resource) > 0)
    }

    /// Returns the number of devices that DRA offers under the name of an extended resource. DRA
    /// serves a resource only where no device plugin offers it.
    pub fn served_by_claims(&self, resource: &str) -> u64 {
        let devices = self.claimable.iter().filter(|devices| {
            self.allocatable(resource) == 0 && devices.extended.iter().any(|name| name == resource)
        });
        devices.map(|devices| devices.count).sum()
    }

    /// Returns the number of shares per device, if the device plugin shares devices through
    /// time-slicing or MPS.
    pub fn shares(&self) -> Option<u32> {
        let count = self
            .labels
            .get(REPLICAS_LABEL)
            .and_then(|text| text.parse().ok());
        count.filter(|count| *count > 1)
    }

    /// Returns true if the node offers parts of devices under the resource name of whole GPUs:
    /// shares, or slices with MIG's single strategy.
    pub fn offers_parts_as_gpus(&self) -> bool {
        let product = self
            .labels
            .get("nvidia.com/gpu.product")
            .map_or("", String::as_str);
        self.shares().is_some() || product.contains("-MIG-") || product.ends_with("-SHARED")
    }

    /// Returns true if the node has whole devices, slices or shares, free or not.
    pub fn has_gpus(&self) -> bool {
        let counts = |resource: &str| is_device(resource) || resource == SHARED_MEMORY;
        let mut resources = self.allocatable.keys().chain(self.capacity.keys());
        !self.claimable.is_empty()
            || resources.any(|resource| counts(resource) && self.installed(resource) > 0)
    }

    /// Returns true if an autoscaler may add similar nodes, because the node belongs to a cloud's
    /// node group or to Karpenter.
    pub fn is_autoscaled(&self) -> bool {
        self.labels.keys().any(|label| is_group_label(label))
    }
}

/// Returns the model with this PCI device ID, for nodes whose AMD labels lack the product
/// (ROCm/k8s-device-plugin#112). Source: the PCI ID database.
fn amd_model(device_id: &str) -> Option<&'static str> {
    const MODELS: [(&str, &str); 14] = [
        ("738c", "MI100"),
        ("7408", "MI250X"),
        ("740c", "MI250X"),
        ("740f", "MI210"),
        ("74a0", "MI300A"),
        ("74a1", "MI300X"),
        ("74a2", "MI308X"),
        ("74a5", "MI325X"),
        ("74a9", "MI300X"),
        ("74b5", "MI300X"),
        ("74b6", "MI308X"),
        ("74b9", "MI325X"),
        ("75a0", "MI350X"),
        ("75a3", "MI355X"),
    ];
    let id = device_id.trim_start_matches("0x").to_ascii_lowercase();
    MODELS
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, model)| *model)
}

/// Returns true for labels of node groups that an autoscaler may scale.
pub fn is_group_label(key: &str) -> bool {
    const GROUPS: [&str; 5] = [
        "karpenter.sh/nodepool",
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "cluster.x-k8s.io/deployment-name",
    ];
    GROUPS.contains(&key)
}
