//! Reads nodes and their free capacity.

use gpuctl_cluster::Connection;
use gpuctl_core::error::Error;
use gpuctl_core::model::Nodes;
use gpuctl_core::model::counting::candidates::ClusterCapacity;
use gpuctl_core::model::counting::capacity::Amounts;
use gpuctl_core::model::counting::device_demand::DeviceClaims;

/// Nodes and their free capacity, read once per run.
pub(crate) struct NodeCapacity {
    pub nodes: Nodes,
    /// `None` if the user may not list all pods.
    pub free_resources: Option<ClusterCapacity>,
}

impl NodeCapacity {
    pub(crate) async fn read(connection: &Connection) -> Result<Self, Error> {
        let nodes = connection.nodes().list().await?;
        let free_resources = match &nodes {
            Nodes::Listed(nodes) => connection.inventory().capacity(nodes).await?,
            Nodes::Published(_) | Nodes::Hidden => None,
        };
        Ok(Self {
            nodes,
            free_resources,
        })
    }

    /// Copies the nodes together with their capacity of the devices that a pod claims, and adds
    /// these devices to the pod's requests. Returns `None` if the pod claims no devices that can be
    /// compared.
    pub(crate) fn with_devices(
        &self,
        devices: &DeviceClaims,
        requests: &mut Amounts,
    ) -> Option<Self> {
        let Nodes::Listed(nodes) = &self.nodes else {
            return None;
        };
        if !matches!(devices, DeviceClaims::Compared(_)) {
            return None;
        }
        let (mut nodes, mut free_resources) = (nodes.clone(), self.free_resources.clone());
        devices.add_to(requests, &mut nodes, free_resources.as_mut());
        Some(Self {
            nodes: Nodes::Listed(nodes),
            free_resources,
        })
    }

    /// Reads the nodes but not their free capacity. This is enough if every pod has been scheduled.
    pub(crate) async fn read_nodes(connection: &Connection) -> Result<Self, Error> {
        Ok(Self {
            nodes: connection.nodes().list().await?,
            free_resources: None,
        })
    }

    /// Returns no nodes, for a job that does not need them.
    pub(crate) fn hidden() -> Self {
        Self {
            nodes: Nodes::Hidden,
            free_resources: None,
        }
    }
}
