//! A node as far as placing a job needs it. It is also published in the cluster for users who may
//! not list nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu::{
    GpuType, REPLICAS_LABEL, SHARED_MEMORY, TYPE_LABELS, WHOLE, is_device, is_type_label,
};
use crate::model::contract::labels::POOL_LABEL;
use crate::model::counting::capacity::Amounts;
use crate::model::values::quantity;

/// What gpuctl reads of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The name of the object.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Only GPU sharing systems announce themselves there.
    pub annotations: BTreeMap<String, String>,
    /// Extended resources and their allocatable amounts, as written by the kubelet.
    pub allocatable: BTreeMap<String, String>,
    /// Extended resources that are installed, healthy or not: a device plugin that is down takes
    /// them from `allocatable` alone.
    #[serde(skip)]
    pub capacity: BTreeMap<String, String>,
    /// CPU, memory and disk that pods may request.
    #[serde(skip)]
    pub machine: BTreeMap<String, String>,
    /// Taints, which keep pods away that do not tolerate them.
    pub taints: Vec<Taint>,
    /// False when cordoned.
    pub schedulable: bool,
    /// The label by which this site tells the type of the node's GPUs, where it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site_type_label: Option<String>,
    /// Whole devices that drivers of dynamic allocation offer; what plugins offer is `allocatable`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claimable: Vec<ClaimableDevices>,
    /// True when most of its labels were left out, as they are when nodes are published.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slim: bool,
}

/// Whole devices of one product that a driver of dynamic allocation offers on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ClaimableDevices {
    /// The driver, such as `gpu.nvidia.com`; its class of devices has the same name.
    pub driver: String,
    /// The product as the driver tells it.
    pub product: Option<String>,
    /// How many, held or not.
    pub count: u64,
    /// The version of the API that tells of them: `v1`.
    pub api: String,
}

/// A taint that keeps pods away.
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

/// Taints by which vendors and clouds dedicate nodes to GPUs, with the value where the key alone
/// says too little. Anything else, a quarantine or somebody's reservation, is tolerated only by
/// whoever says so in `pod:`.
pub const DEDICATED: [(&str, Option<&str>); 3] = [
    ("nvidia.com/gpu", None),
    ("amd.com/gpu", None),
    // AKS, learn.microsoft.com/azure/aks/use-nvidia-gpu.
    ("sku", Some("gpu")),
];

/// The cluster's nodes, as far as a user may see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// As they are.
    Listed(Vec<Node>),
    /// As somebody published them for users who may not list nodes: perhaps they are others by now.
    Published(Vec<Node>),
    /// The user may not list nodes, and nobody published them.
    #[default]
    Hidden,
}

impl Nodes {
    /// Returns the nodes that are known of.
    pub fn all(&self) -> &[Node] {
        match self {
            Self::Listed(nodes) | Self::Published(nodes) => nodes,
            Self::Hidden => &[],
        }
    }
}

impl Node {
    /// Returns the pool that the node is in.
    pub fn pool(&self) -> Option<&str> {
        self.labels.get(POOL_LABEL).map(String::as_str)
    }

    /// Returns the product of the node's devices as its vendor's label says it, whatever people
    /// call their type.
    pub fn product(&self) -> &str {
        let vendor = TYPE_LABELS
            .iter()
            .skip(1)
            .find_map(|key| self.labels.get(*key));
        vendor
            .map(String::as_str)
            .or_else(|| self.type_label().map(|(_, value)| value))
            .unwrap_or("unknown")
    }

    /// Returns the label that tells the type of the node's GPUs, as (key, value).
    pub fn type_label(&self) -> Option<(&str, &str)> {
        let of_site = self
            .site_type_label
            .as_ref()
            .and_then(|key| self.labels.get_key_value(key));
        let known = of_site.or_else(|| {
            TYPE_LABELS
                .iter()
                .find_map(|key| self.labels.get_key_value(*key))
        });
        let found = known.or_else(|| self.labels.iter().find(|(key, _)| is_type_label(key)));
        found.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns the type of the node's GPUs; `None` without GPUs or without a label that tells it.
    pub fn gpu_type(&self) -> Option<GpuType> {
        let told = self.has_gpus().then(|| {
            self.type_label()
                .and_then(|(_, value)| GpuType::parse(value))
        })?;
        let mut products = self
            .claimable
            .iter()
            .filter_map(|devices| devices.product.as_deref().and_then(GpuType::parse));
        // Of several products no one is the node's.
        told.or_else(|| {
            products
                .next()
                .filter(|first| products.all(|other| other == *first))
        })
    }

    /// Returns how many units of an extended resource may be requested.
    pub fn allocatable(&self, resource: &str) -> u64 {
        self.allocatable
            .get(resource)
            .and_then(|text| quantity::units(text))
            .unwrap_or(0)
    }

    /// Returns how many units of an extended resource are installed, healthy or not.
    pub fn installed(&self, resource: &str) -> u64 {
        let told = self
            .capacity
            .get(resource)
            .and_then(|text| quantity::units(text))
            .unwrap_or(0);
        told.max(self.allocatable(resource))
    }

    /// Returns what one pod may request at most of a node that nobody else uses. Cordons and taints
    /// are not looked at.
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

    /// Returns what may be requested now where nobody uses the node yet.
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

    /// Returns the resource that counts the node's whole GPUs.
    pub fn whole_resource(&self) -> Option<&'static str> {
        WHOLE
            .into_iter()
            .find(|resource| self.installed(resource) > 0)
    }

    /// Returns how many shares the device plugin makes of each device, by time-slicing or MPS,
    /// where it makes any.
    pub fn shares(&self) -> Option<u32> {
        let count = self
            .labels
            .get(REPLICAS_LABEL)
            .and_then(|text| text.parse().ok());
        count.filter(|count| *count > 1)
    }

    /// Returns true when what the node offers under the name of whole GPUs are parts: shares, or
    /// slices of MIG's single strategy.
    pub fn offers_parts_as_gpus(&self) -> bool {
        let product = self
            .labels
            .get("nvidia.com/gpu.product")
            .map_or("", String::as_str);
        self.shares().is_some() || product.contains("-MIG-") || product.ends_with("-SHARED")
    }

    /// Returns true for whole devices, slices or shares, free or not.
    pub fn has_gpus(&self) -> bool {
        let counts = |resource: &str| is_device(resource) || resource == SHARED_MEMORY;
        let mut told = self.allocatable.keys().chain(self.capacity.keys());
        !self.claimable.is_empty()
            || told.any(|resource| counts(resource) && self.installed(resource) > 0)
    }

    /// Returns true when something may add nodes like this one: a node group of a cloud, or
    /// Karpenter.
    pub fn is_autoscaled(&self) -> bool {
        self.labels.keys().any(|label| is_group_label(label))
    }
}

/// Returns true for labels of node groups that something may add nodes to.
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
