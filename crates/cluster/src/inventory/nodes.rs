//! Reads the node fields that determine where a job can run.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures::future::join3;
use serde::Deserialize;

use gpuctl_core::model::facts::resource::VOLCANO_REGISTER;
use gpuctl_core::model::{HostCondition, Node, NodeFault, Nodes, Taint};

use super::condition::WireCondition;
use super::devices::claimable;
use crate::discovery::defaults::note_type_label;
use crate::transport::decode::{ListPage, ObjectMetadata};
use crate::{Failure, handles::NodesApi};

/// ConfigMap with facts about nodes and pools for users who cannot read nodes.
pub(crate) const FACTS: &str = "/api/v1/namespaces/gpuctl-system/configmaps/gpuctl-facts";

#[derive(Deserialize)]
struct WireNode<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default)]
    spec: NodeSpec<'a>,
    #[serde(borrow, default)]
    status: NodeStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct NodeSpec<'a> {
    #[serde(borrow)]
    taints: Vec<WireTaint<'a>>,
    pub unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTaint<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    value: Option<String>,
    #[serde(borrow)]
    effect: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus<'a> {
    allocatable: BTreeMap<String, String>,
    capacity: BTreeMap<String, String>,
    #[serde(borrow)]
    conditions: Vec<WireCondition<'a>>,
}

#[derive(Deserialize)]
struct FactsMap {
    data: BTreeMap<String, String>,
}

impl NodesApi<'_> {
    /// Lists all nodes, or the published ones if the user cannot list nodes.
    pub async fn list(self) -> Result<Nodes, Failure> {
        match self.described_nodes().await {
            Ok(nodes) => Ok(Nodes::Listed(nodes)),
            Err(failure) if failure.is_forbidden() => Ok(self
                .published_nodes()
                .await
                .map_or(Nodes::Hidden, Nodes::Published)),
            Err(failure) => Err(failure),
        }
    }

    /// Lists all nodes with their claimable devices and the label that holds their GPU type.
    pub(crate) async fn described_nodes(self) -> Result<Vec<Node>, Failure> {
        let (nodes, labels, slices) = join3(
            self.listed_nodes(),
            self.0.site().gpu_type_labels(),
            self.0.devices().optional("resourceslices"),
        )
        .await;
        let mut nodes = nodes?;
        nodes
            .iter_mut()
            .for_each(|node| note_type_label(node, &labels));
        // If the user cannot list slices, only the devices of device plugins count.
        let slices = slices?.unwrap_or_default();
        let classes = match slices.items.is_empty() {
            true => None,
            false => self.0.devices().optional("deviceclasses").await?,
        };
        let classes = classes.map(|classes| classes.items).unwrap_or_default();
        let mut devices = claimable(&slices, &classes);
        nodes
            .iter_mut()
            .for_each(|node| node.claimable = devices.remove(&node.name).unwrap_or_default());
        Ok(nodes)
    }

    /// Lists all nodes without the site's labels and claimable devices.
    async fn listed_nodes(self) -> Result<Vec<Node>, Failure> {
        let mut nodes = Vec::new();
        self.0
            .list("/api/v1/nodes", &[], |page| {
                let page: ListPage<WireNode<'_>> = page.objects()?;
                nodes.extend(page.items.iter().map(WireNode::node));
                Ok(())
            })
            .await?;
        Ok(nodes)
    }

    pub(crate) async fn published_nodes(self) -> Option<Vec<Node>> {
        let facts: FactsMap = self.0.get(FACTS).await.ok()?;
        serde_json::from_str(facts.data.get("nodes")?).ok()
    }
}

impl NodeSpec<'_> {
    pub(crate) fn taints(&self) -> Vec<Taint> {
        let taint = |taint: &WireTaint<'_>| Taint {
            key: taint.key.to_string(),
            value: taint.value.clone(),
            effect: taint.effect.to_string(),
        };
        self.taints.iter().map(taint).collect()
    }
}

/// Node resources that every pod uses, apart from devices.
pub(crate) const MACHINE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

fn picked(
    amounts: &BTreeMap<String, String>,
    filter: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    amounts
        .iter()
        .filter(|(key, _)| filter(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

impl WireNode<'_> {
    fn node(&self) -> Node {
        // HAMi and Volcano register the devices that they share in annotations of the node.
        let is_sharing = |key: &str| key.starts_with("hami.io/") || key == VOLCANO_REGISTER;
        let conditions = self.status.conditions.iter();
        let conditions: Vec<HostCondition> = conditions.map(WireCondition::condition).collect();
        Node {
            name: self.metadata.name.to_string(),
            labels: self.metadata.labels.clone(),
            annotations: self
                .metadata
                .annotations
                .iter()
                .filter(|(key, _)| is_sharing(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            // Only extended resources have a domain in their name.
            allocatable: picked(&self.status.allocatable, |key| key.contains('/')),
            capacity: picked(&self.status.capacity, |key| key.contains('/')),
            machine: picked(&self.status.allocatable, |key| {
                MACHINE.contains(&key) || key == "pods"
            }),
            taints: self.spec.taints(),
            schedulable: !self.spec.unschedulable,
            fault: NodeFault::of_conditions(&conditions),
            site_type_label: None,
            claimable: Vec::new(),
            slim: false,
        }
    }
}
