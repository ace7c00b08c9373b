//! Reads nodes, the pods of all namespaces, and devices of dynamic resource allocation
//! concurrently. Parts that the user cannot read are unknown.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures::future::join5;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::condition::WireCondition;
use super::devices::{Claimed, devices};
use super::held_pod::ConsumerReader;
use super::nodes::NodeSpec;
use crate::discovery::defaults::note_type_label;
use crate::transport::decode::ListPage;
use crate::transport::lenient;
use crate::transport::list::Page;
use crate::transport::refusal::unreadable_answer;
use crate::{Failure, handles::InventoryApi};
use gpuctl_core::model::facts::resource::VOLCANO_REGISTER;
use gpuctl_core::model::{Consumers, Device, Inventory, Node, NodeDetails};

/// An inventory and the kinds that the user could not read.
#[derive(Clone)]
pub struct InventorySnapshot {
    pub inventory: Inventory,
    /// Pods that have not terminated, or `None` if the user cannot list the pods of all namespaces.
    pub consumers: Option<Consumers>,
    /// Devices of dynamic resource allocation.
    pub devices: Vec<Device>,
    /// Kinds that the user cannot list in the whole cluster, such as `pods` or `resource slices`.
    pub unreadable: Vec<&'static str>,
    /// The error from listing nodes, if the nodes are the published ones.
    refused: Option<Failure>,
}

impl InventorySnapshot {
    /// Returns the error from listing nodes if the nodes are only the published ones. Used by
    /// callers that need the current state of nodes.
    pub fn listed(self) -> Result<Self, Failure> {
        match self.refused {
            Some(failure) => Err(failure),
            None => Ok(self),
        }
    }
}

/// Responses that make up an inventory. Slices and claims are `None` if the user cannot read them.
struct InventoryParts {
    nodes: Result<Vec<NodeDetails>, Failure>,
    pods: Result<Consumers, Failure>,
    slices: Result<Option<Claimed>, Failure>,
    claims: Result<Option<Claimed>, Failure>,
}

#[derive(Deserialize)]
struct WireHost<'a> {
    #[serde(borrow, default)]
    metadata: HostMetadata<'a>,
    #[serde(borrow, default)]
    spec: NodeSpec<'a>,
    #[serde(borrow, default)]
    status: HostStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HostMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(deserialize_with = "lenient::time")]
    creation_timestamp: Option<Timestamp>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HostStatus<'a> {
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    #[serde(borrow)]
    conditions: Vec<WireCondition<'a>>,
    addresses: Vec<WireAddress>,
    #[serde(borrow)]
    node_info: NodeInfo<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireAddress {
    address: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo<'a> {
    #[serde(borrow)]
    kernel_version: Cow<'a, str>,
    #[serde(borrow)]
    os_image: Cow<'a, str>,
}

impl InventoryApi<'_> {
    /// Reads nodes, GPUs and the pods that hold them. Fails only if the nodes cannot be read.
    pub async fn snapshot(self) -> Result<InventorySnapshot, Failure> {
        let unfinished = [(
            "fieldSelector",
            "status.phase!=Succeeded,status.phase!=Failed",
        )];
        self.snapshot_with(&unfinished, |_| Ok(())).await.0
    }

    /// Reads an inventory whose consumers are only the selected pods, and passes each page of pods
    /// to `visit`. The second result is an error if the pods could not be listed.
    pub(crate) async fn snapshot_with(
        self,
        selection: &[(&str, &str)],
        mut visit: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> (Result<InventorySnapshot, Failure>, Result<(), Failure>) {
        let mut hosts = Vec::new();
        let nodes = self.0.list("/api/v1/nodes", &[], |page| {
            let page: ListPage<WireHost<'_>> = page.objects()?;
            hosts.extend(page.items.iter().map(WireHost::host));
            Ok(())
        });
        let (mut reader, mut consumers) = (ConsumerReader::default(), Consumers::default());
        let pods = self.0.list("/api/v1/pods", selection, |page| {
            let pods = reader.of_page(page)?;
            // Add the consumers only after both readers have succeeded. If either fails, the page
            // is requested again.
            visit(page)?;
            consumers.extend(pods);
            Ok(())
        });
        let (slices, claims) = (
            self.0.devices().optional("resourceslices"),
            self.0.devices().optional("resourceclaims"),
        );
        let (nodes, pods, slices, claims, labels) =
            join5(nodes, pods, slices, claims, self.0.site().gpu_type_labels()).await;
        hosts
            .iter_mut()
            .for_each(|host: &mut NodeDetails| note_type_label(&mut host.node, &labels));
        let pods_result = pods.clone();
        let parts = InventoryParts {
            nodes: nodes.map(|()| hosts),
            pods: pods.map(|()| consumers),
            slices,
            claims,
        };
        (self.assemble(parts).await, pods_result)
    }

    async fn assemble(self, parts: InventoryParts) -> Result<InventorySnapshot, Failure> {
        let (mut unreadable, mut refused) = (Vec::new(), None);
        let mut hosts: Vec<NodeDetails> = match parts.nodes {
            // The published facts contain the GPUs of nodes but not their conditions.
            Err(failure) if failure.is_forbidden() => {
                let nodes = self
                    .0
                    .nodes()
                    .published_nodes()
                    .await
                    .ok_or_else(|| failure.clone())?;
                refused = Some(failure);
                unreadable.push("nodes");
                nodes.into_iter().map(published).collect()
            }
            other => other?,
        };
        let consumers = match parts.pods {
            Err(failure) if failure.is_forbidden() => {
                unreadable.push("pods");
                None
            }
            other => Some(other?),
        };
        let slices = parts.slices?.unwrap_or_else(|| {
            unreadable.push("resource slices");
            hosts.iter_mut().for_each(|host| host.may_be_claimed = true);
            Claimed::default()
        });
        let claims = parts.claims?;
        if claims.is_none() {
            unreadable.push("resource claims");
        }
        let rules = match slices.items.is_empty() {
            true => Some(Vec::new()),
            false => self.0.devices().taint_rules().await?,
        };
        let rules = rules.unwrap_or_else(|| {
            unreadable.push("device taint rules");
            Vec::new()
        });
        let claims = claims.as_ref().map(|claims| claims.items.as_slice());
        let devices = devices(&slices.items, claims, &rules);
        let inventory = Inventory::new(hosts, consumers.as_ref(), &devices);
        Ok(InventorySnapshot {
            inventory,
            consumers,
            devices,
            unreadable,
            refused,
        })
    }

    /// Lists the pods of one namespace that have not terminated.
    pub async fn consumers(self, namespace: &str) -> Result<Consumers, Failure> {
        let (mut reader, mut consumers) = (ConsumerReader::default(), Consumers::default());
        let unfinished = [(
            "fieldSelector",
            "status.phase!=Succeeded,status.phase!=Failed",
        )];
        self.0
            .list(
                &format!("/api/v1/namespaces/{namespace}/pods"),
                &unfinished,
                |page| {
                    consumers.extend(reader.of_page(page)?);
                    Ok(())
                },
            )
            .await?;
        Ok(consumers)
    }

    /// Reads one node, the times at which its labels were written, and its `resourceVersion` for a
    /// conditional write.
    pub async fn host(self, name: &str) -> Result<Option<(NodeDetails, String)>, Failure> {
        let Some(object) = self.0.find_in::<Value>("/api/v1/nodes", name).await? else {
            return Ok(None);
        };
        let text = object.to_string();
        let wire: WireHost<'_> = serde_json::from_str(&text)
            .map_err(|error| unreadable_answer(&self.0.server, text.as_bytes(), &error))?;
        let version = object
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        Ok(Some((
            NodeDetails {
                labels_written: labels_written(&object),
                ..wire.host()
            },
            version,
        )))
    }
}

fn published(node: Node) -> NodeDetails {
    NodeDetails {
        capacity: node.allocatable.clone(),
        allocatable: node.allocatable.clone(),
        node,
        published: true,
        ..NodeDetails::default()
    }
}

impl WireHost<'_> {
    fn host(&self) -> NodeDetails {
        let metadata = &self.metadata;
        let is_sharing = |key: &str| key.starts_with("hami.io/") || key == VOLCANO_REGISTER;
        let extended = |map: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            map.iter()
                .filter(|(key, _)| key.contains('/'))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        NodeDetails {
            node: Node {
                name: metadata.name.to_string(),
                labels: metadata.labels.clone(),
                annotations: metadata
                    .annotations
                    .iter()
                    .filter(|(key, _)| is_sharing(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
                allocatable: extended(&self.status.allocatable),
                capacity: extended(&self.status.capacity),
                machine: BTreeMap::new(),
                taints: self.spec.taints(),
                schedulable: !self.spec.unschedulable,
                fault: None,
                site_type_label: None,
                claimable: Vec::new(),
                slim: false,
            },
            capacity: self.status.capacity.clone(),
            allocatable: self.status.allocatable.clone(),
            conditions: self
                .status
                .conditions
                .iter()
                .map(WireCondition::condition)
                .collect(),
            addresses: self
                .status
                .addresses
                .iter()
                .map(|address| address.address.clone())
                .collect(),
            created_at: metadata.creation_timestamp,
            kernel: self.status.node_info.kernel_version.to_string(),
            os_image: self.status.node_info.os_image.to_string(),
            labels_written: BTreeMap::new(),
            may_be_claimed: false,
            published: false,
        }
    }
}

/// Returns the time at which each label was written. `managedFields` has one time per manager,
/// which is that of the manager's last write to any field. A label's time is therefore known only
/// if its manager owns no other field.
fn labels_written(node: &Value) -> BTreeMap<String, Timestamp> {
    let mut times = BTreeMap::new();
    let managers = node
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for manager in managers {
        let time = manager["time"]
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok());
        let labels = manager
            .pointer("/fieldsV1/f:metadata/f:labels")
            .and_then(Value::as_object);
        let (Some(time), Some(labels)) = (time, labels) else {
            continue;
        };
        if leaves(&manager["fieldsV1"]) > 1 {
            continue;
        }
        // A manager can have several entries, such as one for Apply and one for Update.
        for key in labels.keys().filter_map(|key| key.strip_prefix("f:")) {
            let newest = times.entry(key.to_owned()).or_insert(time);
            *newest = (*newest).max(time);
        }
    }
    times
}

/// Counts the fields that a manager owns.
fn leaves(fields: &Value) -> usize {
    match fields.as_object() {
        Some(map) if !map.is_empty() => map
            .iter()
            .filter(|(key, _)| *key != ".")
            .map(|(_, value)| leaves(value))
            .sum(),
        _ => 1,
    }
}
